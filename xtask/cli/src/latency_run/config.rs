//! [`LatencyRun::config`]: what the flags ask for.

use anyhow::{Result, bail};
use takt_base::units::CpuSet;
use takt_machine::run::config::{DEFAULT_EVENTS, GRAPH_EVENTS, RunConfig, SAMPLES, UNTIL_STOPPED};
use takt_timerlat::config::{LOAD_PRIORITY, Load, Workload};
use takt_tracer::control::Tracer;

use super::LatencyRun;
use crate::Action;

impl LatencyRun {
    /// What is run: the flags, and what depends on them filled in what depends on others.
    ///
    /// # Errors
    ///
    /// If flags contradict each other.
    pub fn config(&self) -> Result<RunConfig> {
        let cyclic = self.cyclic.as_ref();
        let (policy, priority) = self.priority;
        let needed = self.cpus.map_or(1, CpuSet::needed_smp);
        let smp = self.smp.unwrap_or(needed);
        if smp < needed {
            bail!(
                "--cpus names CPU {}, but --smp {smp} ends at CPU {}",
                needed - 1,
                smp - 1
            );
        }
        if self.period < 1_000 {
            bail!("a period below 1 µs leaves no time for anything else");
        }
        if self.duration != UNTIL_STOPPED && self.duration < self.period {
            bail!("the duration is shorter than one period: nothing would be measured");
        }
        let has_filter = !self.function_filter.is_empty() || !self.function_notrace.is_empty();
        if has_filter && !self.tracer.is_of_functions() {
            bail!(
                "--function-filter and --function-notrace are for --tracer function and function_graph"
            );
        }
        let has_graph = !self.graph_function.is_empty()
            || !self.graph_notrace.is_empty()
            || self.max_graph_depth.is_some();
        if has_graph && self.tracer != Tracer::FunctionGraph {
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
        if last >= self.period {
            bail!("the last thread's first activation would come after the first one's second");
        }
        if self.load != Load::None && lowest <= LOAD_PRIORITY {
            bail!(
                "the load has priorities up to {LOAD_PRIORITY}: what is measured must be above it"
            );
        }
        let continues = self.on_threshold.contains(&Action::Continue);
        if continues && self.on_threshold.last() != Some(&Action::Continue) {
            bail!("--on-threshold: what stands behind `continue` would never be done");
        }
        if continues && self.auto.or(self.aa_only).is_some() {
            bail!(
                "--on-threshold continue: -a takes apart the latency that a measurement ends with; name the threshold by -T, \
                 and `report` shows what the worst ten consist of"
            );
        }
        let cpus = self.cpus.unwrap_or_else(|| CpuSet::first(smp));
        let mut events: Vec<_> = match &*self.event {
            [] => DEFAULT_EVENTS.split(',').map(str::to_owned).collect(),
            given => given.to_vec(),
        };
        if self.verify {
            events.push(SAMPLES.into());
        }
        if self.tracer == Tracer::FunctionGraph {
            events.extend(GRAPH_EVENTS.map(str::to_owned));
        }
        Ok(RunConfig {
            workload: match cyclic {
                None => Workload::Timerlat,
                Some(_) => Workload::Cyclictest,
            },
            period_ns: self.period,
            duration_ns: self.duration,
            warm_up_ns: self.warm_up,
            cpus: cpus.iter().collect(),
            priority,
            policy,
            load: self.load,
            user: self.user(),
            manifest: self
                .manifest
                .as_ref()
                .map(|path| path.display().to_string()),
            threads,
            distance_ns: cyclic.map(|it| it.distance_ns),
            prio_step,
            offset_ns: cyclic.map_or(0, |it| it.offset_ns),
            align_ns: cyclic.map_or(0, |it| it.align_ns),
            stagger_ns: stagger,
            irq_threshold_ns: self.irq_threshold,
            thread_threshold_ns: self.thread_limit(),
            continues,
            events,
            tracer: self.tracer,
            function_filter: self.function_filter.clone(),
            function_notrace: self.function_notrace.clone(),
            graph_function: self.graph_function.clone(),
            graph_notrace: self.graph_notrace.clone(),
            max_graph_depth: self.max_graph_depth,
            accel_asked: self.accel,
            smp,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cli, Command};
    use clap::Parser;
    use takt_guest::patterns::Known;
    use takt_machine::qemu::Accel;

    fn config(flags: &str) -> Result<RunConfig> {
        let words = ["xtask", "latency-run"]
            .into_iter()
            .chain(flags.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Command::LatencyRun(flags) => flags.config(),
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
