//! The instructions of the stretch, one after the other, as QEMU executed them.
//!
//! QEMU translates one instruction at a time (`-singlestep`, later `one-insn-per-tb`) and logs the address of each
//! (`-d exec,nochain`). That changes neither the guest nor its time. Of the log only the kernel's text is kept.
//!
//! An instruction that turns out to reach a device is begun anew under other translation flags, and then stands in the
//! log twice, though it is executed once. So does one before which QEMU's own timer is due: it is begun, left, and begun
//! anew. Only what repeats itself, a string instruction or a jump to itself, is executed as often as it is logged.

use std::ffi::OsString;
use std::io::{self, BufRead};

use anyhow::{Context, Result, bail};

use crate::image::Elf;
use crate::image::disassembly::repeats_itself;

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
        let symbol = |name| {
            elf.symbol(name)
                .with_context(|| format!("{} cannot be swept", elf.path.display()))
        };
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
        mut args: Vec<OsString>,
        qemu: &str,
        file: &std::path::Path,
    ) -> Vec<OsString> {
        if has_one_insn_per_tb(qemu) {
            // Of several accelerators QEMU takes the first.
            for tcg in args.iter_mut().filter(|it| *it == "tcg") {
                *tcg = "tcg,one-insn-per-tb=on".into();
            }
        } else {
            args.push("-singlestep".into());
        }
        let ranges = format!(
            "{:#x}..{:#x},{:#x}..{:#x}",
            self.start,
            self.wait - 1,
            self.begun,
            self.text_end - 1
        );
        args.extend(["-d", "exec,nochain", "-dfilter", &ranges, "-D"].map(Into::into));
        args.push(file.into());
        args
    }

    /// Reads the log: the path between the last pair of marks.
    /// `code_at` gives the bytes of an instruction.
    pub(super) fn read<'c>(
        &self,
        log: impl BufRead,
        code_at: impl Fn(u64) -> &'c [u8],
    ) -> Result<Path> {
        let mut reader = Reader::default();
        let mut before = None;
        for line in Executed(log) {
            let line = line?;
            let is_same_again = before
                .replace(line)
                .filter(|it: &Line| it.ip == line.ip)
                .is_some_and(|it| {
                    it.flags != line.flags || !repeats_itself(code_at(line.ip), line.ip)
                });
            if !is_same_again {
                reader.add(self, line.ip);
            }
        }
        match reader.last {
            Some(path) if !path.is_empty() => Ok(path),
            _ => bail!("the stretch never ran: its beginning or its end was not executed"),
        }
    }
}

/// `-singlestep` has another name from QEMU 8.1 on, and is the accelerator's.
fn has_one_insn_per_tb(qemu: &str) -> bool {
    let mut numbers = qemu
        .split_once("version ")
        .map_or("", |(_, rest)| rest)
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (8, 1)
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

/// A line of QEMU's log: `Trace 0: 0x7f… [cs_base/pc/flags/cflags] `.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    ip: u64,
    /// How it was translated.
    flags: u32,
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let (_, places) = line.strip_prefix("Trace ")?.split_once('[')?;
        let mut places = places.split(['/', ']']);
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            ip: places.nth(1).and_then(number)?,
            flags: places.nth(1).and_then(number)? as u32,
        })
    }
}

/// The lines of the log that tell of an instruction.
struct Executed<R>(R);

impl<R: BufRead> Iterator for Executed<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        loop {
            line.clear();
            match self.0.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Err(error) => return Some(Err(error)),
                Ok(_) => {}
            }
            if let Some(line) = std::str::from_utf8(&line).ok().and_then(Line::parse) {
                return Some(Ok(line));
            }
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
    fn what_is_begun_anew_is_executed_once_and_repeated_twice() {
        let again = log(&[0x1500]).replace("ff020201", "ff038201");
        let text = log(&[0x1114, 0x1500]) + &again + &log(&[0x1502, 0x1502, 0x1120]);
        let path = MARKS.read(text.as_bytes(), |_| &[0xf3, 0xa4]).unwrap();
        assert_eq!(path.ips, [0x1500, 0x1502, 0x1502]);
        for once in [&[0xf3, 0x90][..], &[0xf3, 0x0f, 0x6f], &[0x89, 0xfe], &[]] {
            let path = MARKS.read(text.as_bytes(), |_| once).unwrap();
            assert_eq!(path.ips, [0x1500, 0x1502], "{once:x?}");
        }
        for again in [
            &[0xeb, 0xfe][..],
            &[0xe2, 0xfe],
            &[0xf3, 0x48, 0xa5],
            &[0xf2, 0xae],
        ] {
            let path = MARKS.read(text.as_bytes(), |_| again).unwrap();
            assert_eq!(path.ips, [0x1500, 0x1502, 0x1502], "{again:x?}");
        }
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
        let before = ["-accel", "tcg", "-icount", "shift=0"].map(OsString::from);
        let logged = |version: &str| {
            let version = format!("QEMU emulator version {version} (Debian)");
            MARKS.logged(before.to_vec(), &version, "/tmp/log".as_ref())
        };
        for (version, one_by_one) in [
            ("7.2.22", "-singlestep"),
            ("8.0.4", "-singlestep"),
            ("8.1.0", "tcg,one-insn-per-tb=on"),
            ("10.0.2", "tcg,one-insn-per-tb=on"),
        ] {
            let words = logged(version);
            let nr = |word: &str| words.iter().filter(|it| *it == word).count();
            assert_eq!(nr("0x1000..0x10ff,0x1110..0x1fff"), 1);
            assert_eq!((nr("exec,nochain"), nr("-accel")), (1, 1));
            assert_eq!(nr(one_by_one), 1, "{words:?}");
            assert_eq!(nr("tcg") + nr("tcg,one-insn-per-tb=on"), 1, "{words:?}");
        }
    }
}
