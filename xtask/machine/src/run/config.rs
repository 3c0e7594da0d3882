//! [`RunConfig`]: what is run, as the guest is told and as the run folder keeps it.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use takt_timerlat::config::{Config, CpuMask, Load, Policy, User, Workload};
use takt_tracer::control::setting::{Chosen, Ids, List};
use takt_tracer::control::{Setting, Tracer};
use takt_tracer::named::Named;

use crate::qemu::Accel;
use crate::qemu::accel::AccelChoice;
use takt_base::units::format_ns;
use takt_guest::Elf;
use takt_guest::functions::{Functions, ranges};
use takt_guest::patterns::Known;
use takt_guest::words;

/// Events that are recorded unless the user says otherwise.
pub const DEFAULT_EVENTS: &str = "sched,irq,timer,timerlat,mutex,print";

/// Without these no one knows whose time it was.
pub const GRAPH_EVENTS: [&str; 3] = [
    "sched:sched_switch",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
];

/// Without these a latency cannot be taken apart.
const ANALYSED_EVENTS: [&str; 4] = ["sched", "irq", "timer", SAMPLES];

/// The records of the latencies.
pub const SAMPLES: &str = "timerlat";

/// The duration of a measurement that goes on until the user ends it.
pub const UNTIL_STOPPED: u64 = 0;

/// A measurement. All times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the flags of latency-run")]
pub struct RunConfig {
    #[serde(with = "takt_guest::named")]
    pub workload: Workload,
    pub period_ns: u64,
    pub duration_ns: u64,
    pub warm_up_ns: u64,
    pub cpus: Vec<u8>,
    pub priority: u8,
    #[serde(
        default,
        with = "takt_guest::named",
        skip_serializing_if = "is_default"
    )]
    pub policy: Policy,
    #[serde(with = "takt_guest::named")]
    pub load: Load,
    #[serde(
        default,
        with = "takt_guest::named",
        skip_serializing_if = "is_default"
    )]
    pub user: User,
    /// That of the image's tasks, if the user named one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub manifest: Option<String>,
    pub threads: Option<u8>,
    pub distance_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub prio_step: u8,
    #[serde(default, skip_serializing_if = "is_default")]
    pub offset_ns: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub align_ns: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub stagger_ns: u64,
    pub irq_threshold_ns: Option<u64>,
    pub thread_threshold_ns: Option<u64>,
    /// The measurement goes on behind a threshold: the guest is not told of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub continues: bool,
    pub events: Vec<String>,
    #[serde(default, with = "takt_guest::named")]
    pub tracer: Tracer,
    #[serde(default)]
    pub function_filter: Vec<String>,
    #[serde(default)]
    pub function_notrace: Vec<String>,
    #[serde(default)]
    pub graph_function: Vec<String>,
    #[serde(default)]
    pub graph_notrace: Vec<String>,
    #[serde(default)]
    pub max_graph_depth: Option<u32>,
    pub accel_asked: AccelChoice,
    pub smp: u8,
}

/// Runs that were recorded without such a field have check sums without it.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl RunConfig {
    /// Adds the events without which a latency cannot be taken apart, as far as an image has them.
    pub fn add_analysed_events(&mut self, known: &[Known]) {
        let is_there = |system: &&str| {
            let of_system = |event: &Known| event.name.split(':').next() == Some(*system);
            known.iter().any(of_system)
        };
        let there = ANALYSED_EVENTS.iter().copied().filter(is_there);
        self.events.extend(there.map(str::to_owned));
    }

    /// What a machine is told that is booted by somebody else; `known` are the events of its image.
    #[must_use]
    pub fn from_cmdline(line: &str, known: &[Known]) -> Self {
        let find = |word: &str| {
            let mut pairs = line
                .split_whitespace()
                .filter_map(|pair| pair.split_once('='));
            pairs
                .rfind(|(name, _)| *name == word)
                .map(|(_, value)| value)
        };
        // With a bad value it measures nothing, and says so itself.
        let config = Config::read(find).unwrap_or_default();
        let is_cyclic = config.workload == Workload::Cyclictest;
        let ids = event_ids(find("events"));
        let named = known.iter().filter(|event| ids.contains(&event.id));
        Self {
            workload: config.workload,
            period_ns: config.period_ns,
            duration_ns: config.duration_ns,
            warm_up_ns: config.warmup_ns,
            cpus: (0..32)
                .filter(|cpu| config.cpus.has(usize::from(*cpu)))
                .collect(),
            priority: config.prio,
            policy: config.policy,
            load: config.load,
            user: find("user").and_then(User::from_name).unwrap_or_default(),
            manifest: None,
            threads: is_cyclic.then(|| u8::try_from(config.threads).unwrap_or(u8::MAX)),
            distance_ns: is_cyclic.then_some(config.distance_ns),
            prio_step: config.prio_step,
            offset_ns: config.offset_ns,
            align_ns: config.align_ns,
            stagger_ns: config.stagger_ns,
            irq_threshold_ns: Some(config.stop_irq_ns).filter(|ns| *ns != 0),
            thread_threshold_ns: Some(config.stop_thread_ns).filter(|ns| *ns != 0),
            events: named.map(|event| event.name.clone()).collect(),
            tracer: words::tracer(line)
                .and_then(Tracer::from_name)
                .unwrap_or_default(),
            function_filter: Vec::new(),
            function_notrace: Vec::new(),
            graph_function: Vec::new(),
            graph_notrace: Vec::new(),
            max_graph_depth: None,
            accel_asked: AccelChoice::Auto,
            smp: u8::try_from(config.smp).unwrap_or(u8::MAX),
            continues: false,
        }
    }

    /// How long is measured, for people.
    #[must_use]
    pub fn duration(&self) -> String {
        match self.duration_ns {
            UNTIL_STOPPED => "until stopped".into(),
            ns => format_ns(ns),
        }
    }

    /// The kernel's command line for this measurement with these events recorded.
    #[must_use]
    pub fn kernel_cmdline(&self, accel: Accel, event_ids: &[u32]) -> String {
        let default = Config::default();
        let told = |ns: Option<u64>| ns.filter(|_| !self.continues).unwrap_or(0);
        let config = Config {
            workload: self.workload,
            period_ns: self.period_ns,
            duration_ns: self.duration_ns,
            warmup_ns: self.warm_up_ns,
            smp: self.smp.into(),
            cpus: CpuMask(self.cpus.iter().fold(0, |mask, cpu| mask | 1 << cpu)),
            prio: self.priority,
            policy: self.policy,
            load: self.load,
            // The user's, if there are any, stand behind it.
            plant_ns: default.plant_ns,
            threads: self.threads.map_or(default.threads, Into::into),
            distance_ns: self.distance_ns.unwrap_or(default.distance_ns),
            prio_step: self.prio_step,
            offset_ns: self.offset_ns,
            align_ns: self.align_ns,
            stagger_ns: self.stagger_ns,
            stop_irq_ns: told(self.irq_threshold_ns),
            stop_thread_ns: told(self.thread_threshold_ns),
        };
        let ids: Vec<_> = event_ids.iter().map(ToString::to_string).collect();
        let ids = ids.join(",");
        let events = Setting::Events(Ids::parse(&ids).expect("ids are numbers"));
        let mode = Setting::Overwrite(false);
        // An image without tasks knows no such word.
        let user = match self.user {
            User::None => String::new(),
            user => format!(" user={user}"),
        };
        format!("{config} {events} {mode}{user}{}", clock_keys(accel))
    }
}

impl RunConfig {
    /// What the kernel's command line says of the tracer, with the functions by their ids.
    ///
    /// # Errors
    ///
    /// If a pattern means no function, or the image has none that can be traced.
    pub fn tracer_keys(&self, elf: &Elf) -> Result<String> {
        let chosen = Setting::Tracer(self.tracer.name()).to_string();
        if self.tracer == Tracer::Nop {
            return Ok(String::new());
        }
        if !self.tracer.is_of_functions() {
            return Ok(chosen);
        }
        let functions = Functions::of(elf)?;
        let mut keys = Vec::new();
        for (list, patterns) in [
            (List::Filter, &self.function_filter),
            (List::Notrace, &self.function_notrace),
            (List::GraphFilter, &self.graph_function),
            (List::GraphNotrace, &self.graph_notrace),
        ] {
            let words = patterns.iter().map(String::as_str);
            let selection = functions.chosen(words, list.is_of_wanted())?;
            if !patterns.is_empty() {
                let ids = ranges(&selection);
                let ids = Ids::parse(&ids).expect("ranges are ids");
                keys.push(Setting::Functions(list, Chosen::Only(ids)).to_string());
            }
        }
        if let Some(depth) = self.max_graph_depth {
            keys.push(Setting::GraphDepth(depth).to_string());
        }
        // Last: from its first record on it is about what was asked for.
        keys.push(chosen);
        Ok(keys.join(" "))
    }
}

/// The events of the command line's word `events`.
#[must_use]
pub fn event_ids(word: Option<&str>) -> BTreeSet<u32> {
    let ids = word.and_then(|word| Ids::parse(word).ok());
    ids.into_iter().flat_map(Ids::iter).collect()
}

/// What the guest cannot or need not find out itself: under icount, shift=0 makes both frequencies
/// 1 GHz by definition, and a halt has to end before the deadline (see `halt_margin` in the kernel).
#[must_use]
pub fn clock_keys(accel: Accel) -> &'static str {
    match accel {
        Accel::TcgIcount => " tsc_hz=1000000000 lapic_hz=1000000000 halt_margin_ns=256",
        Accel::Tcg | Accel::Kvm | Accel::Machine => "",
    }
}
