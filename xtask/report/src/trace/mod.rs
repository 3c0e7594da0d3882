//! What the trace of a run tells beyond its histograms.
//!
//! | module | content |
//! |---|---|
//! | [`samples`] | first reading: each activation's latencies |
//! | [`window`] | second reading: what happened around the worst activations |
//! | [`causes`] | what the latency of an activation consists of |

pub mod causes;
pub mod samples;
pub mod window;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use takt_tracer::decode::TraceFile;
use xtask::guest::trace::Decoder;
use xtask::report::Run;
use xtask::report::load::Facts;
use xtask::run::{folder, recorded};

use samples::Sample;
use window::Activation;

/// How many of the worst activations are looked at.
pub const NR_WORST: usize = 10;

/// A trace and what is needed to read it.
pub struct Trace {
    pub(crate) file: TraceFile<BufReader<File>>,
    pub(crate) decoder: Decoder,
}

impl Trace {
    /// Opens the trace of a run folder.
    ///
    /// # Errors
    ///
    /// If it, or the image beside it, is missing or is not what it should be.
    pub fn open(dir: &Path, run: &Run) -> Result<Self> {
        let elf = folder::image(dir)?;
        let path = dir.join(folder::TRACE);
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        let file = TraceFile::open(BufReader::new(file))
            .with_context(|| format!("cannot read {}", path.display()))?;
        recorded::check_image(file.header().image, &elf)?;
        Facts::read(dir).check_tsc(file.header().tsc_hz)?;
        let threads = &run.record.threads;
        let names = threads
            .iter()
            .map(|thread| (thread.tid, thread.name.as_str()));
        let decoder = Decoder::new(&elf, file.header().tsc_hz, names)?;
        Ok(Self { file, decoder })
    }
}

/// What a run's trace tells.
#[derive(Debug, Default)]
pub struct Story {
    /// Each measured activation, in the order of time.
    pub samples: Vec<Sample>,
    /// The worst by thread latency, the worst first.
    pub worst: Vec<Activation>,
    /// Why something is not there, for people.
    pub notes: Vec<String>,
}

/// Reads a trace.
///
/// # Errors
///
/// If it cannot be read; damage is only noted.
pub fn read(dir: &Path, run: &Run) -> Result<Story> {
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
    story.samples = samples::read(&mut trace)?;
    samples::drop_warm_up(&mut story.samples, run);
    let worst = samples::worst(&story.samples, NR_WORST);
    story.worst = window::read(&mut trace, &worst)?;
    if story.samples.is_empty() {
        story.notes.push(
            "The trace has no samples: the event timerlat:timerlat_thread was not recorded \
             (latency-run -e timerlat, or leave -e out)."
                .into(),
        );
    } else if story.worst.iter().any(|it| it.pieces.is_empty()) {
        story.notes.push(
            "Some activations cannot be taken apart: for that the events sched, irq, timer and timerlat must all be \
             recorded (as they are by default)."
                .into(),
        );
    }
    Ok(story)
}
