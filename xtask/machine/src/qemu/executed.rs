//! The instructions that a guest executes, one after the other, as QEMU logs them.
//!
//! QEMU translates one instruction at a time (`-singlestep`, later `one-insn-per-tb`) and logs the address of each
//! (`-d exec,nochain`). That changes neither the guest nor its time.
//!
//! An instruction that turns out to reach a device is begun anew under other translation flags, and then stands in the
//! log twice, though it is executed once. So does one before which QEMU's own timer is due: it is begun, left, and begun
//! anew. Only what repeats itself, a string instruction or a jump to itself, is executed as often as it is logged.

use std::ffi::OsString;
use std::io::{self, BufRead};
use std::ops::Range;
use std::path::Path;

use takt_guest::disassembly::repeats_itself;

/// QEMU's arguments, of this version, with every instruction in these ranges logged to `file`.
#[must_use]
pub fn logged(
    mut args: Vec<OsString>,
    qemu: &str,
    ranges: &[Range<u64>],
    file: &Path,
) -> Vec<OsString> {
    if has_one_insn_per_tb(qemu) {
        // Of several accelerators QEMU takes the first.
        for tcg in args.iter_mut().filter(|it| *it == "tcg") {
            *tcg = "tcg,one-insn-per-tb=on".into();
        }
    } else {
        args.push("-singlestep".into());
    }
    let ranges: Vec<_> = ranges
        .iter()
        .filter(|range| !range.is_empty())
        .map(|range| format!("{:#x}..{:#x}", range.start, range.end - 1))
        .collect();
    args.extend(["-d", "exec,nochain", "-dfilter", &ranges.join(","), "-D"].map(Into::into));
    args.push(file.into());
    args
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
        let (places, _) = places.split_once(']')?;
        // By one character: twice as fast as by any of several, and there are millions of lines.
        let mut places = places.split('/');
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Self {
            ip: places.nth(1).and_then(number)?,
            flags: places.nth(1).and_then(number)? as u32,
        })
    }
}

/// The addresses of the instructions that a log says were executed.
#[derive(Debug)]
pub struct Executed<R, C> {
    log: R,
    code_at: C,
    line: Vec<u8>,
    before: Option<Line>,
}

impl<'c, R: BufRead, C: Fn(u64) -> &'c [u8]> Executed<R, C> {
    /// Reads a log; `code_at` gives the bytes of an instruction.
    pub fn new(log: R, code_at: C) -> Self {
        Self {
            log,
            code_at,
            line: Vec::new(),
            before: None,
        }
    }

    /// Whether an instruction that is logged behind another one is that one, begun anew.
    fn is_same_again(&self, line: Line, before: Line) -> bool {
        let repeats = || repeats_itself((self.code_at)(line.ip), line.ip);
        line.ip == before.ip && (line.flags != before.flags || !repeats())
    }
}

impl<'c, R: BufRead, C: Fn(u64) -> &'c [u8]> Iterator for Executed<R, C> {
    type Item = io::Result<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.line.clear();
            match self.log.read_until(b'\n', &mut self.line) {
                Ok(0) => return None,
                Err(error) => return Some(Err(error)),
                Ok(_) => {}
            }
            let Some(line) = std::str::from_utf8(&self.line).ok().and_then(Line::parse) else {
                continue;
            };
            match self.before.replace(line) {
                Some(before) if self.is_same_again(line, before) => {}
                _ => return Some(Ok(line.ip)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QEMU's log of these instructions, with these flags.
    fn log(ips: &[(u64, u32)]) -> String {
        let line = |(ip, flags): &(u64, u32)| {
            format!(
                "Trace 0: 0x7fe67c01c2c0 [{:016x}/{ip:016x}/000000b0/{flags:08x}] \n",
                0
            )
        };
        ips.iter().map(line).collect()
    }

    fn read(text: &str, code: &[u8]) -> Vec<u64> {
        Executed::new(text.as_bytes(), |_| code)
            .map(Result::unwrap)
            .collect()
    }

    #[test]
    fn what_is_no_instruction_is_passed_over() {
        let text = format!("noise\n{}Trace\nTrace 0: [x]\n", log(&[(5, 1), (6, 1)]));
        assert_eq!(read(&text, &[0x90]), [5, 6]);
        assert!(read("", &[]).is_empty());
    }

    #[test]
    fn what_is_begun_anew_is_executed_once_and_repeated_twice() {
        let text = log(&[
            (0x1500, 0xff02_0201),
            (0x1500, 0xff03_8201),
            (0x1502, 0xff02_0201),
            (0x1502, 0xff02_0201),
        ]);
        for once in [&[0xf3, 0x90][..], &[0xf3, 0x0f, 0x6f], &[0x89, 0xfe], &[]] {
            assert_eq!(read(&text, once), [0x1500, 0x1502], "{once:x?}");
        }
        for again in [
            &[0xeb, 0xfe][..],
            &[0xe2, 0xfe],
            &[0xf3, 0x48, 0xa5],
            &[0xf2, 0xae],
        ] {
            assert_eq!(read(&text, again), [0x1500, 0x1502, 0x1502], "{again:x?}");
        }
    }

    #[test]
    fn qemu_is_told_in_the_words_of_its_version() {
        let before = ["-accel", "tcg", "-icount", "shift=0"].map(OsString::from);
        let words = |version: &str| {
            let version = format!("QEMU emulator version {version} (Debian)");
            let ranges = [0x1000..0x1100, 0x1110..0x2000, 7..7];
            logged(before.to_vec(), &version, &ranges, "/tmp/log".as_ref())
        };
        for (version, one_by_one) in [
            ("7.2.22", "-singlestep"),
            ("8.0.4", "-singlestep"),
            ("8.1.0", "tcg,one-insn-per-tb=on"),
            ("10.0.2", "tcg,one-insn-per-tb=on"),
        ] {
            let words = words(version);
            let nr = |word: &str| words.iter().filter(|it| *it == word).count();
            assert_eq!(nr("0x1000..0x10ff,0x1110..0x1fff"), 1);
            assert_eq!((nr("exec,nochain"), nr("-accel")), (1, 1));
            assert_eq!(nr(one_by_one), 1, "{words:?}");
            assert_eq!(nr("tcg") + nr("tcg,one-insn-per-tb=on"), 1, "{words:?}");
        }
    }
}
