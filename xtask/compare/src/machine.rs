//! [`LinuxMachine`]: the machine that Linux gets: as Takt's, with more memory, and two serial ports instead of a virtio
//! console.

use std::ffi::OsString;
use std::path::PathBuf;

use takt_timerlat::config::Load;

use super::Settings;
use takt_machine::qemu::command::{BARE, base, escape, shell};
use takt_machine::qemu::{self, Accel};

/// Debian's kernel does not boot below 96.
const RAM_MIB: u64 = 256;
/// Bytes of the trace that an activation takes: two records of 36 bytes, and what the ring needs itself.
const TRACE_BYTES: u64 = 80;
/// cyclictest's histogram ends here.
const HISTOGRAM_NS: u64 = 200_000;
/// How much longer than the activations that count timerlat runs, in ns. It begins a while after it is told to.
const MARGIN_NS: u64 = 50_000_000;

/// A machine with Linux.
#[derive(Clone, Debug)]
pub struct LinuxMachine {
    /// The kernel's ELF file.
    pub kernel: PathBuf,
    /// The initramfs.
    pub initramfs: PathBuf,
    /// The guest's RAM, shared.
    pub ram: PathBuf,
    /// Folder for what the guest writes.
    pub dir: PathBuf,
    /// What is measured.
    pub settings: Settings,
}

impl LinuxMachine {
    /// What the first serial port writes: the kernel's log.
    #[must_use]
    pub fn console(&self) -> PathBuf {
        self.dir.join("console.txt")
    }

    /// What the second one writes: the results.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        self.dir.join("results.tar.gz")
    }

    /// Guest RAM in MiB. The trace lies in it as a ring, as a text of three times that size, and packed.
    #[must_use]
    pub fn ram_mib(settings: &Settings) -> u64 {
        (RAM_MIB + 5 * trace_kib(settings) / 1024).next_multiple_of(32)
    }

    /// The kernel's command line.
    #[must_use]
    pub fn cmdline(&self) -> String {
        let settings = &self.settings;
        let sleep_ns = settings.warm_up_ns + settings.duration_ns + MARGIN_NS;
        let load = match settings.load {
            Load::None => "none",
            Load::Cpu => "cpu",
            _ => "mix",
        };
        format!(
            "{} console=ttyS0 panic=-1 TAKT_PERIOD_US={} TAKT_SLEEP={}.{:09} TAKT_LOOPS={} TAKT_HIST_NS={HISTOGRAM_NS} \
             TAKT_BUFFER_KB={} TAKT_LOAD={load}",
            Self::ARGUMENTS,
            settings.period_ns / 1000,
            sleep_ns / 1_000_000_000,
            sleep_ns % 1_000_000_000,
            settings.activations(),
            trace_kib(settings),
        )
    }

    /// The kernel's arguments that bear upon latencies: the TSC is the virtual clock, and code lies where it was linked.
    pub const ARGUMENTS: &str = "tsc=reliable nokaslr";

    /// QEMU's arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut args = base(
            &self.ram,
            Self::ram_mib(&self.settings),
            1,
            Accel::TcgIcount,
        );
        for (id, path) in [("con", self.console()), ("res", self.results())] {
            args.extend([
                "-chardev".into(),
                format!("file,id={id},path={}", escape(&path)).into(),
                "-serial".into(),
                format!("chardev:{id}").into(),
            ]);
        }
        args.extend(BARE.map(Into::into));
        args.extend(["-kernel".into(), self.kernel.clone().into()]);
        args.extend(["-initrd".into(), self.initramfs.clone().into()]);
        args.extend(["-append".into(), self.cmdline().into()]);
        args
    }

    /// The command with names inside a folder that has the kernel and the initramfs.
    #[must_use]
    pub fn to_shell(&self) -> String {
        let inside = Self {
            kernel: "vmlinux".into(),
            initramfs: "initramfs".into(),
            ram: "guest.ram".into(),
            dir: PathBuf::new(),
            settings: self.settings,
        };
        let mut words = vec![qemu::program()];
        words.extend(inside.arguments());
        shell(&words)
    }
}

/// The trace ring's size.
fn trace_kib(settings: &Settings) -> u64 {
    let longest = settings.warm_up_ns + settings.duration_ns + 2 * MARGIN_NS;
    longest / settings.period_ns * TRACE_BYTES / 1024 + 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_machine::qemu::Machine;

    fn machine(load: Load) -> LinuxMachine {
        LinuxMachine {
            kernel: "/k/vmlinux".into(),
            initramfs: "/k/initramfs".into(),
            ram: "/dev/shm/r".into(),
            dir: "/d".into(),
            settings: Settings {
                period_ns: 500_000,
                duration_ns: 3_000_000_000,
                warm_up_ns: 100_000_000,
                load,
            },
        }
    }

    #[test]
    fn linux_is_told_what_the_settings_say() {
        let line = machine(Load::Mix).cmdline();
        for word in [
            "tsc=reliable nokaslr",
            "TAKT_PERIOD_US=500",
            "TAKT_SLEEP=3.150000000",
            "TAKT_LOOPS=6000",
            "TAKT_LOAD=mix",
        ] {
            assert!(line.contains(word), "{word} in {line}");
        }
        assert!(line.len() < qemu::process::MAX_CMDLINE);
    }

    /// What decides over latencies is the same on both sides.
    #[test]
    fn both_machines_have_the_same_cpu_and_clock() {
        let linux = machine(Load::None).to_shell();
        let takt = Machine {
            image: "takt.elf".into(),
            ram: "guest.ram".into(),
            dir: PathBuf::new(),
            cmdline: String::new(),
            smp: 1,
            accel: Accel::TcgIcount,
        }
        .to_shell();
        let option = |shell: &str, name: &str| {
            let mut words = shell.split(' ').skip_while(|word| *word != name);
            words.nth(1).map(str::to_owned)
        };
        for name in [
            "-machine", "-smp", "-cpu", "-accel", "-icount", "-rtc", "-seed", "-display",
        ] {
            assert!(option(&linux, name).is_some(), "{name}");
            assert_eq!(option(&linux, name), option(&takt, name), "{name}");
        }
    }
}
