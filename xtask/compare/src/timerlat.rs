//! Output of Linux's timerlat tracer: `trace`, and the ring's `stats`.

use anyhow::{Context, Result, bail, ensure};

use super::Settings;
use takt_machine::record::Distributions;

/// A line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which activation, from 1 on.
    pub seq: u64,
    /// Of the interrupt, not of the thread.
    pub is_irq: bool,
    /// The latency in ns.
    pub ns: u64,
}

/// Reads `trace`.
///
/// # Errors
///
/// If a line is damaged, or something was lost; the line is named.
pub fn parse(trace: &str) -> Result<Vec<Line>> {
    let mut samples = Vec::new();
    for (index, line) in trace.lines().enumerate() {
        if line.contains("EVENTS]") {
            bail!("line {}: {}", index + 1, line.trim());
        }
        if line.starts_with('#') || !line.contains("timer_latency") {
            continue;
        }
        let sample = sample(line).with_context(|| format!("line {}: {line}", index + 1))?;
        samples.push(sample);
    }
    Ok(samples)
}

/// `… 1.780956: #1     context    irq timer_latency       630 ns`
fn sample(line: &str) -> Option<Line> {
    let (_, message) = line.split_once(": #")?;
    let words: Vec<_> = message.split_whitespace().collect();
    let [seq, "context", context, "timer_latency", ns, "ns"] = words[..] else {
        return None;
    };
    let is_irq = match context {
        "irq" => true,
        "thread" => false,
        _ => return None,
    };
    Some(Line {
        seq: seq.parse().ok()?,
        is_irq,
        ns: ns.parse().ok()?,
    })
}

/// The samples that count: of the activations behind the warm-up, as many as there are to be.
///
/// # Errors
///
/// If there are fewer.
pub fn distributions(samples: &[Line], settings: &Settings) -> Result<Distributions> {
    let (skipped, wanted) = (settings.skipped(), settings.activations());
    let mut all = Distributions::default();
    let counts = |sample: &&Line| (skipped + 1..=skipped + wanted).contains(&sample.seq);
    for sample in samples.iter().filter(counts) {
        let which = if sample.is_irq {
            &mut all.irq
        } else {
            &mut all.thread
        };
        which.record(sample.ns);
    }
    let (irq, thread) = (all.irq.count(), all.thread.count());
    ensure!(
        irq == wanted && thread == wanted,
        "{wanted} activations were to be measured; there are {irq} IRQ latencies and {thread} thread latencies"
    );
    Ok(all)
}

/// Counters of a ring: `per_cpu/cpu0/stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records in it.
    pub entries: u64,
    /// Records that are lost, for whatever reason.
    pub lost: u64,
}

/// Reads `stats`.
///
/// # Errors
///
/// If a counter is missing.
pub fn stats(text: &str) -> Result<Stats> {
    let counter = |name: &str| -> Result<u64> {
        text.lines()
            .find_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(": ")?
                    .trim()
                    .parse()
                    .ok()
            })
            .with_context(|| format!("the ring's counters lack `{name}`"))
    };
    Ok(Stats {
        entries: counter("entries")?,
        lost: counter("overrun")? + counter("commit overrun")? + counter("dropped events")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_timerlat::config::Load;

    /// Printed by Linux 6.1.
    const TRACE: &str = include_str!("samples/timerlat-trace.txt");
    const WITH_EVENTS: &str = include_str!("samples/timerlat-trace-events.txt");

    fn settings(skipped: u64, wanted: u64) -> Settings {
        Settings {
            period_ns: 1_000_000,
            duration_ns: wanted * 1_000_000,
            warm_up_ns: skipped * 1_000_000,
            load: Load::None,
        }
    }

    #[test]
    fn linuxs_own_trace_is_read() {
        let samples = parse(TRACE).unwrap();
        assert_eq!(samples.len(), 12);
        let (irq, thread) = (samples[0], samples[1]);
        assert_eq!((irq.seq, irq.is_irq, irq.ns), (1, true, 630));
        assert_eq!((thread.seq, thread.is_irq, thread.ns), (1, false, 4055));
    }

    #[test]
    fn other_events_between_are_passed_over() {
        let samples = parse(WITH_EVENTS).unwrap();
        let irq: Vec<_> = samples.iter().filter(|s| s.is_irq).map(|s| s.ns).collect();
        assert_eq!(irq, [630, 723, 720]);
    }

    #[test]
    fn the_warm_up_and_what_came_behind_do_not_count() {
        let samples = parse(TRACE).unwrap();
        let all = distributions(&samples, &settings(2, 3)).unwrap();
        assert_eq!((all.irq.min(), all.irq.max()), (Some(719), Some(724)));
        assert_eq!((all.thread.count(), all.thread.max()), (3, Some(4267)));
        let error = distributions(&samples, &settings(2, 5)).unwrap_err();
        assert!(error.to_string().contains("5 activations"), "{error}");
    }

    #[test]
    fn damage_and_losses_are_errors() {
        let cut = TRACE.trim_end().trim_end_matches(" ns");
        assert!(parse(cut).unwrap_err().to_string().starts_with("line 25"));
        let lost = format!("{TRACE}CPU:0 [LOST 17 EVENTS]\n");
        assert!(parse(&lost).is_err());
    }

    #[test]
    fn the_rings_counters_add_up() {
        let text = "entries: 6016\noverrun: 2\ncommit overrun: 3\nbytes: 217212\noldest event ts:     3.050421\n\
                    now ts:     6.070186\ndropped events: 4\nread events: 0\n";
        let expected = Stats {
            entries: 6016,
            lost: 9,
        };
        assert_eq!(stats(text).unwrap(), expected);
        assert!(stats("entries: 6016\n").is_err());
    }
}
