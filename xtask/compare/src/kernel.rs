//! [`Kernel`]: the ELF file of a kernel, out of its Debian package.
//!
//! Debian's file is compressed and brings its own decompressor; QEMU boots the ELF file inside directly (PVH), which
//! saves the guest from doing that under icount.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::packages::Package;
use takt_base::input;
use takt_base::setup;
use takt_base::tool;

/// What the kernel must have been built with, and what for.
const NEEDED: [(&str, &str); 7] = [
    ("CONFIG_PREEMPT_RT", "it is no PREEMPT_RT kernel"),
    ("CONFIG_PVH", "QEMU cannot boot its ELF file"),
    ("CONFIG_TIMERLAT_TRACER", "it has no timerlat tracer"),
    ("CONFIG_BLK_DEV_INITRD", "it takes no initramfs"),
    ("CONFIG_DEVTMPFS", "it has no devtmpfs"),
    (
        "CONFIG_SERIAL_8250_CONSOLE",
        "it has no console on the serial port",
    ),
    ("CONFIG_TMPFS", "it has no tmpfs"),
];

/// A kernel, unpacked.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The ELF file.
    pub elf: PathBuf,
    /// What it was built with: the text of its `.config`.
    pub config: String,
}

impl Kernel {
    /// Unpacks a package into `dir`, and of its modules those whose paths are like one of these.
    ///
    /// # Errors
    ///
    /// If it holds no kernel, or one that cannot do what is needed.
    pub fn unpack(
        package: &Package,
        modules: &[&str],
        dir: &Path,
        may_install: bool,
    ) -> Result<Self> {
        let of_package = || format!("{} {}", package.name, package.version);
        unpack_boot(&package.file, modules, dir)?;
        let boot = dir.join("boot");
        let (image, config) = (find(&boot, "vmlinuz-"), find(&boot, "config-"));
        let (Some(image), Some(config)) = (image, config) else {
            bail!("{} holds no kernel", of_package());
        };
        let config =
            input::read_to_string(config).context("cannot read the kernel's configuration")?;
        check(&config).with_context(of_package)?;
        let image = input::read(image).context("cannot read the kernel")?;
        let elf = dir.join("vmlinux");
        decompress(payload(&image)?, &elf, may_install).with_context(of_package)?;
        Ok(Self { elf, config })
    }

    /// Ticks a second.
    #[must_use]
    pub fn hz(&self) -> Option<u64> {
        value(&self.config, "CONFIG_HZ")?.parse().ok()
    }
}

/// Unpacks `./boot` and what is asked for; all modules are many times as large.
fn unpack_boot(file: &Path, modules: &[&str], dir: &Path) -> Result<()> {
    let cannot = || format!("cannot unpack {}", file.display());
    fs::create_dir_all(dir)?;
    let mut deb = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(cannot)?;
    let tar = deb.stdout.take().context("no pipe")?;
    let unpacked = Command::new("tar")
        .args(["-x", "-f", "-", "-C"])
        .arg(dir)
        .args(["--wildcards", "./boot/*"])
        .args(modules)
        .stdin(tar)
        .stderr(Stdio::null())
        .status();
    let is_whole = deb.wait()?.success();
    ensure!(
        is_whole,
        "{}: it is damaged or no Debian package",
        file.display()
    );
    // tar complains if there is no such folder, and then there is no kernel either.
    unpacked.map(drop).with_context(cannot)
}

fn find(dir: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    })
}

/// The value of an option in a `.config`.
fn value<'c>(config: &'c str, option: &str) -> Option<&'c str> {
    config
        .lines()
        .find_map(|line| line.strip_prefix(option)?.strip_prefix('='))
}

fn check(config: &str) -> Result<()> {
    for (option, without) in NEEDED {
        ensure!(
            value(config, option) == Some("y"),
            "{without} ({option} is not set)"
        );
    }
    Ok(())
}

/// The compressed ELF file in an x86 boot image (Linux's Documentation/x86/boot.rst: `setup_sects` at 0x1f1, `HdrS` at
/// 0x202, `payload_offset` and `payload_length` at 0x248, from protocol 2.08 on).
fn payload(image: &[u8]) -> Result<&[u8]> {
    let bytes = |at: usize, nr: usize| image.get(at..at + nr).context("the kernel is cut");
    let u32_at = |at: usize| -> Result<usize> {
        let bytes: [u8; 4] = bytes(at, 4)?.try_into()?;
        Ok(u32::from_le_bytes(bytes) as usize)
    };
    ensure!(
        bytes(0x202, 4)? == b"HdrS",
        "the kernel is no x86 boot image"
    );
    let version = u16::from_le_bytes(bytes(0x206, 2)?.try_into()?);
    ensure!(version >= 0x208, "the kernel's boot protocol is too old");
    let setup_sects = match bytes(0x1f1, 1)?[0] {
        0 => 4,
        n => usize::from(n),
    };
    let begin = (setup_sects + 1) * 512 + u32_at(0x248)?;
    bytes(begin, u32_at(0x24c)?)
}

/// Decompresses it by the program that its first bytes name.
fn decompress(payload: &[u8], target: &Path, may_install: bool) -> Result<()> {
    // Behind all but gzip's, four bytes say the size.
    let without_size = &payload[..payload.len().saturating_sub(4)];
    let (program, input) = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => ("xz", without_size),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("zstd", without_size),
        [0x1f, 0x8b, ..] => ("gzip", payload),
        [0x7f, b'E', b'L', b'F', ..] => {
            return fs::File::create(target)
                .and_then(|mut file| file.write_all(payload))
                .context("cannot write the kernel");
        }
        _ => {
            return Err(anyhow!(
                "the kernel is compressed in a way that is not known here"
            ));
        }
    };
    setup::ensure_unpacker(program, may_install)?;
    tool::filter(Command::new(program).arg("-dc"), input, target)
        .context("the kernel cannot be decompressed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A boot image with one sector of setup.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x20fu16.to_le_bytes());
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend([0xee; 16]);
        image.extend(payload);
        image
    }

    #[test]
    fn the_payload_is_where_the_header_says() {
        let whole = image(b"payload");
        assert_eq!(payload(&whole).unwrap(), b"payload");
        for cut in 0..whole.len() {
            assert!(payload(&whole[..cut]).is_err(), "{cut}");
        }
        let mut other = whole;
        other[0x202] = b'h';
        assert!(payload(&other).is_err());
    }

    #[test]
    fn what_is_compressed_comes_out_whole() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text");
        fs::write(&text, "the kernel").unwrap();
        let packed = Command::new("gzip").arg("-c").arg(&text).output().unwrap();
        let target = dir.path().join("out");
        decompress(&packed.stdout, &target, false).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"the kernel");

        let cut = &packed.stdout[..packed.stdout.len() - 6];
        assert!(decompress(cut, &target, false).is_err());
        assert!(decompress(b"unknown", &target, false).is_err());
    }

    #[test]
    fn an_ordinary_kernel_is_refused() {
        let all: String = NEEDED.map(|(option, _)| format!("{option}=y\n")).concat();
        assert!(check(&all).is_ok());
        let ordinary = all.replace("CONFIG_PREEMPT_RT=y", "# CONFIG_PREEMPT_RT is not set");
        let error = check(&ordinary).unwrap_err();
        assert!(error.to_string().contains("no PREEMPT_RT kernel"));
        assert_eq!(
            value("CONFIG_HZ_250=y\nCONFIG_HZ=250\n", "CONFIG_HZ"),
            Some("250")
        );
    }
}
