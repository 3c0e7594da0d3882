//! The results as text.

use std::fmt::Write;

use console::style;

use super::document::{Document, Stretch, Where};

/// Rows of the table of sections.
const NR_SECTIONS: usize = 15;

/// The tables: latencies, worst arrivals, sections, coverage.
#[must_use]
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = latencies(&mut out, document);
    let _ = worst(&mut out, document);
    let _ = sections(&mut out, document);
    let _ = coverage(&mut out, document);
    out
}

fn heading(text: &str) -> console::StyledObject<&str> {
    style(text).bold()
}

fn latencies(out: &mut String, document: &Document) -> std::fmt::Result {
    const TITLE: &str = "in instructions";
    let names = document.results.iter().map(|it| it.name.len());
    let width = names.max().unwrap_or(0).max(TITLE.len());
    let head = format!(
        "{TITLE:width$} {:>7} {:>9} {:>5} {:>5} {:>12} {:>5} {:>5} {:>10}",
        "length", "IRQ min", "p50", "max", "thread min", "p50", "max", "wake max"
    );
    writeln!(out, "{}", heading(&head))?;
    for it in &document.results {
        let numbers = [
            it.irq.min,
            it.irq.p50,
            it.irq.max,
            it.thread.min,
            it.thread.p50,
            it.thread.max,
            it.wake.max,
        ];
        // Another shard's, or not measured yet.
        let is_measured = it.hit != 0;
        let [irq_min, irq_p50, irq_max, min, p50, max, wake] = numbers.map(|number| {
            if is_measured {
                number.to_string()
            } else {
                "-".into()
            }
        });
        writeln!(
            out,
            "{:width$} {:>7} {irq_min:>9} {irq_p50:>5} {irq_max:>5} {min:>12} {p50:>5} {max:>5} {wake:>10}",
            it.name, it.length,
        )?;
    }
    writeln!(
        out,
        "length: of the stretch; IRQ, thread: latency; wake: from the interrupt's entry to the thread\n"
    )
}

fn section_text(section: &Where) -> String {
    let begin = section
        .begin
        .as_ref()
        .map_or("before the stretch", |it| &it.line);
    format!(
        "{}, {} instructions from {begin}",
        section.kind.name(),
        section.length
    )
}

fn worst(out: &mut String, document: &Document) -> std::fmt::Result {
    let mut all: Vec<_> = document
        .results
        .iter()
        .flat_map(|it| it.worst.iter().map(move |worst| (it, worst)))
        .collect();
    all.sort_by_key(|(_, worst)| std::cmp::Reverse(worst.thread));
    writeln!(out, "{}", heading("Worst arrivals"))?;
    for (stretch, worst) in all.iter().take(10) {
        writeln!(
            out,
            "{:>6} thread {:>5} IRQ  {} +{}  at {}",
            worst.thread, worst.irq, stretch.name, worst.position, worst.at.line
        )?;
        if !worst.at.instruction.is_empty() {
            writeln!(
                out,
                "{:>6} {:#x} <{}>: {}",
                "", worst.at.ip, worst.at.function, worst.at.instruction
            )?;
        }
        if let Some(section) = &worst.section {
            writeln!(out, "{:>6} {}", "", section_text(section))?;
        }
    }
    writeln!(out)
}

fn sections(out: &mut String, document: &Document) -> std::fmt::Result {
    writeln!(out, "{}", heading("Longest sections"))?;
    if document.sections.is_empty() {
        return writeln!(out, "none\n");
    }
    for it in document.sections.iter().take(NR_SECTIONS) {
        writeln!(
            out,
            "{:>6} {:15} {}  ({}{})",
            it.length,
            it.kind.name(),
            it.begin,
            it.stretch,
            match it.times {
                1 => String::new(),
                n => format!("; {n} times on all paths"),
            }
        )?;
        if it.end != it.begin {
            writeln!(out, "{:>22} to {}", "", it.end)?;
        }
    }
    if let Some(more) = document.sections.len().checked_sub(NR_SECTIONS + 1) {
        writeln!(out, "{:>6} more: --json has them all", more + 1)?;
    }
    writeln!(out)
}

fn coverage(out: &mut String, document: &Document) -> std::fmt::Result {
    let sum = |number: fn(&Stretch) -> u32| -> u64 {
        document
            .results
            .iter()
            .map(|it| u64::from(number(it)))
            .sum()
    };
    let (swept, hit) = (sum(|it| it.swept), sum(|it| it.hit));
    let joined = sum(|it| it.joined);
    let more_ways = sum(|it| it.ways.saturating_sub(1));
    let boundaries = match document.config.step {
        1 => String::from("boundaries between two instructions"),
        step => format!("boundaries, of which one in {step} was asked for (--step)"),
    };
    writeln!(out, "{} {hit} of {swept} {boundaries}", heading("Coverage"))?;
    if !document.edited.is_empty() {
        let edited = document.edited.join(", ");
        writeln!(
            out,
            "  edited: {edited}; what was changed by hand was not measured, and the figures may be others"
        )?;
    }
    if joined > 0 {
        writeln!(
            out,
            "  {joined} arrivals were taken in the entry of another interrupt"
        )?;
    }
    if more_ways > 0 {
        writeln!(
            out,
            "  {more_ways} further ways through the stretches: what it takes to arm a timer depends on when the measured\n  \
             one is due"
        )?;
    }
    for it in &document.results {
        if document.is_of_part(it) {
            writeln!(
                out,
                "  in part: {}, the first {} of {} instructions (--window)",
                it.name, it.swept, it.length
            )?;
        }
        for (first, last) in &it.not_hit {
            writeln!(out, "  not hit: {} +{first} to +{last}", it.name)?;
        }
        if it.hit == 0 {
            writeln!(
                out,
                "  not measured: {}, of which no boundary was met: they are another shard's, or --step leaves all of them out",
                it.name
            )?;
        } else if it.is_open {
            writeln!(
                out,
                "  not ended: {}, of which not all was measured",
                it.name
            )?;
        }
        for astray in it.astray.iter().take(5) {
            writeln!(
                out,
                "  astray: {} +{} was taken at {}, the path has {} there",
                it.name,
                astray.position,
                astray.taken.line,
                astray.expected.as_ref().map_or("nothing", |it| &it.line),
            )?;
        }
        if let Some(more) = it.astray.len().checked_sub(6) {
            writeln!(out, "  astray: {} more of {}", more + 1, it.name)?;
        }
    }
    if document.is_complete() && document.config.step == 1 {
        let is_of_part = |it: &Stretch| document.is_of_part(it);
        let of = match document.results.iter().any(is_of_part) {
            true => " of what was swept",
            false => "",
        };
        writeln!(
            out,
            "  every arrival was taken where its way has it: these are the maxima{of}, not samples"
        )?;
    }
    Ok(())
}
