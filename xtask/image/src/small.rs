//! The smallest useful image, and what each part adds to it that an image may have.

use anyhow::{Context, Result};
use object::{Object, ObjectSection, ObjectSymbol};

use super::Recipe;
use super::build::Capacities;
use takt_guest::Elf;

/// Just enough for what the image does.
const SMALL: Capacities = Capacities {
    name: "small",
    profile: "small",
    variables: &SIZES,
};

/// The same on two CPUs.
const SMP: Capacities = Capacities {
    name: "small-smp",
    profile: "small",
    variables: &with(SIZES, CPUS, "2"),
};

/// The same with room for many stacks.
const STACKS: Capacities = Capacities {
    name: "small-stacks",
    profile: "small",
    variables: &with(SIZES, STACK_TABLES, "4"),
};

/// The same, and what draws letters while it boots.
const CONSOLE: Capacities = Capacities {
    name: "small-console",
    profile: "small",
    variables: &with(with(SIZES, IDLE_STACK, "16384"), STACK_TABLES, "4"),
};

const SIZES: Sizes = [
    ("TAKT_MAX_CPUS", "1"),
    ("TAKT_MAX_THREADS", "4"),
    ("TAKT_MAX_TIMERS", "4"),
    ("TAKT_TRACE_SUB_SIZE", "1024"),
    ("TAKT_TRACE_NR_SUBS", "2"),
    ("TAKT_IRQ_STACK_SIZE", "4096"),
    ("TAKT_EXCEPTION_STACK_SIZE", "4096"),
    ("TAKT_IDLE_STACK_SIZE", "4096"),
    ("TAKT_MAIN_STACK_SIZE", "4096"),
    ("TAKT_RTT_UP_SIZE", "4096"),
    ("TAKT_IMAGE_TABLES", "1"),
    ("TAKT_STACK_TABLES", "1"),
];

/// Names of capacities, and what they are.
type Sizes = [(&'static str, &'static str); 12];

/// Places of some in [`SIZES`].
const CPUS: usize = 0;
const IDLE_STACK: usize = 7;
const STACK_TABLES: usize = 11;

/// The same with another value at one place.
const fn with(mut sizes: Sizes, at: usize, value: &'static str) -> Sizes {
    sizes[at].1 = value;
    sizes
}

/// What the smallest image does without: features of the board, by their names, and a capacity.
pub const PARTS: [&str; 13] = [
    "command-line",
    "devices",
    "fast-paths",
    "log",
    "many-timers",
    "multiboot2",
    "mutex",
    "reports",
    "round-robin",
    "trace",
    "workload",
    TWO_CPUS,
    "base",
];

/// What else an image may have: features of the board that are not in `base`, the last one all that are on by default.
pub const MORE: [&str; 9] = [
    "capture",
    "latency-tracers",
    "osnoise",
    "rules",
    "settings",
    "stacktrace",
    "tasks",
    "console",
    "default",
];

/// Two of them instead of one.
const TWO_CPUS: &str = "max_cpus = 2";

/// How the image is built, with a part of [`PARTS`] or [`MORE`] besides if one is given.
#[must_use]
pub fn recipe(part: Option<&str>) -> Recipe {
    let capacities = match part {
        Some(TWO_CPUS) => SMP,
        Some("workload" | "base" | "osnoise" | "settings" | "tasks" | "default") => STACKS,
        Some("console") => CONSOLE,
        _ => SMALL,
    };
    let feature = part.filter(|name| *name != TWO_CPUS);
    Recipe {
        package: "takt-bench".into(),
        kind: "--bin",
        name: "minimal".into(),
        features: ["image".into()]
            .into_iter()
            .chain(feature.map(|name| format!("takt-board/{name}")))
            .collect(),
        defmt_log: "off".into(),
        capacities: Some(capacities),
        manifest: None,
        dir: None,
        verbose: false,
    }
}

/// What an image takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Text and read-only data, without what fills their last pages.
    pub code: u64,
    /// All of it, in whole pages.
    pub ram: u64,
}

/// Looks how large an image is.
///
/// # Errors
///
/// If it cannot be read.
pub fn size_of(elf: &Elf) -> Result<Size> {
    let file = object::File::parse(&*elf.data).context("the image cannot be read")?;
    let text = file.section_by_name(".text").context("no text")?;
    let end = file
        .symbols()
        .filter(|symbol| symbol.section_index() == Some(text.index()) && symbol.size() > 0)
        .map(|symbol| symbol.address() + symbol.size())
        .max()
        .context("no functions")?;
    let rodata = file
        .section_by_name(".rodata")
        .map_or(0, |section| section.size());
    Ok(Size {
        code: end - text.address() + rodata,
        ram: elf.symbol("__image_end")? - elf.symbol("__image_start")?,
    })
}
