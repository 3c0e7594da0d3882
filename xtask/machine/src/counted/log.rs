//! [`Log`]: the plugin's log, entry by entry.

use std::io::{self, Read};

use anyhow::{Context, Result, bail};

use super::format::{Entry, MAGIC};

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Instructions executed until then, by all CPUs together; that of a mark is counted.
    pub at: u64,
    /// The CPU whose turn it is from here on.
    pub cpu: u32,
    /// The number of the mark that was executed; without one, the CPU's turn began.
    pub mark: Option<u32>,
}

/// A log that is being read. Ends with the log's last entry.
#[derive(Debug)]
pub struct Log<R> {
    input: R,
    at: u64,
    cpu: u32,
    lines: u32,
    is_over: bool,
}

impl<R: Read> Log<R> {
    /// Reads a log.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn new(mut input: R) -> Result<Self> {
        let mut magic = [0; MAGIC.len()];
        input
            .read_exact(&mut magic)
            .context("the log of executed instructions has no beginning")?;
        if magic != MAGIC {
            bail!("this is no log of executed instructions");
        }
        Ok(Self {
            input,
            at: 0,
            cpu: 0,
            lines: 0,
            is_over: false,
        })
    }

    fn step(&mut self) -> io::Result<Option<Event>> {
        let mark = loop {
            let (entry, instructions) = Entry::read(&mut self.input)?;
            self.at = self
                .at
                .checked_add(instructions)
                .ok_or(io::ErrorKind::InvalidData)?;
            match entry {
                Entry::End => return Ok(None),
                Entry::Turn(cpu) => {
                    self.cpu = cpu;
                    break None;
                }
                Entry::Mark(mark) => break Some(mark),
                Entry::Lines(nr) => self.lines = nr,
            }
        };
        Ok(Some(Event {
            at: self.at,
            cpu: self.cpu,
            mark,
        }))
    }

    /// How many cache lines of data were touched from one mark to the last one, where the plugin counts them.
    pub fn lines(&self) -> u32 {
        self.lines
    }

    /// The next event, or `None` behind the last one.
    ///
    /// # Errors
    ///
    /// If the log is cut or is none.
    pub fn next_event(&mut self) -> Result<Option<Event>> {
        if self.is_over {
            return Ok(None);
        }
        let event = self.step().with_context(|| {
            format!(
                "the log of executed instructions ends after {} of them: the disk was full, or QEMU was ended",
                self.at
            )
        })?;
        self.is_over = event.is_none();
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A log of these entries.
    fn written(entries: &[(Entry, u64)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (entry, instructions) in entries {
            entry.write(&mut bytes, *instructions).unwrap();
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<Event>> {
        let mut log = Log::new(bytes)?;
        std::iter::from_fn(|| log.next_event().transpose()).collect()
    }

    #[test]
    fn a_turn_of_a_thousand_instructions_takes_three_bytes() {
        assert_eq!(written(&[(Entry::Turn(3), 1000)]).len(), MAGIC.len() + 3);
    }

    #[test]
    fn what_is_cut_or_foreign_is_refused() {
        let whole = written(&[(Entry::Turn(0), 0), (Entry::Mark(70), 300), (Entry::End, 5)]);
        assert_eq!(read(&whole).unwrap().len(), 2);
        for len in MAGIC.len()..whole.len() {
            let error = format!("{:#}", read(&whole[..len]).unwrap_err());
            assert!(error.contains("ends after"), "{error}");
        }
        assert!(read(&[]).is_err() && read(b"ELF\x7f....").is_err());
        // A number of more than 64 bits, and one that is no CPU's.
        assert!(read(&[&MAGIC[..], &[0xff; 11]].concat()).is_err());
        assert!(read(&[&MAGIC[..], &[0], &[0xff; 9], &[1]].concat()).is_err());
        let too_many = written(&[(Entry::Mark(0), u64::MAX), (Entry::Mark(0), 1)]);
        assert!(read(&too_many).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            // As many events as there are bytes, at most, or an error.
            let events = read(&[&MAGIC[..], &bytes].concat()).map_or(0, |events| events.len());
            prop_assert!(events <= bytes.len());
        }

        #[test]
        fn what_is_written_reads_back(events in prop::collection::vec((0u64..1 << 50, 0u32..9, any::<Option<u32>>()), 0..50)) {
            let mut entries = Vec::new();
            let mut expected = Vec::new();
            let (mut at, mut cpu) = (0, 0);
            for (instructions, next, mark) in events {
                at += instructions;
                cpu = if mark.is_none() { next } else { cpu };
                entries.push((Entry::Lines(next), 0));
                entries.push((mark.map_or(Entry::Turn(next), Entry::Mark), instructions));
                expected.push(Event { at, cpu, mark });
            }
            entries.push((Entry::End, 7));
            prop_assert_eq!(read(&written(&entries)).unwrap(), expected);
        }
    }
}
