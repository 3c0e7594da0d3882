//! A run's verdict, its figures, its configuration.

use takt_machine::hardware::MachineRecord;
use takt_machine::judge::slot_name;
use takt_machine::record::Run;
use takt_machine::record::{Distributions, SlotRecord};
use takt_timerlat::stats::ExactHistogram;

use super::html::{cell, details, escape, figure, head, legend, note, origin, table};
use crate::plot::Role;
use crate::source::Source;

/// Columns of the figures: title, and name in the document.
pub(super) const COLUMNS: [(&str, &str); 7] = [
    ("count", "count"),
    ("min", "min"),
    ("avg", "avg"),
    ("p50", "p50"),
    ("p99", "p99"),
    ("p99.9", "p999"),
    ("max", "max"),
];

/// One of the latencies of a measured thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latency {
    /// Of the interrupt.
    Irq,
    /// Of the thread.
    Thread,
    /// Until it has come back from user space.
    User,
}

impl Latency {
    /// Its name in the document.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Irq => "irq",
            Self::Thread => "thread",
            Self::User => "user",
        }
    }

    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Irq => "IRQ",
            Self::Thread => "thread",
            Self::User => "user",
        }
    }

    /// Its name in titles.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Irq => "IRQ latency",
            Self::Thread => "Thread latency",
            Self::User => "User latency",
        }
    }

    /// Its colour in the pictures of one run.
    pub(super) fn role(self) -> Role {
        match self {
            Self::Irq => Role::Irq,
            Self::Thread => Role::Thread,
            Self::User => Role::User,
        }
    }

    /// Its samples.
    pub(super) fn of(self, both: &Distributions) -> &ExactHistogram {
        match self {
            Self::Irq => &both.irq,
            Self::Thread => &both.thread,
            Self::User => &both.user,
        }
    }
}

/// A measured thread of a run.
pub(super) struct Slot {
    /// What people call it.
    pub(super) name: String,
    /// The latencies that it has.
    pub(super) latencies: &'static [Latency],
}

impl Slot {
    /// What the colours in its pictures mean.
    pub(super) fn legend(&self) -> String {
        let entry = |latency: &Latency| (latency.role(), format!("{} latency", latency.name()));
        legend(&self.latencies.iter().map(entry).collect::<Vec<_>>())
    }
}

/// The measured threads of a run, in the order of its document.
pub(super) fn slots(run: &Run) -> Vec<Slot> {
    let slots = run.record.slots.iter().zip(&run.distributions);
    let slot = |(slot, both): (&SlotRecord, &Distributions)| Slot {
        name: slot_name(run.record.config.workload, slot),
        latencies: match (both.irq.count(), &slot.user) {
            (0, None) => &[Latency::Thread],
            (_, None) => &[Latency::Irq, Latency::Thread],
            (0, Some(_)) => &[Latency::Thread, Latency::User],
            (_, Some(_)) => &[Latency::Irq, Latency::Thread, Latency::User],
        },
    };
    slots.map(slot).collect()
}

/// Verdict and figures.
pub(super) fn section(run: usize, source: &Source) -> String {
    let document = &source.document;
    let record = &source.run.record;
    let verdict = record.result.word();
    let mut out = format!(
        "<p class=\"verdict {verdict}\"><strong {}>{verdict}</strong> · <span {}>{}</span> · revision <code {}>{}</code></p>\n",
        origin(run, "/result"),
        origin(run, "/accel"),
        escape(&figure(&document["accel"])),
        origin(run, "/git"),
        escape(&figure(&document["git"])),
    );
    out += &format!(
        "<p>One nanosecond means <span {}>{}</span>.</p>\n",
        origin(run, "/ns_means"),
        escape(&figure(&document["ns_means"])),
    );
    if record.is_interrupted {
        out += &note("Interrupted: it did not run for as long as it was meant to.");
    }
    if record.is_edited {
        out += &note(
            "Edited: what is kept of the run was changed after it, and may not be what was measured.",
        );
    }
    for reason in record.error.iter().chain(&record.taint) {
        out += &note(reason);
    }
    if record.verified.is_some() {
        let number = |name: &str| {
            let path = format!("/verified/{name}");
            let value = document.pointer(&path).map(figure).unwrap_or_default();
            format!("<span {}>{}</span>", origin(run, &path), escape(&value))
        };
        out += &format!(
            "<p>Verified by the count of executed instructions: {} of {} activations.</p>\n",
            number("verified"),
            number("activations")
        );
    }
    if let Some(stop) = &record.stop {
        out += &note(&format!(
            "Stopped by the {} threshold: {} ns on CPU {}, activation {}.",
            stop.which, stop.value_ns, stop.cpu, stop.seq
        ));
    }
    out += "<h3>Latency in ns</h3>\n";
    let titles: Vec<_> = ["", ""]
        .into_iter()
        .chain(COLUMNS.map(|(title, _)| title))
        .chain(["missed"])
        .collect();
    let mut rows = head(2, &titles);
    for (nr, slot) in slots(&source.run).iter().enumerate() {
        for latency in slot.latencies {
            rows += &format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td>",
                escape(&slot.name),
                latency.name()
            );
            for (_, column) in COLUMNS {
                let path = format!("/cpus/{nr}/{}/{column}", latency.key());
                rows += &cell(run, document, &path);
            }
            rows += &match latency {
                Latency::Thread => cell(run, document, &format!("/cpus/{nr}/missed")),
                Latency::Irq | Latency::User => "<td></td>".into(),
            };
            rows += "</tr>";
            let without = format!("/cpus/{nr}/without_turns/{}", latency.key());
            if document.pointer(&without).is_some() {
                rows += "<tr><td></td><td>without turns</td>";
                for (_, column) in COLUMNS {
                    rows += &cell(run, document, &format!("{without}/{column}"));
                }
                rows += "<td></td></tr>";
            }
        }
    }
    out + &table(&rows)
}

/// What was asked for, and on what it ran.
pub(super) fn configuration(run: usize, source: &Source) -> String {
    let document = &source.document;
    let record = &source.run.record;
    let mut rows = String::new();
    let mut row = |name: &str, value: &str, attributes: &str| {
        rows += &format!(
            "<tr><th scope=\"row\">{}</th><td {attributes}>{}</td></tr>",
            escape(name),
            escape(value)
        );
    };
    for (name, value) in document["config"].as_object().into_iter().flatten() {
        let path = format!("/config/{name}");
        row(name, &figure(value), &origin(run, &path));
    }
    row(
        "accelerator",
        &format!("{} ({})", record.accel.accel.name(), record.accel.why),
        "",
    );
    row("revision", &record.git, "");
    row("host", &record.host.cpu, "");
    row("host's kernel", &record.host.kernel, "");
    let machine = record.machine.iter().flat_map(MachineRecord::lines);
    machine.for_each(|(name, text)| row(name, &text, ""));
    for gaps in &record.gaps {
        let what = format!("gaps on CPU {}", gaps.cpu);
        let text = format!(
            "{}, the longest {} ns, with {} NMIs",
            gaps.count, gaps.max_ns, gaps.nmis
        );
        row(&what, &text, "");
    }
    row("QEMU", &record.host.qemu, "");
    row("QEMU's end", &record.host.qemu_exit, "");
    row(
        "clock",
        &format!(
            "TSC {} Hz ({})",
            record.clocks.tsc_hz, record.clocks.tsc_source
        ),
        "",
    );
    row(
        "measured",
        &format!("{} ns of the guest's time", record.timing.measured_ns),
        "",
    );
    for name in ["events", "bytes", "overrun", "dropped"] {
        let path = format!("/trace/{name}");
        let value = document.pointer(&path).map(figure).unwrap_or_default();
        row(&format!("trace: {name}"), &value, &origin(run, &path));
    }
    row("kernel's command line", &record.kernel_cmdline, "");
    let threads = record.threads.iter().map(|thread| {
        format!(
            "<tr><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            thread.tid,
            escape(&thread.name),
            thread.cpu,
            thread.priority,
            thread.switches.map_or_else(|| "–".to_owned(), |it| it.to_string()),
        )
    });
    let threads = format!(
        "{}{}",
        head(0, &["id", "name", "CPU", "priority", "switches"]),
        threads.collect::<String>()
    );
    format!(
        "<h3>Configuration</h3>\n{}{}",
        table(&rows).replacen("<table>", "<table class=\"facts\">", 1),
        details("Threads", &table(&threads))
    )
}
