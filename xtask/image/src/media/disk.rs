//! [`Disk`]: what the system says of a disk, and whether a medium may be written to it.
//!
//! Source: Linux's Documentation/ABI/stable/sysfs-block, and Documentation/filesystems/proc.rst, 3.5 (mountinfo).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use takt_base::input;
use takt_base::term::WithHelp;

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

/// What a disk is connected by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bus {
    /// A stick, a card reader, or a disk in a case.
    Usb,
    /// A card in a slot of the machine's own, or memory that is soldered in.
    Mmc,
    /// SATA or IDE. A disk inside says that it may be taken out if its port is for hot plugging.
    Ata,
    /// NVMe.
    Nvme,
    /// Any other.
    Other,
}

impl Bus {
    /// Of the disk at this place in sysfs: its bus is a folder on the way there, `…/usb2/2-1/…`.
    fn of(place: &Path) -> Self {
        const NAMES: [(&str, Bus); 4] = [
            ("usb", Bus::Usb),
            ("mmc", Bus::Mmc),
            ("ata", Bus::Ata),
            ("nvme", Bus::Nvme),
        ];
        let is_numbered = |folder: &str, name| {
            let number = folder.strip_prefix(name);
            number.is_some_and(|number| number.parse::<u32>().is_ok())
        };
        // The outermost: a disk in a case is SATA's behind USB.
        let folders = place.components().filter_map(|it| it.as_os_str().to_str());
        folders
            .filter_map(|folder| NAMES.iter().find(|(name, _)| is_numbered(folder, name)))
            .map(|(_, bus)| *bus)
            .next()
            .unwrap_or(Self::Other)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Usb => "USB",
            Self::Mmc => "SD or MMC",
            Self::Ata => "SATA",
            Self::Nvme => "NVMe",
            Self::Other => "none of USB, SD, SATA and NVMe",
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
    /// What it is connected by. A disk in a case behind USB says that it cannot be taken out.
    pub bus: Bus,
    is_read_only: bool,
    /// Major and minor number of its device.
    pub number: String,
    /// Its partitions: name, size, and the label if the partition table has one.
    pub parts: Vec<String>,
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
        let text = |file: &str| input::read_to_string(dir.join(file)).unwrap_or_default();
        let words = format!("{} {}", text("device/vendor"), text("device/model"));
        let model = words.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self {
            model: if model.is_empty() {
                "unknown".into()
            } else {
                model
            },
            size: size(&dir),
            is_removable: text("removable").trim() == "1",
            bus: Bus::of(&dir.canonicalize()?),
            is_read_only: text("ro").trim() == "1",
            number: text("dev").trim().to_owned(),
            parts: partitions(&dir)?.iter().map(|part| label(part)).collect(),
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
        let may = self.bus == Bus::Usb || self.bus == Bus::Mmc && self.is_removable;
        if !may {
            return Err(anyhow!(
                "{device} ({}) is a fixed disk, or an internal one; its bus is {}",
                self.model,
                self.bus.name()
            ))
            .help(
                "only disks behind USB and cards that may be taken out are written to; else write an ISO file (--iso \
                 takt.iso) and copy it there by hand",
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
            "device     {}\nmodel      {}\nsize       {:.1} GB\nbus        {}\nremovable  {}\npartitions {}\nin use     {}\n",
            self.device.display(),
            self.model,
            self.size as f64 / 1e9,
            self.bus.name(),
            match (self.is_removable, self.bus) {
                (true, _) => "yes",
                (false, Bus::Usb) => "no, but behind USB",
                (false, _) => "no",
            },
            list(&self.parts, "none"),
            list(&uses, "no"),
        )
    }
}

/// The texts, or what there is without any.
fn list(texts: &[String], none: &str) -> String {
    match texts {
        [] => none.into(),
        _ => texts.join(", "),
    }
}

/// Bytes of the disk, or the part of one, at `dir`.
fn size(dir: &Path) -> u64 {
    let text = input::read_to_string(dir.join("size")).unwrap_or_default();
    let sectors: u64 = text.trim().parse().unwrap_or(0);
    sectors.saturating_mul(SECTOR)
}

/// Where the system tells of the parts of the disk at `dir`.
fn partitions(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut inside: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    inside.retain(|path| path.join("partition").exists());
    inside.sort();
    Ok(inside)
}

/// Name, size and label of a part of a disk.
fn label(part: &Path) -> String {
    let name = part.file_name().unwrap_or_default().to_string_lossy();
    let told = input::read_to_string(part.join("uevent")).unwrap_or_default();
    let label = told.lines().find_map(|line| line.strip_prefix("PARTNAME="));
    let label = label.map_or_else(String::new, |label| format!(" \"{label}\""));
    format!("{name} {:.1} GB{label}", size(part) as f64 / 1e9)
}

/// What the disk at `dir`, or a part of it, is used for.
fn uses(dir: &Path, system: &System) -> Result<Vec<(String, String)>> {
    let read = |file: &Path| {
        input::read_to_string(file)
            .with_context(|| format!("cannot see what is in use: {}", file.display()))
    };
    let (mounts, swaps) = (read(&system.mounts)?, read(&system.swaps)?);
    let mut parts = vec![dir.to_owned()];
    parts.append(&mut partitions(dir)?);

    let mut uses = Vec::new();
    for part in parts {
        let name = part.file_name().unwrap_or_default().to_string_lossy();
        let device = format!("/dev/{name}");
        let number = input::read_to_string(part.join("dev")).unwrap_or_default();
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
