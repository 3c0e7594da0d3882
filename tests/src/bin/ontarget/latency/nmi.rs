//! A non-maskable interrupt that disables preemption while a hook is under way.

use takt_kernel::irq::{self, Nmi};
use takt_kernel::preempt;
use takt_tests::harness::Failure;
use takt_tests::worker::burn;
use takt_tests::{check, interrupt, target_test};

use super::longest;

/// How often one comes, each time some instructions later.
const NMIS: u64 = 40;
/// What beginning anew to take a hook's time may add, in instructions.
const ANEW: u64 = 8;
/// When one comes: in the section, or long behind it.
const INSIDE: u64 = 20;
const BEHIND: u64 = 50_000;

/// What the interrupt runs: a hook, on the CPU whose hook it may have come upon.
fn handler(_: &Nmi) {
    burn(1000);
    drop(preempt::disable());
}

/// A section with little in it but hooks, or none, into which an interrupt comes after `us` microseconds, or not. Gives its
/// length as the tracer has it.
fn section(has_hooks: bool, us: u64, shift: u64) -> Result<u64, Failure> {
    let act = || {
        let outer = preempt::irq_save();
        interrupt::nmi_after_us(us);
        burn(shift);
        for _ in 0..400 {
            match has_hooks {
                true => drop(preempt::irq_save()),
                false => burn(100),
            }
        }
        drop(outer);
    };
    longest("preemptirqsoff", act).map(|found| found.cycles)
}

target_test! {
    /// One that comes upon a hook is hidden with it, one that comes beside it is part of the section: nothing in between.
    fn nmis_upon_hooks_leave_lengths_exact(Shared) {
        // SAFETY: it computes, and drops its guard.
        unsafe { irq::set_nmi_handler(handler) };
        let plain = section(false, BEHIND, 0)?;
        let taken = section(false, INSIDE, 0)? - plain;
        let (mut upon, mut beside) = (0, 0);
        for shift in (0..NMIS).map(|nr| 2 + 14 * nr) {
            let quiet = section(true, BEHIND, shift)?;
            let length = section(true, INSIDE, shift)?;
            match length.wrapping_sub(quiet) {
                0 => upon += 1,
                more if (taken..=taken + ANEW).contains(&more) => beside += 1,
                more => check!(false, "{more} more than {quiet}, not 0 nor {taken}, shift {shift}; {upon} upon, {beside} beside"),
            }
        }
        // Rearmed, so that none comes later.
        section(false, INSIDE, 0)?;
        // SAFETY: it does nothing.
        unsafe { irq::set_nmi_handler(|_| {}) };
        check!(upon > 0 && beside > 0, "{upon} upon hooks, {beside} beside");
        Ok(())
    }
}
