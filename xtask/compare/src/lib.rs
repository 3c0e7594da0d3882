//! `compare`: another system in the same QEMU, measured with its own tools, beside ours.
//!
//! | module | content |
//! |---|---|
//! | [`apt`] | asking apt for packages, without being root and without changing the system |
//! | [`packages`] | the packages of Linux PREEMPT_RT: fetched, kept and checked |
//! | [`kernel`] | the kernel's ELF file out of its package |
//! | [`initramfs`] | what Linux runs: our `init.sh`, busybox, cyclictest |
//! | [`machine`] | the machine that Linux gets |
//! | [`watch`] | a Linux that is running: progress, its end |
//! | [`timerlat`], [`cyclictest`] | their output |
//! | [`linux`] | all of this in a row |
//! | [`verdict`] | the limits |
//! | [`record`] | `compare.json` |
//! | [`table`] | both side by side, as text |
//!
//! Nothing here is specific to Takt: its side is two ordinary runs.
#![forbid(unsafe_code)]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

pub mod apt;
pub mod cyclictest;
pub mod initramfs;
pub mod kernel;
pub mod linux;
pub mod machine;
pub mod packages;
pub mod record;
pub mod table;
pub mod timerlat;

pub mod verdict;
pub mod watch;

/// Which load, which timing: the same for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[expect(missing_docs, reason = "the fields are the flags of compare")]
pub struct Settings {
    pub period_ns: u64,
    pub duration_ns: u64,
    pub warm_up_ns: u64,
    #[serde(with = "takt_base::named")]
    pub load: takt_timerlat::config::Load,
}

/// The priority of what is measured, on both sides: timerlat's own on Linux, which only `chrt` would change.
pub const PRIORITY: u8 = 95;

impl Settings {
    /// Activations that count.
    #[must_use]
    pub fn activations(&self) -> u64 {
        self.duration_ns / self.period_ns
    }

    /// Activations of timerlat that come before them.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.warm_up_ns.div_ceil(self.period_ns)
    }
}
