//! [`Disk`]: what the system says of a disk, and whether a medium may be written to it.
//!
//! Source: Linux's Documentation/ABI/stable/sysfs-block, and Documentation/filesystems/proc.rst, 3.5 (mountinfo).

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::term::WithHelp;

/// Bytes of a sector, whatever the disk's own are.
const SECTOR: u64 = 512;

/// Where the system tells of disks.
#[derive(Clone, Debug)]
pub struct System {
    /// Devices: `/sys/class/block`.
    pub devices: PathBuf,
    /// What is mounted: `/proc/self/mountinfo`.
    pub mounts: PathBuf,
    /// What is swapped to: `/proc/swaps`.
    pub swaps: PathBuf,
}

impl System {
    /// This machine's.
    #[must_use]
    pub fn here() -> Self {
        Self {
            devices: "/sys/class/block".into(),
            mounts: "/proc/self/mountinfo".into(),
            swaps: "/proc/swaps".into(),
        }
    }
}

/// A whole disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its device file.
    pub device: PathBuf,
    /// Vendor and model.
    pub model: String,
    /// Bytes.
    pub size: u64,
    /// Whether it says that it may be taken out.
    pub is_removable: bool,
    /// Whether it is behind USB. A disk in a case there says that it cannot be taken out.
    pub is_usb: bool,
    is_read_only: bool,
    /// Major and minor number of its device.
    pub number: String,
    /// What it is used for: device and purpose.
    pub uses: Vec<(String, String)>,
}

impl Disk {
    /// Asks the system for the disk of this device file.
    ///
    /// # Errors
    ///
    /// If it is no whole disk, or the system does not say what it is used for.
    pub fn look(device: &Path, system: &System) -> Result<Self> {
        let there = device
            .canonicalize()
            .with_context(|| format!("there is no device {}", device.display()))
            .help("lsblk --output NAME,MODEL,SIZE,RM,TRAN lists the disks")?;
        let name = there.file_name().unwrap_or_default();
        let dir = system.devices.join(name);
        if !dir.is_dir() {
            return Err(anyhow!("{} is no disk", device.display()))
                .help("lsblk --output NAME,MODEL,SIZE,RM,TRAN lists the disks; for a file there is --iso FILE");
        }
        if dir.join("partition").exists() {
            let whole = dir.canonicalize()?;
            let whole = whole.parent().and_then(Path::file_name).unwrap_or_default();
            return Err(anyhow!("{} is a part of a disk", device.display())).help(format!(
                "the medium takes the whole disk: --usb {}",
                there.with_file_name(whole).display()
            ));
        }
        // The bus is a folder on the way to it: …/usb2/2-1/….
        let place = dir.canonicalize()?;
        let is_usb = |part: Component<'_>| part.as_os_str().as_bytes().starts_with(b"usb");
        let text = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
        let words = format!("{} {}", text("device/vendor"), text("device/model"));
        let sectors: u64 = text("size").trim().parse().unwrap_or(0);
        let model = words.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self {
            model: if model.is_empty() {
                "unknown".into()
            } else {
                model
            },
            size: sectors.saturating_mul(SECTOR),
            is_removable: text("removable").trim() == "1",
            is_usb: place.components().any(is_usb),
            is_read_only: text("ro").trim() == "1",
            number: text("dev").trim().to_owned(),
            uses: uses(&dir, system)?,
            device: there,
        })
    }

    /// Whether `len` bytes may be written to it.
    ///
    /// # Errors
    ///
    /// Why not, and what to do.
    pub fn check(&self, len: u64) -> Result<()> {
        let device = self.device.display();
        if let Some((part, place)) = self.uses.iter().find(|(_, place)| place == "mounted on /") {
            return Err(anyhow!(
                "{device} is the system's own disk: {part} is {place}"
            ))
            .help("lsblk --output NAME,MODEL,SIZE,RM,TRAN lists the others");
        }
        if let Some((part, purpose)) = self.uses.first() {
            return Err(anyhow!("{device} is in use: {part} is {purpose}")).help(format!(
                "if it is the right one, end that first: sudo umount {part}"
            ));
        }
        if !self.is_removable && !self.is_usb {
            return Err(anyhow!("{device} ({}) is a fixed disk", self.model)).help(
                "only removable ones and those behind USB are written to; else write an ISO file (--iso takt.iso) and copy \
                 it there by hand",
            );
        }
        if self.is_read_only {
            return Err(anyhow!("{device} is write-protected"))
                .help("look for a switch on the stick or its adapter");
        }
        if self.size < len {
            return Err(anyhow!(
                "{device} has {} bytes, and {len} are needed",
                self.size
            ))
            .help("without a card in it a reader has no bytes at all; else use a larger one");
        }
        Ok(())
    }

    /// What there is to see before it is overwritten: a line each.
    #[must_use]
    pub fn describe(&self) -> String {
        let uses: Vec<_> = self
            .uses
            .iter()
            .map(|(part, purpose)| format!("{part} {purpose}"))
            .collect();
        format!(
            "device     {}\nmodel      {}\nsize       {:.1} GB\nremovable  {}\nin use     {}\n",
            self.device.display(),
            self.model,
            self.size as f64 / 1e9,
            match (self.is_removable, self.is_usb) {
                (true, _) => "yes",
                (false, true) => "no, but behind USB",
                (false, false) => "no",
            },
            if uses.is_empty() {
                "no".into()
            } else {
                uses.join(", ")
            }
        )
    }
}

/// What the disk at `dir`, or a part of it, is used for.
fn uses(dir: &Path, system: &System) -> Result<Vec<(String, String)>> {
    let read = |file: &Path| {
        fs::read_to_string(file)
            .with_context(|| format!("cannot see what is in use: {}", file.display()))
    };
    let (mounts, swaps) = (read(&system.mounts)?, read(&system.swaps)?);
    let mut parts = vec![dir.to_owned()];
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut inside: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    inside.retain(|path| path.join("partition").exists());
    inside.sort();
    parts.append(&mut inside);

    let mut uses = Vec::new();
    for part in parts {
        let name = part.file_name().unwrap_or_default().to_string_lossy();
        let device = format!("/dev/{name}");
        let number = fs::read_to_string(part.join("dev")).unwrap_or_default();
        for (of, source, point) in mounts.lines().filter_map(mount) {
            if of == number.trim() || source == device {
                uses.push((device.clone(), format!("mounted on {}", unescape(point))));
            }
        }
        if swaps
            .lines()
            .any(|line| line.split_whitespace().next() == Some(&device))
        {
            uses.push((device.clone(), "swapped to".into()));
        }
        for holder in fs::read_dir(part.join("holders"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let holder = holder.file_name().to_string_lossy().into_owned();
            uses.push((device.clone(), format!("part of {holder}")));
        }
    }
    Ok(uses)
}

/// Device number, source and mount point of a line of `mountinfo`.
fn mount(line: &str) -> Option<(&str, &str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let (number, point) = (left.nth(2)?, left.nth(1)?);
    Some((number, right.split(' ').nth(1)?, point))
}

/// A mount point without the numbers that stand for spaces and the like.
fn unescape(point: &str) -> String {
    let mut pieces = point.split('\\');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let number = piece
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match number {
            Some(number) if number.is_ascii() => {
                out.push(number.into());
                out += &piece[3..];
            }
            _ => {
                out.push('\\');
                out += piece;
            }
        }
    }
    out
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
