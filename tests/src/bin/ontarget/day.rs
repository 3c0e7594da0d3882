//! A day: 24 hours of virtual time at 100 Hz.

use takt_kernel::irq;
use takt_kernel::time::{Instant, sleep_until};
use takt_tests::{check, check_eq, note, target_test};

const PERIOD_NS: u64 = 10_000_000;
const TICKS: u64 = 24 * 3600 * 100;

target_test! {
    /// 8,640,000 activations at absolute times: none lost, none early, each exactly as late as the first, one interrupt
    /// for each. The CPU halts in between, so a day takes about a minute.
    fn day_at_100_hz(Alone) {
        let start = Instant::now() + PERIOD_NS;
        sleep_until(start)?;
        let usual = Instant::now().cycles() - start.cycles();
        let interrupts = irq::count(0);
        let (mut least, mut most) = (usual, usual);
        let mut at = start;
        for _ in 0..TICKS {
            at = at + PERIOD_NS;
            sleep_until(at)?;
            let late = Instant::now().cycles().wrapping_sub(at.cycles());
            (least, most) = (least.min(late), most.max(late));
        }
        let interrupts = irq::count(0) - interrupts;
        let took = Instant::now().cycles() - start.cycles();
        note!("{TICKS} activations between {least} and {most} ns after their time, {interrupts} interrupts, {took} ns");
        check!(most - least <= 8 && most <= 400, "between {least} and {most} ns late");
        check!(took - TICKS * PERIOD_NS <= most + 100, "a day took {took} ns");
        check_eq!(interrupts, TICKS);
        Ok(())
    }
}
