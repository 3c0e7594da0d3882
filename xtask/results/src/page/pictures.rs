//! Histograms, percentile curves and latency over time of one run.

use anyhow::Result;
use takt_base::units::format_ns;

use super::Reported;
use super::figures::{Latency, Slot, slots};
use super::html::{details, head, note, picture, table};
use crate::plot::histogram::{self, Buckets, Scale};
use crate::plot::{over_time, percentiles};
use takt_machine::samples::Sample;

/// The pictures of all measured threads.
pub(super) fn section(nr: usize, run: &Reported) -> Result<String> {
    let mut out = String::new();
    let slots = slots(&run.source.run);
    for (index, slot) in slots.iter().enumerate() {
        if slots.len() > 1 {
            out += &format!("<h3>{}</h3>\n", super::escape(&slot.name));
        } else {
            out += "<h3>Distribution</h3>\n";
        }
        out += "<div class=\"pictures\">\n";
        out += &histograms(nr, run, index, slot)?;
        out += &curve(run, index, slot)?;
        out += &time(run, index, slot)?;
        out += "</div>\n";
    }
    match &run.story {
        Err(why) => {
            out += &note(&format!("No latency over time and no causes: {why}."));
        }
        Ok(story) => {
            for text in &story.notes {
                out += &note(text);
            }
        }
    }
    Ok(out)
}

fn histograms(nr: usize, run: &Reported, index: usize, slot: &Slot) -> Result<String> {
    let mut out = String::new();
    let both = &run.source.run.distributions[index];
    for latency in slot.latencies {
        let all = latency.of(both);
        let buckets = histogram::cut(all, histogram::width([all]));
        let series = [(latency.role(), buckets.clone())];
        for scale in [Scale::Linear, Scale::Log] {
            let title = format!("{}, {} ({scale})", latency.title(), slot.name);
            let svg = histogram::picture(&title, scale, &series);
            let below = match scale {
                Scale::Linear => String::new(),
                Scale::Log => numbers(nr, index, *latency, &buckets),
            };
            out += &picture(&title, &svg, &below);
        }
    }
    Ok(out)
}

/// The buckets of a picture as a table. Each says which part of the document's histogram it sums up.
fn numbers(nr: usize, index: usize, latency: Latency, buckets: &Buckets) -> String {
    let (which, width) = (latency.key(), buckets.width);
    let mut rows = head(0, &["from", "to", "count"]);
    for (low, count) in &buckets.counts {
        rows += &format!(
            "<tr data-run=\"{nr}\" data-hist=\"/cpus/{index}/{which}/hist\"><td class=\"n\">{low}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{count}</td></tr>",
            low + (width - 1)
        );
    }
    if buckets.overflow != 0 {
        rows += &format!(
            "<tr><td class=\"n\">more</td><td></td><td class=\"n\">{}</td></tr>",
            buckets.overflow
        );
    }
    details("Numbers", &table(&rows))
}

fn curve(run: &Reported, index: usize, slot: &Slot) -> Result<String> {
    let both = &run.source.run.distributions[index];
    let series = slot.latencies.iter();
    let series: Vec<_> = series.map(|it| (it.role(), it.of(both))).collect();
    let title = format!("Percentiles, {}", slot.name);
    let svg = percentiles::picture(&title, &series);
    Ok(picture(&title, &svg, &slot.legend()))
}

fn time(run: &Reported, index: usize, slot: &Slot) -> Result<String> {
    let Ok(story) = &run.story else {
        return Ok(String::new());
    };
    let number = run.source.run.record.slots[index].slot;
    let hz = run.source.run.record.clocks.tsc_hz;
    let clock = takt_decode::TscClock::new(hz);
    let samples = || story.samples.iter().filter(|it| it.slot as usize == number);
    let collect = |latency: Latency| {
        let cycles = |it: &Sample| match latency {
            Latency::Irq => it.irq,
            Latency::Thread => Some(it.thread),
            Latency::User => it.user.map(|user| user.latency),
        };
        let point = |it: &Sample| Some((clock.ns(it.due()), clock.ns(cycles(it)?.into())));
        samples().filter_map(point).collect::<Vec<_>>()
    };
    let thread = collect(Latency::Thread);
    if thread.is_empty() {
        return Ok(String::new());
    }
    let counted = run.source.run.record.slots[index].thread.count;
    let (_, length) = over_time::ranges(&thread);
    let nr = thread.len();
    // The IRQ latencies are drawn last: they are below most of the others.
    let series = slot.latencies.iter().rev();
    let series: Vec<_> = series.map(|it| (it.role(), collect(*it))).collect();
    let title = format!("Latency over time, {}", slot.name);
    let svg = over_time::picture(&title, &series);
    let below = format!(
        "{}<p class=\"small\">{nr} of {counted} samples are in the trace. A line is the range within {}, a dot \
         its maximum.</p>",
        slot.legend(),
        format_ns(length)
    );
    Ok(picture(&title, &svg, &below))
}
