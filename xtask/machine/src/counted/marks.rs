//! [`Marks`]: the instructions of an image that the plugin logs with their count.

use anyhow::{Result, anyhow, bail};

use takt_base::term::WithHelp;
use takt_guest::Elf;
use takt_guest::symbolize::{SymbolNames, Symbolizer, without_hash};

/// The code of `rdtsc`.
const RDTSC: [u8; 2] = [0x0f, 0x31];
/// The timer's interrupt. Its third instruction is the first `rdtsc` behind the symbol.
const STAMP: &str = "takt_irq_timer";
/// timerlat's function in the timer's interrupt, once for each activation.
const EXPIRED: &str = "takt_timerlat::workload::timerlat::expired";
/// What reads the clock in timerlat's thread, and where that is inlined.
const READING: &str = "takt_kernel::clock::Instant::now";
const THREAD: &str = "takt_timerlat::workload::timerlat::run";

const ADVICE: &str = "--verify is for the image that latency-run builds: leave --image out";

/// What an executed mark means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The timer's interrupt has taken its time stamp.
    Stamp,
    /// timerlat's function was called in the timer's interrupt.
    Expired,
    /// timerlat's thread has read the clock.
    Sample,
    /// The clock was read elsewhere: for a record, or to set the timer.
    Reading,
}

/// The marks of an image.
#[derive(Clone, Debug)]
pub struct Marks {
    /// By their numbers: address and meaning.
    marks: Vec<(u64, Mark)>,
}

impl Marks {
    /// Finds them.
    ///
    /// # Errors
    ///
    /// If the image is not one that measures timerlat, or has no debug information.
    pub fn of(elf: &Elf) -> Result<Self> {
        let readings = readings(elf);
        let stamp = elf.symbol(STAMP).help(ADVICE)?;
        let stamp = readings.iter().copied().find(|&at| at >= stamp);
        let names = Symbolizer::new(elf);
        let is_sample = |at: &&u64| {
            let frames = names.lookup(**at);
            let mut pairs = frames.windows(2);
            pairs.any(|pair| function(&pair[0]) == READING && function(&pair[1]) == THREAD)
        };
        let samples: Vec<_> = readings.iter().filter(is_sample).collect();
        let [&sample] = samples[..] else {
            let error = anyhow!(
                "the image's debug information names {} places where timerlat's thread reads the clock, not one",
                samples.len()
            );
            return Err(error).help(ADVICE);
        };
        let symbols = SymbolNames::new(elf);
        let expired = symbols
            .iter()
            .find(|(_, name)| without_hash(name) == EXPIRED);
        let Some((expired, _)) = expired else {
            return Err(anyhow!("the image has no function `{EXPIRED}`")).help(ADVICE);
        };
        if stamp.is_none() || stamp == Some(sample) {
            bail!("the image's timer interrupt takes no time stamp");
        }
        let mark = |at: u64| match at {
            at if Some(at) == stamp => Mark::Stamp,
            at if at == sample => Mark::Sample,
            _ => Mark::Reading,
        };
        let mut marks: Vec<_> = readings.iter().map(|&at| (at, mark(at))).collect();
        marks.push((expired, Mark::Expired));
        Ok(Self { marks })
    }

    /// What this mark means; one that there is not is a reading of no interest.
    #[must_use]
    pub fn meaning(&self, number: u32) -> Mark {
        self.marks
            .get(number as usize)
            .map_or(Mark::Reading, |(_, mark)| *mark)
    }

    /// Their addresses, in the order of their numbers.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.marks.iter().map(|(at, _)| *at)
    }

    #[cfg(test)]
    pub(super) fn for_test(marks: &[Mark]) -> Self {
        Self {
            marks: (0..).zip(marks.iter().copied()).collect(),
        }
    }
}

/// The function of a frame, `function (file:line)`. How a type's functions are written depends on the image's mangling.
fn function(frame: &str) -> String {
    let name = frame.rsplit_once(" (").map_or(frame, |(name, _)| name);
    without_hash(name).replace(['<', '>'], "")
}

/// Every place in the code that may be an `rdtsc`, ascending. An instruction that begins with these two bytes is one; what
/// has them inside is never executed from there.
fn readings(elf: &Elf) -> Vec<u64> {
    let mut found = Vec::new();
    for (start, code) in elf.code() {
        let places = (start..).zip(code.windows(RDTSC.len()));
        found.extend(places.filter(|(_, bytes)| *bytes == RDTSC).map(|it| it.0));
    }
    found.sort_unstable();
    found
}
