//! [`Machine`]: the machine that is booted, as QEMU's arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Accel;

pub use takt_guest::ram::RAM_MIB;

/// A machine to boot. All of its files are named here, so that a run is repeated by repeating the
/// command.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The ELF file.
    pub image: PathBuf,
    /// The guest's RAM, shared.
    pub ram: PathBuf,
    /// Folder for what the guest writes.
    pub dir: PathBuf,
    /// The kernel's command line.
    pub cmdline: String,
    /// CPUs.
    pub smp: u8,
    /// The accelerator.
    pub accel: Accel,
}

impl Machine {
    /// What the virtio console writes: frames.
    #[must_use]
    pub fn capture(&self) -> PathBuf {
        self.dir.join("capture.bin")
    }

    /// What the serial port writes: text.
    #[must_use]
    pub fn serial(&self) -> PathBuf {
        self.dir.join("serial.txt")
    }

    /// QEMU's arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut args = base(&self.ram, RAM_MIB, self.smp, self.accel);
        let mut add = |name: &str, value: &str| args.extend([OsString::from(name), value.into()]);
        add("-device", "isa-debug-exit,iobase=0xf4,iosize=4");
        add(
            "-chardev",
            &format!("file,id=cap,path={}", escape(&self.capture())),
        );
        add(
            "-device",
            "virtio-serial-pci,disable-modern=on,disable-legacy=off,ioeventfd=off,max_ports=1",
        );
        add("-device", "virtconsole,chardev=cap");
        add(
            "-chardev",
            &format!("file,id=ser,path={}", escape(&self.serial())),
        );
        add("-serial", "chardev:ser");
        args.extend(BARE.map(Into::into));
        args.extend(["-kernel".into(), self.image.clone().into()]);
        args.extend(["-append".into(), OsString::from(&self.cmdline)]);
        args
    }

    /// Whether QEMU is to have one of the host's CPUs only.
    ///
    /// Under icount: QEMU's threads take turns there, and from one to the next costs several times as much where they run on
    /// several CPUs. With several virtual CPUs two runs would differ, too: the main thread, when it serves a timer, ends the turns
    /// of the virtual CPUs. On a CPU of its own it does so at any moment of a turn; on the CPU of the thread that runs the guest it
    /// gets on where that thread waits.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.accel == Accel::TcgIcount
    }

    /// The command as one would type it.
    #[must_use]
    pub fn to_shell(&self) -> String {
        let mut words: Vec<OsString> = Vec::new();
        if self.is_pinned() {
            words.extend(["taskset", "--cpu-list", "0"].map(Into::into));
        }
        words.push(super::program());
        words.extend(self.arguments());
        shell(&words)
    }
}

/// What every machine has, whoever its guest is: chip set, RAM, CPUs, clock.
#[must_use]
pub fn base(ram: &Path, ram_mib: u64, smp: u8, accel: Accel) -> Vec<OsString> {
    let mut args = Vec::new();
    let mut add = |name: &str, value: &str| args.extend([OsString::from(name), value.into()]);
    let ram = escape(ram);
    let backend = format!("memory-backend-file,id=ram,size={ram_mib}M,mem-path={ram},share=on");
    // Without SATA: the firmware waits for disks, which takes longer than most runs.
    add("-machine", "q35,sata=off,memory-backend=ram");
    add("-object", &backend);
    add("-m", &format!("{ram_mib}M"));
    add("-smp", &smp.to_string());
    match accel {
        Accel::TcgIcount => {
            add("-cpu", "max");
            add("-accel", "tcg");
            add("-icount", "shift=0,sleep=off");
        }
        Accel::Tcg => {
            let threads = if smp > 1 { "multi" } else { "single" };
            add("-cpu", "max");
            add("-accel", &format!("tcg,thread={threads}"));
        }
        Accel::Kvm => {
            add("-cpu", "host");
            add("-accel", "kvm");
        }
        // Not QEMU's to choose.
        Accel::Machine => {}
    }
    add("-rtc", "base=2026-01-01,clock=vm");
    add("-seed", "1");
    args
}

/// What every machine does without: devices that nobody asked for, and a second start.
pub const BARE: [&str; 5] = [
    "-display",
    "none",
    "-nodefaults",
    "-no-user-config",
    "-no-reboot",
];

/// Words as one would type them.
#[must_use]
pub fn shell(words: &[OsString]) -> String {
    let words: Vec<_> = words
        .iter()
        .map(|word| quote(&word.to_string_lossy()))
        .collect();
    words.join(" ")
}

/// A path inside an option's comma-separated list.
#[must_use]
pub fn escape(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

/// A word for the shell.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(accel: Accel, smp: u8) -> Machine {
        Machine {
            image: "/i/takt".into(),
            ram: "/dev/shm/a,b".into(),
            dir: "/r".into(),
            cmdline: "workload=timerlat period_ns=1".into(),
            smp,
            accel,
        }
    }

    #[test]
    fn icount_is_for_icount_only() {
        assert!(
            machine(Accel::TcgIcount, 2)
                .to_shell()
                .contains("-icount shift=0,sleep=off")
        );
        let tcg = machine(Accel::Tcg, 2).to_shell();
        assert!(tcg.contains("tcg,thread=multi") && !tcg.contains("-icount"));
        let kvm = machine(Accel::Kvm, 1).to_shell();
        assert!(
            kvm.contains("-accel kvm") && kvm.contains("-cpu host") && !kvm.contains("-icount")
        );
    }

    #[test]
    fn paths_and_words_survive_quoting() {
        let shell = machine(Accel::Kvm, 1).to_shell();
        assert!(shell.contains("mem-path=/dev/shm/a,,b,share=on"));
        assert!(shell.ends_with("-append 'workload=timerlat period_ns=1'"));
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }
}
