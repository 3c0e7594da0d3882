//! What the trace of a run tells beyond its histograms: for the terminal, `--json` and the page alike.
//!
//! | module | content |
//! |---|---|
//! | [`window`] | second reading: what happened around the worst activations |
//! | [`causes`] | what the latency of an activation consists of |
//! | [`replay`] | the same run once more, with what it executes counted from outside |
//! | [`marks`], [`executed`] | what that says: sections, calls, other CPUs' turns |
//! | [`refine`] | the causes cut anew by it |
//! | [`rows`] | the same in the rows of rtla's automatic analysis |
//! | [`text`] | these rows in the terminal |
//! | [`mod@bound`], [`arrivals`] | the longest that is proved, beside what was observed |

pub mod arrivals;
pub mod bound;
pub mod causes;
pub mod executed;
pub mod marks;
pub mod refine;
pub mod replay;
pub mod rows;
pub mod text;
pub mod window;

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use rows::Breakdown;
use takt_machine::samples::{self, Sample, Samples, Trace};
use window::Activation;

use takt_base::input;
use takt_base::output;
use takt_base::term;
use takt_guest::place::Names;
use takt_machine::record::Run;
use takt_machine::run::signals::Watch;
use takt_machine::run::{folder, recorded};

/// How many of the worst activations are looked at.
pub const NR_WORST: usize = 10;

/// How much of an analysis was asked for.
#[derive(Clone, Debug)]
pub enum Analysis {
    /// By `latency-run --auto`: all of it.
    Whole(Breakdown),
    /// By nobody: the cause in a line.
    Brief(Breakdown),
}

impl Analysis {
    /// What it says.
    #[must_use]
    pub fn breakdown(&self) -> &Breakdown {
        match self {
            Self::Whole(it) | Self::Brief(it) => it,
        }
    }
}

/// What a run's trace tells.
#[derive(Debug, Default)]
pub struct Story {
    /// Each measured activation, in the order of time.
    pub samples: Vec<Sample>,
    /// The worst by thread latency, the worst first.
    pub worst: Vec<Activation>,
    /// The one that hit a threshold.
    pub stopped: Option<Activation>,
    /// The same up to the return from user space, if it was that which hit it.
    pub stopped_to_user: Option<Activation>,
    /// Why something is not there, for people.
    pub notes: Vec<String>,
}

/// Every activation of a trace.
///
/// # Errors
///
/// If it cannot be read.
pub fn activations(trace: &mut Trace) -> Result<Vec<Activation>> {
    let samples = samples::read(trace)?.all;
    window::read(trace, &samples)
}

/// Reads a trace.
///
/// # Errors
///
/// If it cannot be read; damage is only noted.
pub fn read(dir: &Path, run: &Run) -> Result<Story> {
    read_worst(dir, run, NR_WORST)
}

/// What the latency consists of that hit the run's threshold, if it hit one.
///
/// # Errors
///
/// If the run's trace cannot be read.
pub fn of_stop(dir: &Path, run: &Run) -> Result<Option<Breakdown>> {
    if run.record.stop.is_none() {
        return Ok(None);
    }
    let story = read_worst(dir, run, 0)?;
    Ok(Breakdown::of(&story).map(|known| to_user(known, &story)))
}

/// Adds the time up to the return from user space, if it was that which hit the threshold.
fn to_user(known: Breakdown, story: &Story) -> Breakdown {
    match &story.stopped_to_user {
        Some(it) => known.to_user(it),
        None => known,
    }
}

/// The same with everything that can be found out: a run under icount is run once more for that, which `watch` may end.
///
/// # Errors
///
/// As [`of_stop`].
pub fn whole(dir: &Path, run: &Run, watch: &mut Watch) -> Result<Option<Breakdown>> {
    if run.record.stop.is_none() {
        return Ok(None);
    }
    let story = read_worst(dir, run, 0)?;
    let (Some(known), Some(it)) = (Breakdown::of(&story), &story.stopped) else {
        return Ok(None);
    };
    let made = again(dir, run, it, &known, watch).unwrap_or_else(|error| {
        let mut known = known;
        known.notes.push(format!(
            "Which sections were behind it, by line and length, is not known: {}.",
            term::one_line(&error)
        ));
        if run.record.config.smp > 1 {
            known.notes.push(
                "Nor is how long other CPUs had their turns: that is part of the rows above."
                    .into(),
            );
        }
        known
    });
    Ok(Some(to_user(made, &story)))
}

fn again(
    dir: &Path,
    run: &Run,
    it: &Activation,
    known: &Breakdown,
    watch: &mut Watch,
) -> Result<Breakdown> {
    let elf = folder::image(dir)?;
    let counted = replay::run(dir, run, &elf, watch)?;
    let executed = &counted.executed;
    let stack = counted.stacks.get(&it.at_deadline.tid);
    let refined = executed
        .skipped(it)
        .and_then(|skipped| refine::refine(it, skipped, executed, stack, &Names::new(&elf)))
        .context("what was executed when the run was repeated does not suit its trace")?;
    Ok(Breakdown {
        from_idle: known.from_idle,
        notes: known.notes.clone(),
        ..refined
    })
}

/// The analysis of a run that hit a threshold: the one that is kept in its folder, or what its trace tells.
///
/// # Errors
///
/// As [`of_stop`], or if the file in the folder is not what it should be.
pub fn of_run(dir: &Path, run: &Run) -> Result<Option<Analysis>> {
    let path = dir.join(folder::ANALYSIS);
    let text = match input::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(of_stop(dir, run)?.map(Analysis::Brief));
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let kept =
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
    Ok(Some(Analysis::Whole(kept)))
}

/// Keeps an analysis in the run's folder.
///
/// # Errors
///
/// If it cannot be written.
pub fn keep(dir: &Path, analysis: &Breakdown) -> Result<()> {
    let path = dir.join(folder::ANALYSIS);
    let text = output::json_pretty(analysis)?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn read_worst(dir: &Path, run: &Run, nr_worst: usize) -> Result<Story> {
    let mut trace = Trace::open(dir, run)?;
    let mut story = Story::default();
    let damages = trace.file.nr_damages();
    if damages != 0 {
        story.notes.push(format!(
            "The trace is damaged in {}: cargo xtask trace says where.",
            recorded::places(damages)
        ));
    }
    let lost = trace.file.nr_lost();
    if lost != 0 {
        story.notes.push(format!(
            "{lost} events are not in the trace, so activations may be missing here and causes may be incomplete."
        ));
    }
    let Samples { all, unfinished } = samples::read(&mut trace)?;
    let stopped = run
        .record
        .stop
        .as_ref()
        .and_then(|stop| samples::of_stop(stop, &all, &unfinished));
    story.samples = all;
    samples::drop_warm_up(&mut story.samples, run);
    let mut wanted = samples::worst(&story.samples, nr_worst);
    wanted.extend(stopped);
    let is_of_user = run.record.stop.as_ref().is_some_and(samples::is_of_user);
    let to_user = stopped
        .filter(|_| is_of_user)
        .and_then(|stopped| stopped.to_user());
    wanted.extend(to_user);
    story.worst = window::read(&mut trace, &wanted)?;
    if to_user.is_some() && story.worst.last().is_some_and(|it| it.sample.is_to_user) {
        story.stopped_to_user = story.worst.pop();
    }
    if stopped.is_some_and(|stopped| story.worst.last().is_some_and(|it| it.sample == stopped)) {
        story.stopped = story.worst.pop();
    }
    if story.samples.is_empty() && story.stopped.is_none() {
        story.notes.push(
            "The trace has no samples: the event timerlat:timerlat_thread was not recorded \
             (latency-run -e timerlat, or leave -e out)."
                .into(),
        );
    } else if story
        .worst
        .iter()
        .chain(&story.stopped)
        .any(|it| it.pieces.is_empty())
    {
        story.notes.push(
            "Some activations cannot be taken apart: for that the events sched, irq, timer and timerlat must all be \
             recorded (as they are by default)."
                .into(),
        );
    }
    Ok(story)
}
