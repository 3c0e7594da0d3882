//! The latencies so far, as a table for people.

use core::fmt::{self, Write};
use core::sync::atomic::Ordering::Relaxed;

use takt_timerlat::stats::{LatencyStats, MAX_SLOTS, SlotStats, Status};

/// Lines of the heads.
const HEADS: usize = 2;
/// Lines that the table has at most.
pub(super) const MAX_LINES: usize = HEADS + MAX_SLOTS;

/// Writes the table: heads, and a line for each measured thread. Each has less than 80 columns.
pub(super) fn write(status: &Status, out: &mut impl Write) -> fmt::Result {
    writeln!(
        out,
        "{:13} {:<27}  {:<27}",
        "", "IRQ latency in ns", "thread latency in ns"
    )?;
    let four = format_args!("{:>6} {:>6} {:>6} {:>6} ", "cur", "min", "avg", "max");
    writeln!(out, "CPU    count  {four} {four}missed")?;
    let is_measured = |slot: &&SlotStats| slot.active.load(Relaxed) == 1;
    status
        .slots
        .iter()
        .filter(is_measured)
        .try_for_each(|slot| row(slot, out))
}

fn row(slot: &SlotStats, out: &mut impl Write) -> fmt::Result {
    let count = slot.thread.count.load(Relaxed);
    write!(out, "{:>3} {count:>8} ", slot.cpu.load(Relaxed))?;
    for latency in [&slot.irq, &slot.thread] {
        figures(latency, out)?;
    }
    writeln!(out, "{:>6}", slot.missed.load(Relaxed))
}

fn figures(of: &LatencyStats, out: &mut impl Write) -> fmt::Result {
    let count = of.count.load(Relaxed);
    if count == 0 {
        return write!(out, " {0:>6} {0:>6} {0:>6} {0:>6} ", "-");
    }
    let (cur, sum) = (of.cur.load(Relaxed), of.sum.load(Relaxed));
    for ns in [cur, of.min.load(Relaxed), sum / count, of.max.load(Relaxed)] {
        match ns {
            0..1_000_000 => write!(out, " {ns:>6}")?,
            // As wide, for what happens where the host's time counts.
            _ => write!(out, " {:>4}ms", ns / 1_000_000)?,
        }
    }
    out.write_char(' ')
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::boxed::Box;
    use std::string::String;

    use super::*;

    #[test]
    fn a_line_for_each_cpu() {
        // SAFETY: zeros are a status block at rest, which is too large for a test's stack.
        let status = unsafe { Box::<Status>::new_zeroed().assume_init() };
        status.slots[0].open(0, 9, 95, 1_000_000);
        status.slots[1].open(1, 10, 95, 1_000_000);
        for ns in [100, 123_456_789, 200] {
            status.slots[1].irq.record(ns / 2);
            status.slots[1].thread.record(ns);
        }
        status.slots[1].missed.store(7, Relaxed);
        let mut text = String::new();
        write(&status, &mut text).unwrap();
        let expected = [
            "              IRQ latency in ns            thread latency in ns",
            "CPU    count     cur    min    avg    max     cur    min    avg    max missed",
            "  0        0       -      -      -      -       -      -      -      -      0",
            "  1        3     100     50   20ms   61ms     200    100   41ms  123ms      7",
        ];
        assert!(text.lines().map(str::trim_end).eq(expected), "{text}");
        assert!(text.lines().count() <= MAX_LINES);
        assert!(text.lines().all(|line| line.len() < 80));
    }
}
