//! Media that `image` makes, booted as a real machine would: by its firmware and GRUB, to timerlat's result.

mod debian;
mod pc;

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::linux_rt::is_unavailable;
use super::{FIRST, Stage};
use debian::Debian;
use pc::{Booted, Clock, Firmware, Medium, Pc};
use takt_base::setup;
use takt_machine::qemu::GuestExit;
use takt_machine::run::folder::IMAGE;

/// Bytes that an ISO file has at most.
const MAX_ISO: u64 = 5_000_000;
/// Characters that GRUB's shell or its `multiboot2` would take for themselves.
const HOSTILE: &str = r#"a=;b;$c${d}"e'f\g\\h\x41 |i&j<k>(l)#m*?~!{n}=[o]"#;

/// Makes an ISO file that boots with these words.
fn iso(stage: &Stage, name: &str, words: &str) -> Result<PathBuf> {
    iso_and_elf(stage, name, words).map(|(iso, _)| iso)
}

/// The same, and the ELF file with the image's symbols.
fn iso_and_elf(stage: &Stage, name: &str, words: &str) -> Result<(PathBuf, String)> {
    setup::ensure_grub(stage.may_install())?;
    let iso = stage.dir(name);
    let made = stage.xtask(&["image", "--iso", &iso, "--append", words])?;
    let made = made.code(0)?;
    let (_, elf) = made
        .stdout
        .split_once("symbols and the log's formats, for attach --image, are in ")
        .with_context(|| made.stdout.clone())?;
    let size = Path::new(&iso).metadata().context("no ISO file")?.len();
    ensure!(size <= MAX_ISO, "the ISO file has {size} bytes");
    ensure!(!made.stderr.contains("no console"), "{}", made.stderr);
    Ok((iso.into(), elf.trim().to_owned()))
}

/// Whether the serial port's last table has a row for each of so many CPUs, each with samples.
fn has_table(serial: &str, smp: u8) -> bool {
    let rows: Vec<Vec<&str>> = serial
        .lines()
        .map(|line| line.trim_end_matches("\x1b[K").split_whitespace().collect())
        .collect();
    let has_row = |cpu: &str| {
        let row = rows.iter().rfind(|row| row.len() == 11 && row[0] == cpu);
        row.is_some_and(|row| row[1].parse::<u64>().is_ok_and(|count| count > 0))
    };
    (0..smp).all(|cpu| has_row(&cpu.to_string()))
}

/// Holds what the serial port said of a boot against what was asked for.
fn check(serial: &str, pc: Pc, words: &str) -> Result<()> {
    let line = |wanted: &str| serial.lines().any(|line| line.trim_end() == wanted);
    ensure!(serial.contains(", by Multiboot2, "), "{serial}");
    ensure!(line(words), "no command line {words} in\n{serial}");
    ensure!(line(&format!("CPUs              {}", pc.smp)), "{serial}");
    ensure!(has_table(serial, pc.smp), "no table in\n{serial}");
    ensure!(serial.contains("result: passed"), "no result in\n{serial}");
    Ok(())
}

/// Boots one after the other to the end of the duration.
fn boot_all(stage: &Stage, medium: &Path, words: &str, pcs: &[Pc]) -> Result<()> {
    let ovmf = setup::ensure_ovmf(stage.may_install())?;
    for (nr, pc) in pcs.iter().enumerate() {
        let dir = stage.path().join(format!("pc-{nr}"));
        pc.boot(medium, &ovmf, &dir)
            .and_then(Booted::finish)
            .and_then(|serial| check(&serial, *pc, words))
            .with_context(|| format!("{pc:?}"))?;
    }
    Ok(())
}

/// The same file boots by BIOS and by UEFI, with the least memory, and words get there as they are.
pub(super) fn boot_to_the_end(stage: &Stage) -> Result<()> {
    let words = format!("duration_ns=100000000 period_ns=5000000 {HOSTILE}");
    let medium = iso(stage, "end.iso", &words)?;
    let pc = Pc {
        clock: Clock::Instructions,
        firmware: Firmware::Bios,
        chipset: "q35",
        medium: Medium::Cd,
        ram_mib: 64,
        smp: 1,
    };
    let uefi = Pc {
        firmware: Firmware::Uefi,
        ..pc
    };
    boot_all(stage, &medium, &words, &[pc, uefi])
}

/// A USB stick, much memory and several CPUs; what measures without an end is ended by `q` on the serial line.
pub(super) fn end_by_serial(stage: &Stage) -> Result<()> {
    let words = "duration_ns=0 period_ns=20000000 smp=4 cpus=0xf";
    let medium = iso(stage, "endless.iso", words)?;
    let pc = Pc {
        clock: Clock::Instructions,
        firmware: Firmware::Bios,
        chipset: "pc",
        medium: Medium::Usb,
        ram_mib: 4096,
        smp: 4,
    };
    let mut booted = pc.boot(&medium, Path::new(""), stage.path())?;
    booted.wait_for(|serial| has_table(serial, pc.smp))?;
    booted.type_in("q")?;
    check(&booted.finish()?, pc, words)
}

/// The same by UEFI, ended by the keyboard; and the screen that GRUB has set is written on.
pub(super) fn end_by_keyboard(stage: &Stage) -> Result<()> {
    let words = "duration_ns=0 period_ns=20000000 smp=4 cpus=0xf";
    let medium = iso(stage, "endless.iso", words)?;
    let ovmf = setup::ensure_ovmf(stage.may_install())?;
    let pc = Pc {
        clock: Clock::Instructions,
        firmware: Firmware::Uefi,
        chipset: "q35",
        medium: Medium::Usb,
        ram_mib: 4096,
        smp: 4,
    };
    let mut booted = pc.boot(&medium, &ovmf, stage.path())?;
    booted.wait_for(|serial| has_table(serial, pc.smp))?;
    let (width, pixels) = booted.screen()?;
    ensure!(width == 800, "GRUB has set a screen {width} pixels wide");
    // Lines of 20 pixels: the first, the table's heads behind six others, and nothing at the bottom.
    let is_lit = |line: usize| {
        let mut rows = pixels.chunks_exact(width * 3).skip(line * 20).take(20);
        rows.any(|row| row.iter().any(|value| *value != 0))
    };
    let lit: Vec<_> = (0..25).filter(|line| is_lit(*line)).collect();
    ensure!(
        lit == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13],
        "lines with something on them: {lit:?}"
    );
    booted.monitor("sendkey q")?;
    check(&booted.finish()?, pc, words)
}

/// A machine whose memory ends within the image is told so, and what to do.
pub(super) fn image_without_room(stage: &Stage) -> Result<()> {
    let image = stage.dir("takt");
    // That of a run has no console.
    let plain = Path::new(&stage.dir(FIRST)).join(IMAGE);
    let plain = plain.display().to_string();
    let words = ["image", "--elf", &image, "--image", &plain];
    stage.xtask(&words)?.code(0)?.complains("has no console")?;
    stage.xtask(&["image", "--elf", &image])?.code(0)?;
    let pc = Pc {
        clock: Clock::Instructions,
        firmware: Firmware::Bios,
        chipset: "q35",
        medium: Medium::None,
        ram_mib: 20,
        smp: 1,
    };
    let booted = pc.boot(Path::new(&image), Path::new(""), stage.path())?;
    let (exit, serial) = booted.end()?;
    ensure!(exit == GuestExit::Panicked, "{exit}:\n{serial}");
    for said in [
        "the image needs the memory from 0x1000000 to 0x",
        "is reserved",
        "give the machine more memory",
    ] {
        ensure!(serial.contains(said), "no `{said}` in\n{serial}");
    }
    Ok(())
}

/// The results of a real machine come over its serial line: `attach` reports on it as on a run of ours.
pub(super) fn attach_to_it(stage: &Stage) -> Result<()> {
    let words = "capture=com1 duration_ns=500000000 period_ns=5000000";
    let (medium, elf) = iso_and_elf(stage, "attach.iso", words)?;
    let pc = Pc {
        clock: Clock::Host,
        firmware: Firmware::Bios,
        chipset: "q35",
        medium: Medium::Cd,
        ram_mib: 64,
        smp: 1,
    };
    let dir = stage.path().join("pc");
    let booted = pc.boot(&medium, Path::new(""), &dir)?;
    let (line, run) = (
        format!("unix:{}", dir.join("com1").display()),
        stage.dir("run"),
    );
    let attached = stage.xtask(&[
        "attach", "--serial", &line, "--listen", "--image", &elf, "--output", &run, "--json", "-",
    ])?;
    booted.finish()?;
    let json = attached.code(0)?.json()?;
    // In the host's time a busy host misses some.
    let of_thread = &json["cpus"][0]["thread"];
    let count = of_thread["count"].as_u64();
    ensure!(count.is_some_and(|count| count > 0), "{of_thread}");
    Ok(())
}

/// Over the network.
pub(super) fn boot_over_the_network(stage: &Stage) -> Result<()> {
    setup::ensure_grub(stage.may_install())?;
    let words = "duration_ns=100000000";
    let dir = stage.dir("net");
    stage
        .xtask(&["image", "--pxe", &dir, "--append", words])?
        .code(0)?
        .says("BIOS  boot/grub/i386-pc/core.0")?;
    let pc = Pc {
        clock: Clock::Host,
        firmware: Firmware::Bios,
        chipset: "q35",
        medium: Medium::Net,
        ram_mib: 256,
        smp: 1,
    };
    boot_all(stage, Path::new(&dir), words, &[pc])
}

/// A Linux writes a USB stick by `image --usb`, and becomes Takt by kexec; then the stick boots.
pub(super) fn flash_and_kexec(stage: &Stage) -> Result<()> {
    const STICK: u64 = 64 << 20;
    let words = "duration_ns=200000000 period_ns=5000000";
    let iso = iso(stage, "stick.iso", words)?;
    let image = stage.dir("takt");
    stage.xtask(&["image", "--elf", &image])?.code(0)?;
    let debian = match Debian::make(stage, &iso, Path::new(&image)) {
        Err(error) if is_unavailable(&format!("{error:#}")) => {
            tell!("\nNOT TESTED: image --usb on a stick, and kexec. {error:#}\n");
            return Ok(());
        }
        made => made?,
    };
    let stick = stage.path().join("stick");
    File::create(&stick)?.set_len(STICK)?;
    let pc = Pc {
        clock: Clock::Host,
        firmware: Firmware::Bios,
        chipset: "q35",
        medium: Medium::Usb,
        ram_mib: 512,
        smp: 1,
    };
    let none = Path::new("");
    let linux = stage.path().join("linux");
    let booted = pc.boot_with(&stick, none, &linux, debian.arguments(words))?;
    let serial = booted.finish()?;
    for said in [
        "bus        USB",
        "removable  yes",
        "partitions none",
        "nobody is there to be asked",
        "written, read back and compared",
        "/dev/sda mounted on /tmp",
        "is in use",
    ] {
        ensure!(serial.contains(said), "no `{said}` in\n{serial}");
    }
    // kexec puts the file's name in front.
    check(&serial, pc, &format!("/takt {words}"))?;
    let pc = Pc {
        clock: Clock::Instructions,
        ..pc
    };
    boot_all(stage, &stick, words, &[pc])
}
