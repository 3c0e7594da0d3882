//! Media that `image` makes, booted as a real machine would: by its firmware and GRUB, to timerlat's result.

use std::ffi::OsString;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Stage;
use crate::guest;
use crate::image::{Elf, Recipe};
use crate::qemu::command::{BARE, escape};
use crate::qemu::{GuestExit, Process, Ram};
use crate::run::collect::Results;
use crate::setup;

/// Bytes that an ISO file has at most.
const MAX_ISO: u64 = 5_000_000;
/// How long a boot may take, from the firmware's first instruction to timerlat's end.
const PATIENCE: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(50);
/// What is measured: long enough to be a result.
const ACTIVATIONS: u64 = 50;

/// Firmware.
#[derive(Clone, Copy, Debug)]
enum Firmware {
    Bios,
    Uefi,
}

/// What a medium looks like to the machine.
#[derive(Clone, Copy, Debug)]
enum Medium {
    Cd,
    Usb,
}

/// A machine.
#[derive(Clone, Copy, Debug)]
struct Pc {
    firmware: Firmware,
    chipset: &'static str,
    medium: Medium,
    ram_mib: u64,
    smp: u8,
}

/// The fewest that have every chip set, firmware, medium, the least and the most memory, one CPU and several.
const PCS: [Pc; 4] = [
    Pc {
        firmware: Firmware::Bios,
        chipset: "q35",
        medium: Medium::Cd,
        ram_mib: 64,
        smp: 1,
    },
    Pc {
        firmware: Firmware::Bios,
        chipset: "pc",
        medium: Medium::Usb,
        ram_mib: 4096,
        smp: 4,
    },
    // With less, GRUB finds no room for the image under OVMF.
    Pc {
        firmware: Firmware::Uefi,
        chipset: "q35",
        medium: Medium::Cd,
        ram_mib: 96,
        smp: 1,
    },
    Pc {
        firmware: Firmware::Uefi,
        chipset: "q35",
        medium: Medium::Usb,
        ram_mib: 4096,
        smp: 4,
    },
];

impl Pc {
    /// QEMU's arguments.
    fn arguments(self, iso: &Path, ram: &Ram, ovmf: &Path) -> Vec<OsString> {
        let mut args: Vec<OsString> = BARE.map(Into::into).into();
        let mut add = |name: &str, value: String| args.extend([name.into(), value.into()]);
        add("-machine", format!("{},memory-backend=ram", self.chipset));
        let backend = format!("memory-backend-file,id=ram,size={}M,share=on", self.ram_mib);
        add(
            "-object",
            format!("{backend},mem-path={}", escape(ram.path())),
        );
        add("-m", format!("{}M", self.ram_mib));
        add("-smp", self.smp.to_string());
        add("-cpu", "max".into());
        add("-vga", "std".into());
        add("-device", "isa-debug-exit,iobase=0xf4,iosize=4".into());
        if let Firmware::Uefi = self.firmware {
            add("-bios", ovmf.display().to_string());
        }
        let drive = format!(
            "if=none,id=medium,format=raw,readonly=on,file={}",
            escape(iso)
        );
        add("-drive", drive);
        match self.medium {
            Medium::Cd if self.chipset == "pc" => {
                add("-device", "ide-cd,drive=medium,bootindex=1".into());
            }
            Medium::Cd => add(
                "-device",
                "ide-cd,bus=ide.0,drive=medium,bootindex=1".into(),
            ),
            Medium::Usb => {
                add("-device", "qemu-xhci".into());
                add(
                    "-device",
                    "usb-storage,drive=medium,removable=on,bootindex=1".into(),
                );
            }
        }
        args
    }

    /// Boots it and holds the result against what was asked for.
    fn boot(self, stage: &Stage, iso: &Path, elf: &Elf, ovmf: &Path) -> Result<()> {
        let ram = Ram::create_sized(stage.path(), self.ram_mib)?;
        let messages = stage.path().join("messages.txt");
        let mut process = Process::spawn(&self.arguments(iso, &ram, ovmf), false, &messages)?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            ensure!(started.elapsed() < PATIENCE, "no end within {PATIENCE:?}");
            thread::sleep(TICK);
        };
        let exit = GuestExit::of(status, &messages);
        ensure!(exit == GuestExit::Passed, "{exit}");
        let results = Results::read(&guest::status(elf, &ram)?)?;
        let slots = results.slot_records();
        ensure!(slots.len() == usize::from(self.smp), "{} CPUs", slots.len());
        for slot in slots {
            let taken = slot.thread.count + slot.missed;
            // The last one may come when the time is over; in the host's time, more may be missed behind that.
            ensure!(
                slot.thread.count > 0 && taken >= ACTIVATIONS - 1,
                "CPU {} has {taken} activations",
                slot.cpu
            );
        }
        Ok(())
    }
}

/// The same file boots everywhere.
pub(super) fn boot_by_bios_and_uefi(stage: &Stage) -> Result<()> {
    setup::ensure_grub(stage.may_install())?;
    let ovmf = setup::ensure_ovmf(stage.may_install())?;
    let elf = Elf::open(&Recipe::takt(0).build()?.path)?;
    for smp in [1, 4] {
        let iso = stage.dir(&format!("{smp}.iso"));
        let duration_ns = ACTIVATIONS * 1_000_000;
        let cpus = (1u32 << smp) - 1;
        let append = format!("duration_ns={duration_ns} smp={smp} cpus={cpus:#x}");
        let made = stage.xtask(&["image", "--iso", &iso, "--append", &append])?;
        made.code(0)?;
        let iso = Path::new(&iso);
        let size = iso.metadata().context("no ISO file")?.len();
        ensure!(size <= MAX_ISO, "the ISO file has {size} bytes");
        for pc in PCS.into_iter().filter(|pc| pc.smp == smp) {
            pc.boot(stage, iso, &elf, &ovmf)
                .with_context(|| format!("{pc:?}"))?;
        }
    }
    Ok(())
}
