//! A Debian guest that writes a USB stick with `image --usb`, and then becomes Takt by kexec.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Stage;
use crate::stage::program;
use takt_base::paths;
use takt_compare::initramfs::{Files, add_libraries, pack};
use takt_compare::kernel::Kernel;
use takt_compare::packages::{self, Packages};
use takt_image::media::strip;

const INIT: &str = include_str!("init.sh");

/// kexec, and of the packages that it needs those that not everybody has.
const KEXEC: &[&str] = &[
    "1d386c0ef89711fa87b39e377e431532769b527d3b5749f3fe2e01c06be64cbc debian/pool/main/k/kexec-tools/kexec-tools_2.0.25-3+deb12u3_amd64.deb",
    "ebc1eee0055e48f3087010d146ced41a86d541964f9cfd307602c9636468b223 debian/pool/main/x/xen/libxencall1_4.17.5+72-g01140da4e8-1_amd64.deb",
    "f16055e3a12c38abd5a10530a0895d274e69d26fb73aa373efd5f5477785712b debian/pool/main/x/xen/libxendevicemodel1_4.17.5+72-g01140da4e8-1_amd64.deb",
    "8a72c80afd46771baa611e1a31de8c5becb06779dead336ad345e625ebb80859 debian/pool/main/x/xen/libxenevtchn1_4.17.5+72-g01140da4e8-1_amd64.deb",
    "403cdb05a64851e4eea4c87b1ab50845a8371ac5fc361bcf2daacbe63b79a6ae debian/pool/main/x/xen/libxenforeignmemory1_4.17.5+72-g01140da4e8-1_amd64.deb",
    "31180a1f5076fc1c59f5035d9326d4c7cfc0ae1c5978485153b161d3b6a253bb debian/pool/main/x/xen/libxengnttab1_4.17.5+72-g01140da4e8-1_amd64.deb",
    "60f0b99631a3b312b8c206f2caee5c59a0bfab738b90a88db4c322e7613e635f debian/pool/main/x/xen/libxenhypfs1_4.17.5+72-g01140da4e8-1_amd64.deb",
    "a4fa17c1b2ebcba786fb836668544adb3f3fb3fe364855d2185d8ffa62c53f9a debian/pool/main/x/xen/libxenmisc4.17_4.17.5+72-g01140da4e8-1_amd64.deb",
    "56d2c3577047398810ce6e318ecbcb88944f3cacdadcbf5a5ed1f1b74784111f debian/pool/main/x/xen/libxenstore4_4.17.5+72-g01140da4e8-1_amd64.deb",
    "18326e8ce11a42c7e2646a6954cfd22b1ac1cc889c4508d4ed94c913e2658541 debian/pool/main/x/xen/libxentoolcore1_4.17.5+72-g01140da4e8-1_amd64.deb",
    "063973644ce91c34dea31acc1d806c6cd26e7f7d6d152d06dd70fc817ad0a3e9 debian/pool/main/x/xen/libxentoollog1_4.17.5+72-g01140da4e8-1_amd64.deb",
];

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
        let packages = Packages::get(&kept, false, None, stage.may_install())?;
        let root = dir.join("root");
        let kexec = packages::fetch(KEXEC, &kept, stage.may_install())?;
        for package in kexec.iter().chain(&packages.others) {
            packages::unpack(&package.file, &root)?;
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
