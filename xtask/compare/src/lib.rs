//! `compare`: another system in the same QEMU, measured with its own tools, beside ours.
//!
//! | module | content |
//! |---|---|
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
//!
//! # What is compared
//! Both systems get the same machine (chip set, CPU model, icount, clock); only memory and devices differ. timerlat's
//! warm-up does not count on either side, since Linux's first activations are not like the others. What was lost in Linux's
//! ring, samples that are missing, or another priority than FIFO 95 taint the comparison or end it.
//!
//! # Packages
//! The pinned ones, by version and SHA-256, from Debian's archive or its past: whoever compares has the same Linux. Or those
//! that the user has put into a folder.
//!
//! # Progress
//! A guest is stuck if neither its ticks nor its output change while QEMU computes for a minute, or if QEMU does not
//! compute; and one whose time goes far beyond what was asked for is ended too. So a slow host is no reason to end it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

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
    #[serde(with = "takt_guest::named")]
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
