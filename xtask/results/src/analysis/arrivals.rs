//! [`Arrivals`]: when timers expired on a CPU, besides those that are measured, and what else a trace says of interrupts.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use takt_decode::{Item, Record};

use takt_machine::samples::{EXPIRE, IRQ, Trace};

/// When they expired, in ns.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    at: Vec<u64>,
}

/// The timer's vector (`takt_kernel::arch::interrupts`).
const TIMER: u64 = 0x50;

/// An interrupt under way.
#[derive(Debug, Default)]
struct Open {
    vector: u64,
    at: u64,
    /// What has expired, without the measured one.
    timers: Vec<u64>,
    has_ours: bool,
}

/// What a trace says of a CPU's interrupts.
#[derive(Debug, Default)]
pub struct Interrupts {
    /// Timers besides those that are measured.
    pub arrivals: Arrivals,
    /// Those of them that are not a thread's time-out.
    pub timers: BTreeSet<u64>,
    /// Vectors of interrupts that are no timer's.
    pub devices: BTreeSet<u64>,
    /// How many timers were ever armed.
    pub armed: usize,
    /// Whether a time-out ended a wait for a mutex.
    pub timed_out_of_mutex: bool,
}

impl Arrivals {
    /// At these times.
    #[cfg(test)]
    pub(crate) fn at(at: &[u64]) -> Self {
        Self { at: at.to_vec() }
    }

    /// The most in any window of that length.
    #[must_use]
    pub fn most(&self, window: u64) -> u64 {
        let mut first = 0;
        let mut most = 0;
        for (last, at) in self.at.iter().enumerate() {
            while at - self.at[first] > window {
                first += 1;
            }
            most = most.max(last + 1 - first);
        }
        most as u64
    }
}

/// Reads a trace for those of a CPU. `is_thread` says whether there is a thread of a number, whose time-out has the same.
///
/// # Errors
///
/// If it cannot be read, or is not whole.
pub fn read(trace: &mut Trace, cpu: u8, is_thread: impl Fn(u64) -> bool) -> Result<Interrupts> {
    let clock = takt_decode::TscClock::new(trace.file.header().tsc_hz);
    let mut found = Interrupts::default();
    let (mut armed, mut waiting) = (BTreeSet::new(), BTreeSet::new());
    let mut open: Option<Open> = None;
    for item in trace.file.merge(&trace.decoder.table) {
        let record = match item? {
            Item::Record(record) if record.cpu == cpu => record,
            Item::Record(_) => continue,
            Item::Lost { .. } => bail!("events are missing in the trace"),
            Item::Damage(_) => bail!("the trace is damaged"),
        };
        let number = |name: &str| record.number(name).unwrap_or_default();
        match record.event.name.as_str() {
            "irq:irq_handler_entry" => {
                let new = Open {
                    vector: number("vector"),
                    at: clock.ns(record.ts),
                    ..Open::default()
                };
                found.close(open.replace(new), &is_thread);
            }
            "irq:irq_handler_exit" => found.close(open.take(), &is_thread),
            EXPIRE => {
                let timer = number("timer");
                found.timed_out_of_mutex |= waiting.contains(&timer);
                if let Some(open) = &mut open {
                    open.timers.push(timer);
                }
            }
            // Of the timer that has just expired: the measured one.
            IRQ => {
                if let Some(open) = &mut open {
                    open.timers.pop();
                    open.has_ours = true;
                }
            }
            "timer:timer_start" => _ = armed.insert(number("timer")),
            "mutex:mutex_contended" => _ = waiting.insert(tid(&record)),
            "mutex:mutex_acquired" => _ = waiting.remove(&tid(&record)),
            _ => {}
        }
    }
    found.close(open.take(), &is_thread);
    found.armed = armed.len();
    Ok(found)
}

fn tid(record: &Record<'_>) -> u64 {
    record.tid.into()
}

impl Interrupts {
    /// An interrupt is over.
    fn close(&mut self, open: Option<Open>, is_thread: impl Fn(u64) -> bool) {
        let Some(open) = open else { return };
        if open.vector != TIMER {
            self.devices.insert(open.vector);
            return;
        }
        // One for nothing takes its time, too.
        let nothing = open.timers.is_empty() && !open.has_ours;
        let nr = open.timers.len() + usize::from(nothing);
        self.arrivals.at.extend(std::iter::repeat_n(open.at, nr));
        let others = open.timers.into_iter().filter(|it| !is_thread(*it));
        self.timers.extend(others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_window_is_found() {
        let all = Arrivals::at(&[0, 10, 11, 12, 30, 31, 32, 33]);
        assert_eq!(all.most(0), 1);
        assert_eq!(all.most(2), 3);
        assert_eq!(all.most(3), 4);
        assert_eq!(all.most(21), 5);
        assert_eq!(all.most(33), 8);
        assert_eq!(Arrivals::default().most(100), 0);
    }
}
