//! Lengths that the latency tracers tell, held against what QEMU has executed without them.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use takt_guest::Elf;
use takt_machine::qemu::executed::Executed;

/// What the image calls right before and behind each stretch.
const MARK: &str = "takt_counted_mark";
/// The instruction of a place: its hook comes back behind it.
const PLACE: u64 = 5;
/// Where interrupts enter: the third instruction takes the time stamp, from which their stretches count.
const ENTRIES: [&str; 2] = ["takt_irq_timer", "takt_irq_device"];
const STAMP: usize = 2;
/// Where interrupts begin to return: no place, but the instruction itself.
const RETURN: &str = "takt_irq_return";

/// A stretch that a tracer has found.
#[derive(Debug, PartialEq, Eq)]
struct Told<'s> {
    what: &'s str,
    cycles: usize,
    started_at: u64,
    ended_at: u64,
}

/// What the guest has said, a line for each pair of marks. `None` where the tracer has found nothing.
fn told(serial: &str) -> Result<Vec<(&str, Option<Told<'_>>)>> {
    let lines = serial
        .lines()
        .filter_map(|line| Some(line.split_once("counted: ")?.1));
    lines
        .map(|line| {
            let parse = || {
                let mut words = line.rsplitn(4, ' ');
                let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
                let (ended_at, started_at) = (hex()?, hex()?);
                let (cycles, what) = (words.next()?.parse().ok()?, words.next()?);
                Some(Told {
                    what,
                    cycles,
                    started_at,
                    ended_at,
                })
            };
            match line.strip_suffix(" none") {
                Some(what) => Ok((what, None)),
                None => {
                    let told = parse().with_context(|| format!("cannot be read: {line}"))?;
                    Ok((told.what, Some(told)))
                }
            }
        })
        .collect()
}

/// Compares every stretch; says how many there are.
pub(super) fn judge(elf: &Elf, serial: &str, log: &Path) -> Result<usize> {
    let told = told(serial)?;
    let windows = windows(elf, log)?;
    ensure!(
        told.len() == windows.len() && !told.is_empty(),
        "{} stretches were traced and {} executed",
        told.len(),
        windows.len()
    );
    let entries = ENTRIES
        .iter()
        .map(|name| elf.symbol(name))
        .collect::<Result<Vec<_>>>()?;
    let returns = elf.symbol(RETURN)?;
    let mut wrong = Vec::new();
    let mut nr = 0;
    for ((what, told), ips) in told.iter().zip(&windows) {
        let Some(told) = told else { continue };
        nr += 1;
        let count = length(told, ips, &entries, returns).with_context(|| (*what).to_owned())?;
        if count != told.cycles {
            let off = told.cycles.cast_signed() - count.cast_signed();
            wrong.push(format!("{what}: {} of {count} ({off:+})", told.cycles));
        }
    }
    if !wrong.is_empty() {
        bail!(
            "of {nr} lengths these are not those executed:\n{}",
            wrong.join("\n")
        );
    }
    Ok(nr)
}

/// How many instructions lie between the ends of a stretch.
fn length(told: &Told<'_>, ips: &[u64], entries: &[u64], returns: u64) -> Result<usize> {
    let (first, offset) = match entries.contains(&told.started_at) {
        true => (told.started_at, STAMP),
        false => (told.started_at - PLACE, 0),
    };
    let last = match told.ended_at {
        at if at == returns => at,
        at => at - PLACE,
    };
    let mut begins = (0..ips.len()).filter(|at| ips[*at] == first);
    let begin = begins.next().context("its beginning is not executed")?;
    ensure!(begins.next().is_none(), "it begins more than once");
    let behind = &ips[begin..];
    let end = behind.iter().position(|ip| *ip == last);
    Ok(end.context("its end is not executed")? - offset)
}

/// The instructions between each pair of marks.
fn windows(elf: &Elf, log: &Path) -> Result<Vec<Vec<u64>>> {
    let mark = elf.symbol(MARK)?;
    let file = takt_base::input::open(log).context("QEMU has not logged what it executed")?;
    let mut windows = Vec::new();
    let mut open: Option<Vec<u64>> = None;
    for ip in Executed::new(BufReader::with_capacity(1 << 20, file), |ip| {
        elf.code_at(ip)
    }) {
        let ip = ip.context("cannot read what QEMU executes")?;
        match (&mut open, ip == mark) {
            (None, true) => open = Some(Vec::new()),
            (Some(_), true) => windows.extend(open.take()),
            (Some(ips), false) => ips.push(ip),
            (None, false) => {}
        }
    }
    Ok(windows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let serial =
            "test a ... counted: irqsoff irqs 1003 0x205 0x30f\ncounted: wakeup irqs none\nok\n";
        let told = told(serial).unwrap();
        assert_eq!(told.len(), 2);
        let first = told[0].1.as_ref().unwrap();
        assert_eq!((first.what, first.cycles), ("irqsoff irqs", 1003));
        assert_eq!((first.started_at, first.ended_at), (0x205, 0x30f));
        assert_eq!((told[1].0, &told[1].1), ("wakeup irqs", &None));
        assert!(super::told("counted: x 1 2\n").is_err());
    }

    #[test]
    fn ends_are_places_or_an_interrupts() {
        let told = |started_at, ended_at| Told {
            what: "",
            cycles: 0,
            started_at,
            ended_at,
        };
        let ips = [1, 10, 2, 3, 4, 20, 5, 20];
        let length = |told: &Told<'_>| length(told, &ips, &[10], 5).ok();
        assert_eq!(length(&told(2 + PLACE, 20 + PLACE)), Some(3));
        // From its third instruction on.
        assert_eq!(length(&told(10, 20 + PLACE)), Some(2));
        assert_eq!(length(&told(10, 5)), Some(3));
        assert_eq!(length(&told(20 + PLACE, 5)), None);
        assert_eq!(length(&told(3 + PLACE, 2 + PLACE)), None);
    }
}
