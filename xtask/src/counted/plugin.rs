//! [`Plugin`]: the plugin, built, and QEMU's arguments for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};

use super::marks::Marks;
use crate::image::Elf;
use crate::qemu::{self, command::escape};
use crate::setup::build::{Package, Profile, bring_up_to_date};
use crate::term::WithHelp;

const PACKAGE: Package = Package {
    name: "takt-plugin",
    profile: Profile::Release,
    file: "libtakt_plugin.so",
    first: "it counts what the guest executes",
    takes: "some seconds",
    needs: "a linker for the host: cargo xtask doctor",
};

/// The plugin, with the instructions that it logs.
#[derive(Clone, Debug)]
pub struct Plugin {
    library: PathBuf,
    marks: String,
}

impl Plugin {
    /// Builds the plugin if it is not up to date, for a guest that boots this image.
    ///
    /// # Errors
    ///
    /// If QEMU takes no plugins, the plugin does not build, or the image does not measure timerlat.
    pub fn new(elf: &Elf) -> Result<Self> {
        Self::with_marks(Marks::of(elf)?.addresses())
    }

    /// The same with the instructions at these addresses as its marks, in the order of their numbers.
    ///
    /// # Errors
    ///
    /// If QEMU takes no plugins, or the plugin does not build.
    pub fn with_marks(addresses: impl Iterator<Item = u64>) -> Result<Self> {
        check_qemu()?;
        let addresses: Vec<_> = addresses.map(|at| format!("{at:x}")).collect();
        Ok(Self {
            library: bring_up_to_date(&PACKAGE)?,
            marks: format!("marks={}", addresses.join("+")),
        })
    }

    /// QEMU's arguments with the plugin, which logs to `log`.
    #[must_use]
    pub fn added_to(&self, mut arguments: Vec<OsString>, log: &Path) -> Vec<OsString> {
        let plugin = format!(
            "{},log={},{}",
            escape(&self.library),
            escape(log),
            self.marks
        );
        arguments.extend(["-plugin".into(), plugin.into()]);
        arguments
    }
}

/// Refuses a QEMU that was built without plugins: its help has not the option.
///
/// # Errors
///
/// If it was, or there is none.
pub fn check_qemu() -> Result<()> {
    let program = qemu::program();
    let output = Command::new(&program)
        .arg("-help")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if String::from_utf8_lossy(&output.stdout).contains("\n-plugin ") {
        return Ok(());
    }
    Err(anyhow!(
        "{} was built without plugins, so nobody can count what it executes",
        program.display()
    ))
    .help("name a QEMU that was configured with --enable-plugins, as Debian's is, by TAKT_QEMU")
}
