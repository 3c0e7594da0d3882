//! IRQ latency and thread latency of the idle system, from the image that `latency-run` boots.

use anyhow::{Context, Result, bail};
use takt_timerlat::stats::ExactHistogram;

use super::Values;
use super::images::Folder;
use crate::guest;
use crate::image::{Elf, events};
use crate::run::collect::Results;

/// timerlat's own two events.
const EVENTS: &str = "timerlat";

/// A thousand activations a second.
pub(super) const RUN: &str = "workload=timerlat period_ns=1000000 duration_ns=3000000000 cpus=0x1 smp=1 prio=95 load=none mode=capture";

/// Measures with timerlat's events recorded, and with tracing off.
pub(super) fn measure(elf: &Elf, folder: &Folder, values: &mut Values) -> Result<()> {
    run(elf, folder, &own_events(elf)?, "", values)?;
    run(elf, folder, "", "-untraced", values)?;
    for tracer in ["irqsoff", "preemptoff"] {
        let suffix = format!("-{tracer}");
        let settings = format!("{} ftrace={tracer}", own_events(elf)?);
        run(elf, folder, &settings, &suffix, values)?;
    }
    Ok(())
}

fn own_events(elf: &Elf) -> Result<String> {
    let ids: Vec<_> = events::table(elf)?
        .iter()
        .filter(|event| event.system() == EVENTS)
        .map(|event| event.id.to_string())
        .collect();
    if ids.len() != 2 {
        bail!("the image has {} events of timerlat, not two", ids.len());
    }
    Ok(ids.join(","))
}

/// Measures an image with functions that can be traced: timerlat's events recorded, the function tracer off and on.
pub(super) fn with_functions(elf: &Elf, folder: &Folder, values: &mut Values) -> Result<()> {
    let ids = own_events(elf)?;
    run(elf, folder, &ids, "-function-off", values)?;
    run(
        elf,
        folder,
        &format!("{ids} ftrace=function"),
        "-function-on",
        values,
    )
}

fn run(elf: &Elf, folder: &Folder, ids: &str, suffix: &str, values: &mut Values) -> Result<()> {
    let booted = folder.boot(elf, &format!("{RUN} events={ids}"))?;
    let results = Results::read(&guest::status(elf, &booted.ram)?)
        .context("cannot read the guest's results")?;
    let Some(all) = results.distributions.first() else {
        bail!("the guest measured nothing");
    };
    for (name, histogram) in [("irq", &all.irq), ("thread", &all.thread)] {
        let figures = figures(histogram).context("the guest measured nothing")?;
        for (figure, value) in ["min", "median", "max"].into_iter().zip(figures) {
            values.insert(format!("{name}-latency-{figure}{suffix}"), value);
        }
    }
    Ok(())
}

fn figures(histogram: &ExactHistogram) -> Option<[u64; 3]> {
    Some([
        histogram.min()?,
        histogram.percentile(500)?,
        histogram.max()?,
    ])
}
