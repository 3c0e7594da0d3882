//! A day: 24 hours of virtual time at 100 Hz.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_kernel::irq;
use takt_kernel::time::{Cycles, Instant, sleep_until};
use takt_tests::harness::PRIORITY;
use takt_tests::worker::{join, spawn};
use takt_tests::{check, check_eq, note, target_test};

/// What the host boots this test with.
const NS_PER_INSTRUCTION: u64 = 128;
const PERIOD_NS: u64 = 10_000_000;
const TICKS: u64 = 24 * 3600 * 100;

static STOP: AtomicBool = AtomicBool::new(false);

/// Lets time pass in long rows of NOPs. A halt would skip it, but costs the host several context switches each; NOPs
/// are counted as any instruction and cost it nothing.
fn pass_time(_: usize) {
    while !STOP.load(Relaxed) {
        // SAFETY: does nothing.
        unsafe {
            asm!(
                ".rept 490",
                "nop",
                ".endr",
                options(nomem, nostack, preserves_flags)
            )
        };
    }
}

target_test! {
    /// 8,640,000 activations at absolute times: none lost, none early, none later than the others, one interrupt for
    /// each, and the last one a day after the first. Booted with 128 ns an instruction.
    fn day_at_100_hz(Slow) {
        let spinner = spawn(0, PRIORITY - 1, pass_time, 0)?;
        let start = Instant::now() + Cycles::new(PERIOD_NS);
        sleep_until(start)?;
        let interrupts = irq::count(0);
        let (mut least, mut most) = (u64::MAX, 0);
        let mut at = start;
        for _ in 0..TICKS {
            at = at + Cycles::new(PERIOD_NS);
            sleep_until(at)?;
            let late = Instant::now().cycles().wrapping_sub(at.cycles());
            (least, most) = (least.min(late), most.max(late));
        }
        let interrupts = irq::count(0) - interrupts;
        let took = Instant::now().cycles() - start.cycles();
        STOP.store(true, Relaxed);
        join(&[spinner])?;
        note!("{TICKS} activations between {least} and {most} ns after their time, {interrupts} interrupts, {took} ns");
        // 500 instructions at most, and no drift: the first and the last are within that.
        check!(most <= 500 * NS_PER_INSTRUCTION, "{most} ns late");
        check!((TICKS * PERIOD_NS..TICKS * PERIOD_NS + 500 * NS_PER_INSTRUCTION).contains(&took), "a day took {took} ns");
        check_eq!(interrupts, TICKS);
        Ok(())
    }
}
