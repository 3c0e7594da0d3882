//! A line for each thread, as cyclictest shows it.

use takt_timerlat::stats::view;

use crate::record::SlotRecord;

/// How lines for threads look, while it runs and at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Latencies in ns, else in µs.
    pub is_ns: bool,
    /// Only a new maximum changes what is shown.
    pub is_on_max: bool,
}

impl Lines {
    /// Nanoseconds of what is printed.
    #[must_use]
    pub fn unit(self) -> u64 {
        if self.is_ns { 1 } else { 1000 }
    }
}

/// A thread's line.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    slot: usize,
    tid: u32,
    priority: u32,
    interval_ns: u64,
    count: u64,
    min: u64,
    last: u64,
    avg: u64,
    max: u64,
}

impl Line {
    /// Of a thread that is being measured.
    #[must_use]
    pub fn now(slot: &view::Slot) -> Self {
        let all = &slot.thread;
        Self {
            slot: slot.index,
            tid: slot.tid,
            priority: slot.prio,
            interval_ns: slot.interval_ns,
            count: all.count,
            min: all.min,
            last: all.cur,
            avg: all.avg().unwrap_or(0),
            max: all.max,
        }
    }

    /// Of a thread that was measured.
    #[must_use]
    pub fn at_end(slot: &SlotRecord) -> Self {
        let all = &slot.thread;
        Self {
            slot: slot.slot,
            tid: slot.tid,
            priority: slot.priority,
            interval_ns: slot.interval_ns,
            count: all.count,
            min: all.min.unwrap_or(0),
            last: slot.last_ns.unwrap_or(0),
            avg: all.sum.checked_div(all.count).unwrap_or(0),
            max: all.max.unwrap_or(0),
        }
    }

    /// The line, without its end.
    #[must_use]
    pub fn text(&self, lines: Lines) -> String {
        let unit = lines.unit();
        let width = if lines.is_ns { 8 } else { 5 };
        format!(
            "T:{:2} ({:5}) P:{:2} I:{} C:{:7} Min:{:7} Act:{:width$} Avg:{:width$} Max:{:8}",
            self.slot,
            self.tid,
            self.priority,
            self.interval_ns / 1000,
            self.count,
            self.min / unit,
            self.last / unit,
            self.avg / unit,
            self.max / unit,
        )
    }
}
