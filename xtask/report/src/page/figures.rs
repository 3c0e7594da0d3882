//! A run's verdict, its figures, its configuration.

use serde_json::Value;

use super::html::{cell, details, escape, figure, head, note, origin, table};
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

/// A measured thread of a run.
pub(super) struct Slot {
    /// What people call it.
    pub(super) name: String,
    /// Whether there is an IRQ latency.
    pub(super) has_irq: bool,
}

/// The measured threads of a run, in the order of its document.
pub(super) fn slots(source: &Source) -> Vec<Slot> {
    let is_cyclictest = source.document["config"]["workload"] == "cyclictest";
    let slot = |cpu: &Value| Slot {
        name: match cpu["slot"].as_u64() {
            Some(slot) if is_cyclictest => format!("CPU {}, thread {slot}", figure(&cpu["cpu"])),
            _ => format!("CPU {}", figure(&cpu["cpu"])),
        },
        has_irq: cpu["irq"]["count"].as_u64() != Some(0),
    };
    let cpus = source.document["cpus"].as_array();
    cpus.into_iter().flatten().map(slot).collect()
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
    for reason in record.error.iter().chain(&record.taint) {
        out += &note(reason);
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
    for (nr, slot) in slots(source).iter().enumerate() {
        for (which, title) in [("irq", "IRQ"), ("thread", "thread")] {
            if which == "irq" && !slot.has_irq {
                continue;
            }
            rows += &format!(
                "<tr><th scope=\"row\">{}</th><td>{title}</td>",
                escape(&slot.name)
            );
            for (_, column) in COLUMNS {
                rows += &cell(run, document, &format!("/cpus/{nr}/{which}/{column}"));
            }
            rows += &match which {
                "thread" => cell(run, document, &format!("/cpus/{nr}/missed")),
                _ => "<td></td>".into(),
            };
            rows += "</tr>";
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
    row(
        "kernel's command line",
        &record.kernel_cmdline,
        "class=\"long\"",
    );
    let threads = record.threads.iter().map(|thread| {
        format!(
            "<tr><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            thread.tid,
            escape(&thread.name),
            thread.cpu,
            thread.priority,
            thread.switches,
        )
    });
    let threads = format!(
        "{}{}",
        head(0, &["id", "name", "CPU", "priority", "switches"]),
        threads.collect::<String>()
    );
    format!(
        "<h3>Configuration</h3>\n{}{}",
        table(&rows),
        details("Threads", &table(&threads))
    )
}
