//! A Debian guest that writes a USB stick with `image --usb`, and then becomes Takt by kexec.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Stage;
use crate::stage::program;
use takt_base::paths;
use takt_compare::apt::Apt;
use takt_compare::initramfs::{Files, add_libraries, pack};
use takt_compare::kernel::Kernel;
use takt_compare::packages::{self, Packages};
use takt_image::media::strip;

const INIT: &str = include_str!("init.sh");

const KEXEC: &str = "kexec-tools";
/// What the packages that it needs are called, those apart that everybody has.
const LIBRARIES: &str = "libxen";

/// The modules that bring a USB stick and what is on it, and where they and those that they need may be.
const WANTED: [&str; 4] = ["xhci-pci", "usb-storage", "sd_mod", "isofs"];
const PLACES: [&str; 7] = [
    "./lib/modules/*/kernel/block/*",
    "./lib/modules/*/kernel/crypto/*",
    "./lib/modules/*/kernel/drivers/cdrom/*",
    "./lib/modules/*/kernel/drivers/scsi/*",
    "./lib/modules/*/kernel/drivers/usb/*",
    "./lib/modules/*/kernel/fs/isofs/*",
    "./lib/modules/*/kernel/lib/*",
];

/// The guest's kernel and what it runs.
pub(super) struct Debian {
    kernel: PathBuf,
    initramfs: PathBuf,
}

impl Debian {
    /// Makes it in the stage's folder, with this ISO file and this stripped image in it.
    pub(super) fn make(stage: &Stage, iso: &Path, image: &Path) -> Result<Self> {
        let dir = stage.path();
        let kept = paths::linux_rt();
        let packages = Packages::get(&kept, None, stage.may_install())?;
        let root = dir.join("root");
        let mut others = kexec(&kept)?;
        others.extend(packages.others.iter().map(|package| package.file.clone()));
        for package in others {
            packages::unpack(&package, &root)?;
        }
        let unpacked = dir.join("kernel");
        let kernel = Kernel::unpack(&packages.kernel, &PLACES, &unpacked, stage.may_install())?;

        let read =
            |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
        let mut files = Files::new();
        let own = read(Path::new(&program()))?;
        add_libraries(&own, Path::new("/"), &mut files).context("the libraries of xtask")?;
        files.insert("bin/xtask".into(), strip::loaded(&own)?);
        let kexec = read(&root.join("sbin/kexec"))?;
        add_libraries(&kexec, &root, &mut files).context("the libraries of kexec")?;
        files.insert("bin/kexec".into(), kexec);
        files.insert("bin/busybox".into(), read(&root.join("bin/busybox"))?);
        files.insert("takt.iso".into(), read(iso)?);
        files.insert("takt".into(), read(image)?);
        files.insert("init".into(), INIT.into());
        add_modules(&unpacked, &mut files)?;
        let initramfs = dir.join("initramfs");
        pack(&files, &initramfs)?;
        Ok(Self {
            kernel: kernel.elf,
            initramfs,
        })
    }

    /// QEMU's arguments that boot it, with these words for Takt.
    pub(super) fn arguments(&self, words: &str) -> Vec<OsString> {
        let append = format!("console=ttyS0 quiet panic=-1 nokaslr TAKT_WORDS=\"{words}\"");
        let pairs: [(&str, OsString); 3] = [
            ("-kernel", self.kernel.clone().into()),
            ("-initrd", self.initramfs.clone().into()),
            ("-append", append.into()),
        ];
        pairs
            .into_iter()
            .flat_map(|(name, value)| [name.into(), value])
            .collect()
    }
}

/// The packages of kexec, downloaded once.
fn kexec(kept: &Path) -> Result<Vec<PathBuf>> {
    let dir = kept.join(KEXEC);
    if !dir.is_dir() {
        let part = tempfile::tempdir_in(kept).context("cannot write where packages are kept")?;
        let apt = Apt::system();
        let mut wanted = vec![KEXEC.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(name) = wanted.pop() {
            if seen.insert(name.clone()) {
                let package = apt.show(&name)?;
                apt.download(&package, part.path())?;
                let depends = package.depends.into_iter();
                wanted.extend(depends.filter(|name| name.starts_with(LIBRARIES)));
            }
        }
        fs::rename(part.keep(), &dir)?;
    }
    let entries = fs::read_dir(&dir)?.flatten().map(|entry| entry.path());
    Ok(entries
        .filter(|path| path.extension().is_some_and(|is| is == "deb"))
        .collect())
}

/// Adds the modules, and the list of them in an order in which they can be loaded.
fn add_modules(dir: &Path, files: &mut Files) -> Result<()> {
    let mut all = Vec::new();
    collect(dir, &mut all)?;
    let mut order = Vec::new();
    for name in WANTED {
        add_module(name, &all, files, &mut order)?;
    }
    files.insert("modules".into(), (order.join("\n") + "\n").into_bytes());
    Ok(())
}

/// Adds a module behind those that it needs.
fn add_module(
    name: &str,
    all: &[PathBuf],
    files: &mut Files,
    order: &mut Vec<String>,
) -> Result<()> {
    let key = format!("lib/modules/{name}.ko");
    if files.contains_key(&key) {
        return Ok(());
    }
    // In a file's name a dash, in a module's an underscore.
    let same = |path: &&PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        stem.replace('-', "_") == name.replace('-', "_")
    };
    let file = all.iter().find(same);
    let bytes = fs::read(file.with_context(|| format!("the kernel has no module {name}"))?)?;
    files.insert(key.clone(), bytes.clone());
    for needed in depends(&bytes) {
        add_module(&needed, all, files, order)?;
    }
    order.push(format!("/{key}"));
    Ok(())
}

/// The modules that a module needs, as its section `.modinfo` has them.
fn depends(module: &[u8]) -> Vec<String> {
    let mut words = module.split(|byte| *byte == 0);
    let list = words.find_map(|word| word.strip_prefix(b"depends="));
    let list = String::from_utf8_lossy(list.unwrap_or_default()).into_owned();
    let names = list.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// The modules in a folder and those below.
fn collect(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)?.flatten() {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|is| is == "ko") {
            found.push(path);
        }
    }
    Ok(())
}
