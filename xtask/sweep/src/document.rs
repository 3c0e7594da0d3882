//! The results as a document: what the tables are made of, and what is written as JSON.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use takt_tracer::wire;

use super::analysis::{Section, Spread, analyse};
use super::config::SweepConfig;
use super::ways::Met;
use super::work::Measured;
use super::{Folder, Plan};
use takt_base::schema;
use takt_guest::Elf;
pub use takt_guest::place::CodePlace;
use takt_guest::place::Kind;
use takt_guest::place::Names;

/// Version of the document.
pub const SCHEMA: &str = "takt.sweep/3";
/// Its file in the sweep's folder.
pub const FILE: &str = "sweep.json";
/// How many of a stretch's worst arrivals are told.
const NR_WORST: usize = 5;

/// A sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// Check sum of the document without it, by which one that was edited is known.
    pub sum: u64,
    /// Files that were changed by hand after they were measured or written, this one among them: what they say was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edited: Vec<String>,
    /// What was swept, and how.
    pub config: SweepConfig,
    /// The revision that the image was built from, where that is known.
    pub git: Option<String>,
    /// The stretches.
    pub results: Vec<Stretch>,
    /// The kernel's sections on all paths by source line, the longest first.
    pub sections: Vec<Ranked>,
}

/// One stretch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its name.
    pub name: String,
    /// Its instructions.
    pub length: u32,
    /// Boundaries that were to be met.
    pub swept: u32,
    /// Boundaries that an interrupt arrived at.
    pub hit: u32,
    /// The others, as ranges (first, last).
    pub not_hit: Vec<(u32, u32)>,
    /// Arrivals that were taken elsewhere than on any way.
    pub astray: Vec<Astray>,
    /// Arrivals that were taken together with another interrupt.
    pub joined: u32,
    /// How many ways the arrivals were on: what it takes to arm a timer depends on when the measured one is due.
    pub ways: u32,
    /// Whether the end of the stretch was not reached: it takes longer than that, or this is a shard.
    pub is_open: bool,
    /// The interrupt's latency, in instructions.
    pub irq: Spread,
    /// The thread's latency.
    pub thread: Spread,
    /// From the interrupt's entry to the thread.
    pub wake: Spread,
    /// The arrivals with the highest thread latencies, one for each section.
    pub worst: Vec<Worst>,
    /// The sections.
    pub sections: Vec<Where>,
    /// Instructions of the path by function (where it is inlined: `function in function`), the most first.
    pub functions: Vec<(String, u64)>,
}

/// An arrival that met another path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Astray {
    /// Its position.
    pub position: u32,
    /// Before which instruction it was taken.
    pub taken: CodePlace,
    /// And which stands there on the path.
    pub expected: Option<CodePlace>,
}

/// One of the worst arrivals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worst {
    /// Its position.
    pub position: u32,
    /// The instruction before which it arrived.
    pub at: CodePlace,
    /// The interrupt's latency.
    pub irq: u32,
    /// The thread's.
    pub thread: u32,
    /// The section that delayed it, if one did.
    pub section: Option<Where>,
}

/// A section, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Where {
    /// Why one has to wait.
    pub kind: Kind,
    /// Position of its first instruction.
    pub first: u32,
    /// Its instructions.
    pub length: u32,
    /// The instruction that began it.
    pub begin: Option<CodePlace>,
    /// Its last instruction.
    pub end: Option<CodePlace>,
}

/// A section of the kernel's, on whichever paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranked {
    /// Why one has to wait.
    pub kind: Kind,
    /// The longest that was met, in instructions.
    pub length: u32,
    /// Where it begins and ends.
    pub begin: String,
    /// Where it ends.
    pub end: String,
    /// The stretch on which it is that long.
    pub stretch: String,
    /// How many sections with these two lines were met on all paths.
    pub times: u32,
}

/// Makes the document.
#[must_use]
pub fn write(folder: &Folder, elf: &Elf, all: &[Measured]) -> Document {
    let Plan { config, git, .. } = folder.plan();
    let names = Names::new(elf);
    let results: Vec<_> = all.iter().map(|it| stretch(it, config, &names)).collect();
    let mut document = Document {
        schema: SCHEMA.into(),
        sum: 0,
        edited: folder.edited(),
        config: config.clone(),
        git: git.clone(),
        sections: rank(&results),
        results,
    };
    document.sum = document.own_sum();
    document
}

fn stretch(measured: &Measured, config: &SweepConfig, names: &Names<'_>) -> Stretch {
    let ways = &measured.ways;
    let found = analyse(ways, measured.limit, &measured.arrivals, |ip| {
        names.is_entry(ip)
    });
    let place = |section: &Section| Where {
        kind: section.kind,
        first: section.first,
        length: section.length,
        begin: section.begun_by.map(|ip| names.place(ip)),
        end: section.ended_by.map(|ip| names.place(ip)),
    };
    let covering = |position: u32| {
        let covers = |section: &&Section| {
            (section.first..section.first + section.length).contains(&position)
        };
        found
            .sections
            .iter()
            .filter(covers)
            .max_by_key(|it| it.length)
    };
    let mut arrivals: Vec<_> = found.met.iter().collect();
    // The first of equals: the one that waits from the section's beginning.
    arrivals.sort_by_key(|met| (std::cmp::Reverse(met.arrival.thread), met.position));
    let mut worst: Vec<Worst> = Vec::new();
    let mut seen = Vec::new();
    for met in arrivals {
        let position = met.position;
        let section = covering(position);
        let key = section.map(|section| section.first);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        worst.push(Worst {
            position,
            at: ways
                .of(met)
                .at(position)
                .map(|ip| names.place(ip))
                .unwrap_or_default(),
            irq: met.arrival.irq,
            thread: met.arrival.thread,
            section: section.map(place),
        });
        if worst.len() == NR_WORST {
            break;
        }
    }
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for ip in &ways.undisturbed().ips {
        *counts.entry(*ip).or_default() += 1;
    }
    let astray = |met: &Met| Astray {
        position: met.position,
        taken: names.place(met.arrival.ip.into()),
        expected: ways.undisturbed().at(met.taken).map(|ip| names.place(ip)),
    };
    Stretch {
        name: measured.what.name().into(),
        length: found.length,
        swept: found.swept,
        hit: found.hit,
        // With a step above one it is known which are left out.
        not_hit: if config.step == 1 {
            found.not_hit
        } else {
            Vec::new()
        },
        astray: found.astray.iter().map(astray).collect(),
        joined: found.joined,
        ways: found.ways,
        is_open: found.is_open || !measured.is_whole,
        irq: found.irq,
        thread: found.thread,
        wake: found.wake,
        worst,
        sections: found.sections.iter().map(place).collect(),
        functions: names.functions(counts),
    }
}

/// The sections of all paths by kind and lines.
fn rank(results: &[Stretch]) -> Vec<Ranked> {
    let mut ranked: Vec<Ranked> = Vec::new();
    let line =
        |place: &Option<CodePlace>| place.as_ref().map(|it| it.line.clone()).unwrap_or_default();
    for result in results {
        for section in &result.sections {
            let (begin, end) = (line(&section.begin), line(&section.end));
            let same = ranked
                .iter_mut()
                .find(|it| it.kind == section.kind && it.begin == begin && it.end == end);
            match same {
                Some(same) => {
                    same.times += 1;
                    if section.length > same.length {
                        same.length = section.length;
                        same.stretch.clone_from(&result.name);
                    }
                }
                None => ranked.push(Ranked {
                    kind: section.kind,
                    length: section.length,
                    begin,
                    end,
                    stretch: result.name.clone(),
                    times: 1,
                }),
            }
        }
    }
    ranked.sort_by(|a, b| b.length.cmp(&a.length).then_with(|| a.begin.cmp(&b.begin)));
    ranked
}

impl Document {
    /// Reads one. One that was changed by hand names itself among the edited.
    ///
    /// # Errors
    ///
    /// If it is damaged or of another version.
    pub fn read(json: &[u8]) -> Result<Self> {
        let value: Value =
            serde_json::from_slice(json).context("it is damaged, or not the result of a sweep")?;
        schema::check(&value, SCHEMA)?;
        let mut document: Self = serde_json::from_value(value).context("it is damaged")?;
        if document.sum != document.own_sum() {
            document.edited.push(FILE.into());
        }
        Ok(document)
    }

    fn own_sum(&self) -> u64 {
        let without = Self {
            sum: 0,
            ..self.clone()
        };
        // Numbers and strings: that does not fail.
        wire::checksum(&serde_json::to_vec(&without).unwrap_or_default())
    }

    /// Whether an interrupt arrived at every boundary that was asked for, each where it was expected, and at one at least.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.results
            .iter()
            .all(|it| it.hit > 0 && it.not_hit.is_empty() && it.astray.is_empty() && !it.is_open)
    }

    /// Whether that was asked of a part of a stretch only.
    #[must_use]
    pub fn is_of_part(&self, stretch: &Stretch) -> bool {
        self.config.limit(stretch.length).is_some()
    }
}
