//! [`Activations`]: timerlat's activations, as they were executed.

use std::collections::VecDeque;
use std::io::Read;

use anyhow::{Result, bail};

use super::log::{Event, Log};
use super::marks::{Mark, Marks};
use super::turns::Turns;

/// Readings of the clock that are kept behind the interrupt's and the thread's: one of them is that of the sample's record.
const ROOM: usize = 32;

/// An activation: the counts of executed instructions at which it came to certain instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activation {
    /// Its number on its CPU, from 1 on, which is its `seqnum`.
    pub number: u64,
    /// The interrupt has taken its time stamp.
    pub stamp: u64,
    /// Readings of the clock in the interrupt, behind the call of timerlat's function: one of them is the record's.
    pub in_interrupt: Vec<u64>,
    /// The thread has read the clock.
    pub sample: u64,
    /// Readings of the clock behind that one.
    pub behind_sample: Vec<u64>,
}

/// Where a CPU is.
#[derive(Debug, Default)]
enum At {
    #[default]
    Outside,
    Interrupt,
    Sampled,
}

/// What is known of a CPU.
#[derive(Debug, Default)]
struct Cpu {
    at: At,
    /// Its last interrupt's time stamp.
    stamp: u64,
    current: Activation,
    complete: VecDeque<Activation>,
}

impl Cpu {
    fn close(&mut self) {
        if let At::Sampled = self.at {
            self.complete.push_back(self.current.clone());
        }
        self.at = At::Outside;
    }

    fn see(&mut self, mark: Mark, at: u64) -> Result<()> {
        match (mark, &self.at) {
            (Mark::Stamp, _) => self.stamp = at,
            (Mark::Expired, At::Interrupt) => bail!(
                "activation {}: its timer expired again before its thread has read the clock",
                self.current.number
            ),
            (Mark::Expired, _) => {
                self.close();
                self.at = At::Interrupt;
                self.current = Activation {
                    number: self.current.number + 1,
                    stamp: self.stamp,
                    ..Activation::default()
                };
            }
            (Mark::Sample, At::Interrupt) => {
                self.at = At::Sampled;
                self.current.sample = at;
            }
            (Mark::Sample, _) => bail!(
                "timerlat's thread read the clock again after activation {} though its timer has not expired",
                self.current.number
            ),
            (Mark::Reading, At::Outside) => {}
            (Mark::Reading, At::Interrupt) if self.current.in_interrupt.len() < ROOM => {
                self.current.in_interrupt.push(at);
            }
            (Mark::Reading, At::Interrupt) => {}
            (Mark::Reading, At::Sampled) => {
                self.current.behind_sample.push(at);
                if self.current.behind_sample.len() == ROOM {
                    self.close();
                }
            }
        }
        Ok(())
    }
}

/// The activations of a log.
#[derive(Debug)]
pub struct Activations<R> {
    log: Log<R>,
    marks: Marks,
    cpus: Vec<Cpu>,
    /// Whose turns there were lately.
    pub turns: Turns,
    is_over: bool,
}

impl<R: Read> Activations<R> {
    /// Those that `log` tells of a guest with so many CPUs.
    #[must_use]
    pub fn new(log: Log<R>, marks: Marks, nr_cpus: u8) -> Self {
        Self {
            log,
            marks,
            cpus: (0..nr_cpus).map(|_| Cpu::default()).collect(),
            turns: Turns::default(),
            is_over: false,
        }
    }

    /// The next activation of this CPU, if there is one more. Its instructions are among those of [`turns`](Self::turns) as
    /// long as it is asked for in about the order in which the threads ran.
    ///
    /// # Errors
    ///
    /// If the log is cut, or is not that of this guest.
    pub fn next_of(&mut self, cpu: usize) -> Result<Option<Activation>> {
        loop {
            match self.cpus.get_mut(cpu) {
                Some(cpu) if !cpu.complete.is_empty() => return Ok(cpu.complete.pop_front()),
                Some(_) if !self.is_over => {}
                _ => return Ok(None),
            }
            match self.log.next_event()? {
                Some(event) => self.see(event)?,
                None => {
                    self.is_over = true;
                    self.cpus.iter_mut().for_each(Cpu::close);
                }
            }
        }
    }

    fn see(&mut self, event: Event) -> Result<()> {
        let Some(mark) = event.mark else {
            self.turns.begin(event.at, event.cpu);
            return Ok(());
        };
        match self.cpus.get_mut(event.cpu as usize) {
            Some(cpu) => cpu.see(self.marks.meaning(mark), event.at),
            None => bail!(
                "the log of executed instructions has a CPU {} that there was not",
                event.cpu
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{Entry, MAGIC};
    use super::*;

    const STAMP: u32 = 0;
    const EXPIRED: u32 = 1;
    const SAMPLE: u32 = 2;
    const READING: u32 = 3;

    /// The activations of a log in which each of these happens so many instructions after the one before: a turn of a CPU
    /// from 10 on, or a mark.
    fn of(steps: &[(u32, u64)]) -> Activations<std::io::Cursor<Vec<u8>>> {
        let mut bytes = MAGIC.to_vec();
        for &(what, instructions) in steps {
            let entry = match what {
                0..10 => Entry::Mark(what),
                turn => Entry::Turn(turn - 10),
            };
            entry.write(&mut bytes, instructions).unwrap();
        }
        Entry::End.write(&mut bytes, 0).unwrap();
        let marks = [Mark::Stamp, Mark::Expired, Mark::Sample, Mark::Reading];
        let log = Log::new(std::io::Cursor::new(bytes)).unwrap();
        Activations::new(log, Marks::for_test(&marks), 2)
    }

    #[test]
    fn an_activation_has_its_own_interrupt_and_its_own_readings() {
        let mut all = of(&[
            (10, 0),
            // An interrupt of another timer, and a reading outside.
            (STAMP, 5),
            (READING, 5),
            (STAMP, 90),
            (READING, 10),
            (EXPIRED, 10),
            (READING, 10),
            (11, 10),
            // Another CPU's are none of these.
            (READING, 10),
            (STAMP, 10),
            (10, 10),
            // An interrupt before the thread runs.
            (STAMP, 10),
            (READING, 10),
            (SAMPLE, 10),
            (READING, 10),
            (READING, 10),
            (STAMP, 100),
            (EXPIRED, 10),
            (SAMPLE, 10),
        ]);
        let first = Activation {
            number: 1,
            stamp: 100,
            in_interrupt: vec![130, 190],
            sample: 200,
            behind_sample: vec![210, 220],
        };
        assert_eq!(all.next_of(0).unwrap(), Some(first));
        let second = all.next_of(0).unwrap().unwrap();
        assert_eq!((second.number, second.stamp, second.sample), (2, 320, 340));
        assert_eq!(all.next_of(0).unwrap(), None);
        assert_eq!(all.next_of(1).unwrap(), None);
        assert_eq!(all.next_of(2).unwrap(), None);
        assert_eq!(all.turns.others(0, 100..200), Some(30));
    }

    #[test]
    fn what_timerlat_does_not_do_is_refused() {
        for (steps, why) in [
            (&[(EXPIRED, 1), (EXPIRED, 1)][..], "expired again"),
            (&[(SAMPLE, 1)], "has not expired"),
            (
                &[(EXPIRED, 1), (SAMPLE, 1), (SAMPLE, 1)],
                "after activation 1",
            ),
            (&[(12, 1), (READING, 1)], "has a CPU 2"),
        ] {
            let error = of(steps).next_of(0).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
