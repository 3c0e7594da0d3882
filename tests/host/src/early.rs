//! No timer is handled before its deadline, and what is nearer to it than an interrupt can come was found by another's.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::Stage;

/// From a deadline to the stamp of its own interrupt, in ns: as in the idle system.
const ENTRY: u64 = 4;

/// Under every load.
pub(super) fn under_every_load(stage: &Stage) -> Result<()> {
    let mut nr_below = 0;
    // Away from the loads' own rhythm, so that the two meet at many distances; which ones is a matter of instructions.
    for (load, period) in [("cpu", "101.3"), ("lock", "50.3"), ("mix", "97.7")] {
        nr_below += under(stage, load, period)?;
    }
    // Of two interrupts that know nothing of each other one comes in the few nanoseconds that count about once in a run.
    for period in 11..27 {
        nr_below += under(stage, "irq", &format!("{period}.9"))?;
        if nr_below > 0 {
            return Ok(());
        }
    }
    bail!("no load has shown what is to be explained")
}

/// How many activations of a run an interrupt of another timer has found.
fn under(stage: &Stage, load: &str, period: &str) -> Result<u64> {
    let name = format!("early-{load}-{period}");
    let flags = format!("-p {period} -d 300ms --load {load} -e timerlat,timer,irq");
    stage.latency_run(&name, &flags)?.code(0)?;
    let (nr, below) = judge(&stage.trace(&name)?).with_context(|| format!("--load {load}"))?;
    ensure!(nr > 2_800, "--load {load}: only {nr} activations");
    Ok(below)
}

/// The activations of a trace, and how many of them an interrupt of another timer has found.
fn judge(trace: &[Value]) -> Result<(u64, u64)> {
    let mut armed = BTreeMap::new();
    // Deadlines that the hardware may have been set to when it fired last: of timers that this interrupt has found before,
    // or that were moved or cancelled since the one before.
    let mut others: Vec<u64> = Vec::new();
    let mut entered = 0;
    let (mut nr, mut below) = (0, 0);
    for record in trace {
        let field = |name: &str| record["fields"][name].as_u64();
        let timer = field("timer");
        match record["event"].as_str().unwrap_or_default() {
            "irq:irq_handler_entry" => {
                others.retain(|deadline| *deadline > entered);
                entered = record["ts_ns"].as_u64().context("no time")?;
            }
            "timer:timer_start" => {
                let deadline = field("expires").context("no deadline")?;
                others.extend(armed.insert(timer, deadline));
            }
            "timer:timer_expire" | "timer:timer_cancel" => others.extend(armed.remove(&timer)),
            "timerlat:timerlat_irq" => {
                // The record of its own timer is the one before.
                let due = others.pop().context("its timer was never armed")?;
                let late = field("timer_latency").context("no latency")?;
                nr += 1;
                if late < ENTRY {
                    below += 1;
                    let latest = due + late - ENTRY;
                    ensure!(
                        others.iter().any(|other| *other <= latest),
                        "{late} ns behind its deadline of {due}, where no other timer was due by {latest}: {record}"
                    );
                }
            }
            _ => {}
        }
    }
    Ok((nr, below))
}
