//! [`Plugin`]: the plugin, built, and QEMU's arguments for it.

use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};

use super::marks::Marks;
use crate::qemu;
use crate::qemu::command::escape;
use takt_base::setup::build::{Package, Profile, bring_up_to_date};
use takt_base::term::WithHelp;
use takt_guest::Elf;
use takt_guest::symbolize::{SymbolNames, without_hash};

const PACKAGE: Package = Package {
    name: "takt-plugin",
    profile: Profile::Release,
    file: "libtakt_plugin.so",
    first: "it counts what the guest executes",
    takes: "some seconds",
    needs: "a linker for the host: cargo xtask doctor",
};

/// What timerlat's and cyclictest's threads call behind each sample, by a pointer.
const BEHIND_SAMPLE: &str = "timerlat::command";
/// What they call when a latency is above its threshold.
const AT_THRESHOLD: &str = "takt_timerlat::workload::threshold_hit";

/// The plugin, with the instructions that it logs, or where it has the guest stand.
#[derive(Clone, Debug, Default)]
pub struct Plugin {
    library: PathBuf,
    marks: Option<String>,
    /// It counts the cache lines that are touched between them, but for these addresses.
    lines: Option<String>,
    stand: Option<u64>,
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
            marks: Some(format!("marks={}", addresses.join("+"))),
            ..Self::default()
        })
    }

    /// This plugin, which also counts the cache lines of data that are touched from one mark to the next, but for accesses to these
    /// addresses.
    #[must_use]
    pub fn counting_lines(self, others: &[Range<u64>]) -> Self {
        let others = others
            .iter()
            .map(|it| format!("{:x}-{:x}", it.start, it.end));
        let others: Vec<_> = others.collect();
        Self {
            lines: Some(format!(",lines={}", others.join("+"))),
            ..self
        }
    }

    /// The plugin for a guest that is to stand behind each sample.
    ///
    /// # Errors
    ///
    /// If QEMU takes no plugins, the plugin does not build, or the image does not measure.
    pub fn standing(elf: &Elf) -> Result<Self> {
        check_qemu()?;
        let address = function(elf, BEHIND_SAMPLE)
            .ok_or_else(|| anyhow!("the image has no function `{BEHIND_SAMPLE}`"))
            .help("`continue` is for the image that latency-run builds: leave --image out")?;
        Ok(Self {
            library: bring_up_to_date(&PACKAGE)?,
            stand: Some(address),
            ..Self::default()
        })
    }

    /// This plugin, which also has the guest stand where a latency is found to be above its threshold. Not in an image without
    /// such a place.
    #[must_use]
    pub fn standing_at_threshold(self, elf: &Elf) -> Self {
        Self {
            stand: function(elf, AT_THRESHOLD),
            ..self
        }
    }

    /// Both in one.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            library: self.library,
            marks: self.marks.or(other.marks),
            lines: self.lines.or(other.lines),
            stand: self.stand.or(other.stand),
        }
    }

    /// Whether it counts, for [`Verification`](super::Verification).
    #[must_use]
    pub fn counts(&self) -> bool {
        self.marks.is_some()
    }

    /// Whether it has the guest stand.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.stand.is_some()
    }

    /// QEMU's arguments with the plugin, which logs to `log`, and asks by these pipes.
    #[must_use]
    pub fn added_to(
        &self,
        mut arguments: Vec<OsString>,
        log: &Path,
        pipes: Option<&[PathBuf; 2]>,
    ) -> Vec<OsString> {
        let mut plugin = escape(&self.library);
        if let Some(marks) = &self.marks {
            plugin += &format!(",log={},{marks}", escape(log));
            plugin.extend(self.lines.as_deref());
        }
        if let (Some(address), Some([asked, answered])) = (self.stand, pipes) {
            let (asked, answered) = (escape(asked), escape(answered));
            plugin += &format!(",stand={address:x},asked={asked},answered={answered}");
        }
        arguments.extend(["-plugin".into(), plugin.into()]);
        arguments
    }
}

/// The address of a function.
fn function(elf: &Elf, name: &str) -> Option<u64> {
    let symbols = SymbolNames::new(elf);
    let mut all = symbols.iter();
    let found = all.find(|(_, it)| without_hash(it) == name);
    found.map(|(address, _)| address)
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
