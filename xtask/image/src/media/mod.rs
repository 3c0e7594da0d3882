//! Media that a machine boots from: a stripped image and GRUB, which loads it by Multiboot2.
//!
//! | module | content |
//! |---|---|
//! | [`disk`] | what the system says of a disk, and whether it may be overwritten |
//! | [`flash`] | writing a medium to it, and reading it back |
//! | [`grub`] | GRUB's configuration, and how words get through it unchanged |
//! | [`iso`] | an ISO file for CD and USB stick, BIOS and UEFI |
//! | [`netdir`] | a folder for booting over the network |
//! | [`strip`] | an image without what only the host reads |

pub mod disk;
pub mod flash;
pub mod grub;
pub mod iso;
pub mod netdir;
pub mod strip;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use takt_base::{output, paths};
use takt_guest::Elf;

/// Where the image lies on every medium.
const IMAGE: &str = "boot/takt";
/// Where GRUB looks for its configuration on every medium.
const CONFIG: &str = "boot/grub/grub.cfg";

/// What is to be booted.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The image's file, stripped.
    pub image: Vec<u8>,
    /// The kernel's command line.
    pub words: String,
}

impl Contents {
    /// Lays them out under `root`, as GRUB finds them.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    fn write(&self, root: &Path) -> Result<()> {
        let write = |name: &str, bytes: &[u8]| {
            let file = root.join(name);
            let dir = file.parent().unwrap_or(root);
            fs::create_dir_all(dir)
                .and_then(|()| fs::write(&file, bytes))
                .with_context(|| format!("cannot write {}", file.display()))
        };
        write(IMAGE, &self.image)?;
        write(CONFIG, grub::config(&self.words).as_bytes())
    }
}

/// Where the unstripped image of this build id is kept, if a medium was made of it: no build directory, since the medium is
/// worth nothing for figures without it.
#[must_use]
pub fn kept(build_id: &[u8]) -> PathBuf {
    let name = format!("{}.elf", hex(build_id));
    paths::media().join(name)
}

/// A build id as it is written.
#[must_use]
pub fn hex(build_id: &[u8]) -> String {
    build_id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Keeps an image that a medium is made of, by its build id: the next build replaces the file that it is in. Says where.
///
/// # Errors
///
/// If it cannot be written.
pub fn keep(elf: &Elf) -> Result<PathBuf> {
    let Some(build_id) = elf.build_id() else {
        return Ok(elf.path.clone());
    };
    let file = kept(&build_id);
    let cannot = || format!("cannot write {}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(&file)).with_context(cannot)?;
    output::write_or_nothing(&file, &elf.data)?;
    Ok(file)
}
