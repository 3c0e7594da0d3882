//! The instructions of the stretch, one after the other, as QEMU executed them. Of the log only the kernel's text is kept.

use std::ffi::OsString;
use std::io::BufRead;

use anyhow::{Result, bail};

use takt_guest::Elf;
use takt_machine::qemu::executed::{self, Executed};

/// Instructions that are kept behind the end of the stretch: an interrupt that arrives at its last instructions may be
/// taken there.
const TAIL: usize = 4096;

/// The path of a stretch that nothing interrupted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Addresses of its instructions.
    pub ips: Vec<u64>,
    /// And of some that follow.
    pub tail: Vec<u64>,
}

impl Path {
    /// The instruction that is executed `position` instructions after the beginning.
    #[must_use]
    pub fn at(&self, position: u32) -> Option<u64> {
        let position = position as usize;
        self.ips
            .get(position)
            .or_else(|| self.tail.get(position.checked_sub(self.ips.len())?))
            .copied()
    }

    /// The first `position` instructions, and another instead of the next one.
    pub(super) fn up_to(mut self, position: u32, then: Option<u64>) -> Self {
        let position = position as usize;
        match position.checked_sub(self.ips.len()) {
            None => {
                self.ips.truncate(position);
                self.tail.clear();
                self.ips.extend(then);
            }
            Some(behind) => {
                self.tail.truncate(behind);
                self.tail.extend(then);
            }
        }
        self
    }

    /// How many instructions it has.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.ips.len() as u32
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ips.is_empty()
    }
}

/// The places between which the path lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    start: u64,
    /// Waits for the beginning up to here: not logged.
    wait: u64,
    begun: u64,
    end: u64,
    text_end: u64,
}

impl Marks {
    /// The marks of an image.
    pub(super) fn of(elf: &Elf) -> Result<Self> {
        let symbol = |name| elf.symbol(name);
        Ok(Self {
            start: symbol("__text_start")?,
            wait: symbol("takt_mark_begin")?,
            begun: symbol("takt_mark_begun")?,
            end: symbol("takt_mark_end")?,
            text_end: elf.code_end(),
        })
    }

    /// QEMU's arguments, of this version, with every instruction logged to `file`.
    pub(super) fn logged(
        &self,
        args: Vec<OsString>,
        qemu: &str,
        file: &std::path::Path,
    ) -> Vec<OsString> {
        let ranges = [self.start..self.wait, self.begun..self.text_end];
        executed::logged(args, qemu, &ranges, file)
    }

    /// Reads the log: the path between the last pair of marks.
    /// `code_at` gives the bytes of an instruction.
    pub(super) fn read<'c>(
        &self,
        log: impl BufRead,
        code_at: impl Fn(u64) -> &'c [u8],
    ) -> Result<Path> {
        let mut reader = Reader::default();
        for ip in Executed::new(log, code_at) {
            reader.add(self, ip?);
        }
        match reader.last {
            Some(path) if !path.is_empty() => Ok(path),
            _ => bail!("the stretch never ran: its beginning or its end was not executed"),
        }
    }
}

#[derive(Default)]
struct Reader {
    /// The stretch under way.
    open: Option<Vec<u64>>,
    /// The one that was ended last.
    last: Option<Path>,
}

impl Reader {
    fn add(&mut self, marks: &Marks, ip: u64) {
        if (marks.begun..marks.end).contains(&ip) {
            self.open = Some(Vec::new());
        } else if ip == marks.end
            && let Some(ips) = self.open.take()
        {
            let tail = vec![ip];
            self.last = Some(Path { ips, tail });
        } else if let Some(open) = &mut self.open {
            open.push(ip);
        } else if let Some(last) = &mut self.last
            && last.tail.len() < TAIL
        {
            last.tail.push(ip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks {
        start: 0x1000,
        wait: 0x1100,
        begun: 0x1110,
        end: 0x1120,
        text_end: 0x2000,
    };

    fn log(ips: &[u64]) -> String {
        let line = |ip| {
            format!(
                "Trace 0: 0x7fe67c01c2c0 [{:016x}/{ip:016x}/000000b0/ff020201] \n",
                0
            )
        };
        ips.iter().copied().map(line).collect()
    }

    #[test]
    fn the_last_stretch_counts() {
        let ips = [
            0x1110, 0x1114, 0x1500, 0x1120, 0x1124, // one
            0x1110, 0x1112, 0x1114, 0x1600, 0x1602, 0x1120, 0x1124, 0x1700, // another
        ];
        let text = format!("noise\n{}Trace\nTrace 0: [x]\n", log(&ips));
        let path = MARKS.read(text.as_bytes(), |_| &[0xf3, 0xa4]).unwrap();
        assert_eq!(path.ips, [0x1600, 0x1602]);
        assert_eq!(path.tail, [0x1120, 0x1124, 0x1700]);
        assert_eq!(path.at(1), Some(0x1602));
        assert_eq!(path.at(3), Some(0x1124));
        assert_eq!(path.at(5), None);
    }

    #[test]
    fn a_stretch_without_end_is_none() {
        assert!(
            MARKS
                .read(log(&[0x1110, 0x1500]).as_bytes(), |_| &[])
                .is_err()
        );
        assert!(
            MARKS
                .read(log(&[0x1120, 0x1500]).as_bytes(), |_| &[])
                .is_err()
        );
        assert!(MARKS.read(&b""[..], |_| &[]).is_err());
    }

    #[test]
    fn only_the_kernels_text_is_logged() {
        let words = MARKS.logged(
            Vec::new(),
            "QEMU emulator version 7.2.22",
            "/tmp/log".as_ref(),
        );
        assert!(
            words.contains(&"0x1000..0x10ff,0x1110..0x1fff".into()),
            "{words:?}"
        );
    }
}
