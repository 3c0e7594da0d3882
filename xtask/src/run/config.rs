//! [`RunConfig`]: what is run, as the guest is told and as the run folder keeps it.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use takt_timerlat::config::{Config, CpuMask, LOAD_PRIORITY, Load, Policy, User, Workload};
use takt_tracer::control::setting::{Chosen, Ids, List};
use takt_tracer::control::{Setting, Tracer};
use takt_tracer::named::Named;

use crate::cli::{AccelChoice, Action, LatencyRun};
use crate::qemu::Accel;
use takt_base::units::{CpuSet, format_ns};
use takt_guest::Elf;
use takt_guest::functions::{Functions, ranges};
use takt_guest::patterns::Known;
use takt_guest::words;

/// Events that are recorded unless the user says otherwise.
pub const DEFAULT_EVENTS: &str = "sched,irq,timer,timerlat,mutex,print";

/// Without these no one knows whose time it was.
const GRAPH_EVENTS: [&str; 3] = [
    "sched:sched_switch",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
];

/// Without these a latency cannot be taken apart.
const ANALYSED_EVENTS: [&str; 4] = ["sched", "irq", "timer", SAMPLES];

/// The records of the latencies.
const SAMPLES: &str = "timerlat";

/// The duration of a measurement that goes on until the user ends it.
pub const UNTIL_STOPPED: u64 = 0;

/// A measurement. All times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the flags of latency-run")]
pub struct RunConfig {
    #[serde(with = "takt_base::named")]
    pub workload: Workload,
    pub period_ns: u64,
    pub duration_ns: u64,
    pub warm_up_ns: u64,
    pub cpus: Vec<u8>,
    pub priority: u8,
    #[serde(default, with = "takt_base::named", skip_serializing_if = "is_default")]
    pub policy: Policy,
    #[serde(with = "takt_base::named")]
    pub load: Load,
    #[serde(default, with = "takt_base::named", skip_serializing_if = "is_default")]
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
    #[serde(default, with = "takt_base::named")]
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
    /// Takes the flags over and fills in what depends on others.
    ///
    /// # Errors
    ///
    /// If flags contradict each other.
    pub fn from_flags(flags: &LatencyRun) -> Result<Self> {
        let cyclic = flags.cyclic.as_ref();
        let (policy, priority) = flags.priority;
        let needed = flags.cpus.map_or(1, CpuSet::needed_smp);
        let smp = flags.smp.unwrap_or(needed);
        if smp < needed {
            bail!(
                "--cpus names CPU {}, but --smp {smp} ends at CPU {}",
                needed - 1,
                smp - 1
            );
        }
        if flags.period < 1_000 {
            bail!("a period below 1 µs leaves no time for anything else");
        }
        if flags.duration != UNTIL_STOPPED && flags.duration < flags.period {
            bail!("the duration is shorter than one period: nothing would be measured");
        }
        let has_filter = !flags.function_filter.is_empty() || !flags.function_notrace.is_empty();
        if has_filter && !flags.tracer.is_of_functions() {
            bail!(
                "--function-filter and --function-notrace are for --tracer function and function_graph"
            );
        }
        let has_graph = !flags.graph_function.is_empty()
            || !flags.graph_notrace.is_empty()
            || flags.max_graph_depth.is_some();
        if has_graph && flags.tracer != Tracer::FunctionGraph {
            bail!(
                "the flags that begin with --graph, and --max-graph-depth, are for --tracer function_graph"
            );
        }
        let threads = cyclic.map(|it| it.threads);
        let prio_step = cyclic.map_or(0, |it| it.prio_step);
        let lowest = priority.saturating_sub(prio_step * (threads.unwrap_or(1) - 1));
        if lowest == 0 {
            bail!(
                "{} threads from priority {priority} down do not fit",
                threads.unwrap_or(1)
            );
        }
        let stagger = cyclic.map_or(0, |it| it.stagger_ns);
        let last = stagger.saturating_mul(threads.map_or(0, u64::from).saturating_sub(1));
        if last >= flags.period {
            bail!("the last thread's first activation would come after the first one's second");
        }
        if flags.load != Load::None && lowest <= LOAD_PRIORITY {
            bail!(
                "the load has priorities up to {LOAD_PRIORITY}: what is measured must be above it"
            );
        }
        let continues = flags.on_threshold.contains(&Action::Continue);
        if continues && flags.on_threshold.last() != Some(&Action::Continue) {
            bail!("--on-threshold: what stands behind `continue` would never be done");
        }
        if continues && flags.auto.or(flags.aa_only).is_some() {
            bail!(
                "--on-threshold continue: -a takes apart the latency that a measurement ends with; name the threshold by -T, \
                 and `report` shows what the worst ten consist of"
            );
        }
        let cpus = flags.cpus.unwrap_or_else(|| CpuSet::first(smp));
        let mut events: Vec<_> = match &*flags.event {
            [] => DEFAULT_EVENTS.split(',').map(str::to_owned).collect(),
            given => given.to_vec(),
        };
        if flags.verify {
            events.push(SAMPLES.into());
        }
        if flags.tracer == Tracer::FunctionGraph {
            events.extend(GRAPH_EVENTS.map(str::to_owned));
        }
        Ok(Self {
            workload: match cyclic {
                None => Workload::Timerlat,
                Some(_) => Workload::Cyclictest,
            },
            period_ns: flags.period,
            duration_ns: flags.duration,
            warm_up_ns: flags.warm_up,
            cpus: cpus.iter().collect(),
            priority,
            policy,
            load: flags.load,
            user: flags.user(),
            manifest: flags
                .manifest
                .as_ref()
                .map(|path| path.display().to_string()),
            threads,
            distance_ns: cyclic.map(|it| it.distance_ns),
            prio_step,
            offset_ns: cyclic.map_or(0, |it| it.offset_ns),
            align_ns: cyclic.map_or(0, |it| it.align_ns),
            stagger_ns: stagger,
            irq_threshold_ns: flags.irq_threshold,
            thread_threshold_ns: flags.thread_limit(),
            continues,
            events,
            tracer: flags.tracer,
            function_filter: flags.function_filter.clone(),
            function_notrace: flags.function_notrace.clone(),
            graph_function: flags.graph_function.clone(),
            graph_notrace: flags.graph_notrace.clone(),
            max_graph_depth: flags.max_graph_depth,
            accel_asked: flags.accel,
            smp,
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn config(flags: &str) -> Result<RunConfig> {
        let words = ["xtask", "latency-run"]
            .into_iter()
            .chain(flags.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Command::LatencyRun(flags) => RunConfig::from_flags(&flags),
            _ => unreachable!(),
        }
    }

    #[test]
    fn the_guest_is_told_what_the_flags_say() {
        let config = config("-p 250.5 -d 2s -c 0-1 -T 12 -i 3.5 -P f:90 --load irq").unwrap();
        assert_eq!(config.smp, 2);
        assert_eq!(
            config.kernel_cmdline(Accel::TcgIcount, &[2, 4, 7]),
            "workload=timerlat period_ns=250500 duration_ns=2000000000 warmup_ns=0 smp=2 cpus=0x3 prio=90 \
             policy=fifo load=irq plant_ns=30000 threads=1 distance_ns=500000 prio_step=0 offset_ns=0 align_ns=0 \
             stagger_ns=0 stop_irq_ns=3500 stop_thread_ns=12000 events=2,4,7 mode=capture \
             tsc_hz=1000000000 lapic_hz=1000000000 halt_margin_ns=256"
        );
        assert!(!config.kernel_cmdline(Accel::Kvm, &[]).contains("hz="));
    }

    #[test]
    fn what_takes_a_latency_apart_is_recorded_beside_the_events_that_are_asked_for() {
        let known =
            ["sched:sched_switch", "irq:irq_handler_entry", "mutex:lock"].map(|name| Known {
                name: name.into(),
                id: 0,
            });
        let mut config = config("-a 20 -e mutex").unwrap();
        config.add_analysed_events(&known);
        assert_eq!(config.events, ["mutex", "sched", "irq"]);
    }

    #[test]
    fn without_a_duration_it_is_ten_seconds_and_with_none_until_it_is_stopped() {
        for (flags, says) in [
            ("", " duration_ns=10000000000 "),
            ("-d 0", " duration_ns=0 "),
        ] {
            let line = config(flags).unwrap().kernel_cmdline(Accel::Tcg, &[]);
            assert!(line.contains(says), "{line}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for flags in [
            "-c 3 --smp 2",
            "-p 0.5",
            "-p 2000 -d 1ms",
            "--function-filter x",
            "--tracer function --max-graph-depth 2",
            "--load cpu -P 4",
            "--from x -p 5",
            "-q -v",
            "--smp 9",
            "-T 1 --on-threshold continue --on-threshold trace",
            "-a 1 --on-threshold continue",
            "-T 1 --on-end continue",
        ] {
            assert!(config(flags).is_err(), "{flags}");
        }
    }
}
