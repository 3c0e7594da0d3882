//! Both systems side by side, as text for stdout.

use std::fmt::{self, Write};
use std::path::Path;

use console::style;
use takt_timerlat::config::Load;

use super::record::{Comparison, Latency};
use super::verdict::Limit;
use takt_base::paths;
use takt_base::units::format_ns;
use takt_machine::record::Verdict;
use takt_machine::said::{Detail, result};

/// The text about a comparison in `dir`, at most `width` columns wide where words can be wrapped.
#[must_use]
pub fn write(comparison: &Comparison, dir: &Path, detail: Detail, width: usize) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_into(&mut out, comparison, dir, detail, width);
    out
}

fn write_into(
    out: &mut String,
    comparison: &Comparison,
    dir: &Path,
    detail: Detail,
    width: usize,
) -> fmt::Result {
    if detail >= Detail::Normal {
        header(out, comparison, detail, width)?;
    }
    if comparison.error.is_none() {
        figures(out, comparison)?;
        limits(out, &comparison.limits)?;
    }
    if detail >= Detail::Normal {
        writeln!(out, "{:<12} {}", "run folder", paths::shown(dir))?;
    }
    verdict(out, comparison)
}

fn header(out: &mut String, c: &Comparison, detail: Detail, width: usize) -> fmt::Result {
    writeln!(out, "{}", style("Takt and Linux PREEMPT_RT").bold())?;
    let mut line = |name: &str, text: &str| wrapped(out, name, text, width);
    line("Linux", &linux(c))?;
    if detail >= Detail::Verbose {
        for package in &c.linux.packages {
            line("", &format!("{} {}", package.name, package.version))?;
            line("", &format!("  SHA256 {}", package.sha256))?;
            line("", &format!("  from {}", package.from))?;
        }
    } else if let Some(kernel) = c.linux.packages.first() {
        line(
            "",
            &format!("from {}, SHA256 {}", kernel.from, kernel.sha256),
        )?;
    }
    line("Takt", &format!("revision {}", c.takt.git))?;
    line("machine", &machine(c))?;
    line(
        "1 ns means",
        "one guest instruction, on both sides: no caches, no bus, no noise of hardware; Takt's figures are the same in \
         every run, Linux's nearly",
    )?;
    line("period", &period(c))?;
    line("load", load(c.settings.load))?;
    line(
        "timerlat",
        "both record its two samples for each activation and nothing else; the thread is a kernel thread on both sides",
    )?;
    line(
        "cyclictest",
        "nothing is recorded; on both sides a program in user space, on Takt a protected task",
    )?;
    let booted = c.linux.booted_ns.map_or(String::new(), |ns| {
        format!(
            " (its first program ran after {:.2} s of its time)",
            ns as f64 / 1e9
        )
    });
    let took = format!(
        "Linux {:.0} s{booted}, Takt {:.0} s",
        c.linux.took_s, c.takt.took_s
    );
    line("took", &took)?;
    writeln!(out)
}

/// Which kernel.
fn linux(c: &Comparison) -> String {
    let kernel = c.linux.packages.first();
    let package = kernel.map_or(String::new(), |kernel| {
        format!("{} {}", kernel.name, kernel.version)
    });
    // `6.1.0-56-rt-amd64 (debian-kernel@…) (gcc-12 …) #1 SMP PREEMPT_RT Debian 6.1.192-2 (2026-11-16)`
    match c.linux.version.split_once('#') {
        Some((_, built)) => format!("{package}: #{built}"),
        None => package,
    }
}

fn machine(c: &Comparison) -> String {
    let qemu = c.qemu.split(" (").next().unwrap_or(&c.qemu);
    format!(
        "the same for both but the memory, {} MiB for Linux and {} for Takt: {qemu}, q35, -cpu max, 1 CPU, {}; Linux with {}",
        c.linux.ram_mib, c.takt.ram_mib, c.accel, c.linux.arguments
    )
}

fn period(c: &Comparison) -> String {
    let settings = &c.settings;
    let warm_up = match settings.warm_up_ns {
        0 => String::new(),
        ns => format!(" (timerlat's after a warm-up of {})", format_ns(ns)),
    };
    format!(
        "{}, FIFO {}, {} activations of timerlat and of cyclictest{warm_up}",
        format_ns(settings.period_ns),
        c.priority,
        settings.activations()
    )
}

/// What runs beside the measurement on either side.
fn load(load: Load) -> &'static str {
    match load {
        Load::None => "none",
        Load::Cpu => "cpu: a process (Takt: a thread) that computes without end",
        _ => {
            "mix, the same kinds on both sides: what computes and calls the system (Linux: dd and cat, forked in a loop), \
             timers' interrupts, every 10 to 13 us on average, contended mutexes; on Takt queues as well"
        }
    }
}

/// A line that goes on below itself.
fn wrapped(out: &mut String, name: &str, text: &str, width: usize) -> fmt::Result {
    let room = width.saturating_sub(13).max(40);
    let mut row = String::new();
    let mut name = name;
    let lead = text.len() - text.trim_start().len();
    for word in text.split_whitespace() {
        if !row.is_empty() && row.chars().count() + 1 + word.chars().count() > room {
            writeln!(out, "{name:<12} {row}")?;
            (name, row) = ("", String::new());
        }
        let gap = if row.is_empty() { &text[..lead] } else { " " };
        row = row + gap + word;
    }
    writeln!(out, "{name:<12} {row}")
}

/// A row for each system and latency, and one that says how many times one is the other.
fn figures(out: &mut String, c: &Comparison) -> fmt::Result {
    let head = format!(
        "{:<21} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "latency in ns", "min", "median", "avg", "p99", "max"
    );
    writeln!(out, "{}", style(head).bold())?;
    let (takt, linux) = (&c.takt.latencies, &c.linux.latencies);
    for (name, takt, linux) in [
        ("IRQ", &takt.irq, &linux.irq),
        ("thread", &takt.thread, &linux.thread),
        ("cyclictest", &takt.cyclictest, &linux.cyclictest),
    ] {
        let (Some(takt), Some(linux)) = (takt, linux) else {
            continue;
        };
        row(out, name, "Linux", linux)?;
        row(out, "", "Takt", takt)?;
        let times = |takt: f64, linux: f64| match takt {
            0.0 => "-".to_owned(),
            takt => format!("{:.1}", linux / takt),
        };
        let of = |figure: fn(&Latency) -> f64| times(figure(takt), figure(linux));
        let ratio = format!(
            "{:<12} {:<8} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "",
            "times",
            of(|l| l.min as f64),
            of(|l| l.p50 as f64),
            of(|l| l.avg),
            of(|l| l.p99 as f64),
            of(|l| l.max as f64)
        );
        writeln!(out, "{}", style(ratio).dim())?;
    }
    writeln!(out)
}

fn row(out: &mut String, name: &str, system: &str, l: &Latency) -> fmt::Result {
    let avg = format!("{:.1}", l.avg);
    writeln!(
        out,
        "{name:<12} {system:<8} {:>9} {:>9} {avg:>9} {:>9} {:>9}",
        l.min, l.p50, l.p99, l.max
    )
}

fn limits(out: &mut String, limits: &[Limit]) -> fmt::Result {
    let head = format!(
        "{:<23} {:>7}   {:<23} {}",
        "limit in ns", "Takt", "must be below", "verdict"
    );
    writeln!(out, "{}", style(head.trim_end()).bold())?;
    for limit in limits {
        let name = match &*limit.latency {
            "irq" => "IRQ latency",
            "cyclictest" => "cyclictest",
            _ => "thread latency",
        };
        let bound = limit.linux_ns as f64 / limit.part as f64;
        let below = format!("{}/{} = {bound:.1}", limit.linux_ns, limit.part);
        let word = if limit.holds {
            style("holds").green()
        } else {
            style("does not hold").yellow()
        };
        let name = format!("{name}, {}", limit.figure);
        writeln!(out, "{name:<23} {:>7}   {below:<23} {word}", limit.takt_ns)?;
    }
    writeln!(out)
}

fn verdict(out: &mut String, c: &Comparison) -> fmt::Result {
    let why = match c.result {
        Verdict::Passed => ": every limit holds",
        Verdict::Threshold => ": not every limit holds",
        _ => "",
    };
    result(out, &c.taint, c.error.as_deref(), c.result, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Package;
    use crate::record::{Latencies, Linux, Takt};
    use crate::{Settings, verdict};
    use takt_machine::record::Distributions;
    use takt_timerlat::stats::ExactHistogram;

    fn distributions(irq: u64, thread: u64) -> (Distributions, ExactHistogram) {
        let mut all = Distributions::default();
        all.irq.record_n(irq, 3000);
        all.thread.record_n(thread, 3000);
        let mut cyclictest = ExactHistogram::new();
        cyclictest.record_n(thread - 50, 3000);
        (all, cyclictest)
    }

    fn comparison(takt_thread: u64) -> Comparison {
        let settings = Settings {
            period_ns: 1_000_000,
            duration_ns: 3_000_000_000,
            warm_up_ns: 100_000_000,
            load: Load::Mix,
        };
        let mut c = Comparison::new(
            settings,
            "QEMU emulator version 7.2.22 (Debian)".into(),
            "a CPU".into(),
        );
        let (takt, takt_cyclictest) = distributions(4, takt_thread);
        let (linux, linux_cyclictest) = distributions(725, 4275);
        c.limits = verdict::limits((&takt, &takt_cyclictest), (&linux, &linux_cyclictest));
        c.takt = Takt {
            latencies: Latencies::of(&takt, &takt_cyclictest),
            ..Takt::default()
        };
        c.linux = Linux {
            version: "6.1.0-56-rt-amd64 (d) #1 SMP PREEMPT_RT Debian 6.1.192-2 (2026-11-16)".into(),
            packages: vec![Package {
                name: "linux-image-6.1.0-56-rt-amd64".into(),
                version: "6.1.192-2".into(),
                sha256: "0123456789abcdef".repeat(4),
                file: "x.deb".into(),
                from: "Debian's archive".into(),
            }],
            latencies: Latencies::of(&linux, &linux_cyclictest),
            ..Linux::default()
        };
        c.result = c.judge();
        c
    }

    fn text(c: &Comparison, width: usize) -> String {
        let text = write(c, Path::new("runs/compare-001"), Detail::Verbose, width);
        console::strip_ansi_codes(&text).into_owned()
    }

    #[test]
    fn figures_stand_side_by_side() {
        let text = text(&comparison(183), 80);
        assert!(
            text.contains(
                "IRQ          Linux          725       725     725.0       725       725\n"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "             Takt           183       183     183.0       183       183\n"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "             times         23.4      23.4      23.4      23.4      23.4\n"
            ),
            "{text}"
        );
        assert!(
            text.contains("thread latency, max         183   4275/15 = 285.0         holds\n"),
            "{text}"
        );
        assert!(
            text.ends_with("result       passed: every limit holds\n"),
            "{text}"
        );
        let words: Vec<_> = text.split_whitespace().collect();
        let words = words.join(" ");
        assert!(
            words.contains("#1 SMP PREEMPT_RT Debian 6.1.192-2"),
            "{words}"
        );
    }

    #[test]
    fn a_limit_that_does_not_hold_is_a_threshold() {
        let c = comparison(285);
        assert_eq!(c.result, Verdict::Threshold);
        assert_eq!(text(&c, 80).matches("does not hold").count(), 2);
        let mut tainted = comparison(285);
        tainted.taint.push("Linux lost 3 records".into());
        assert_eq!(tainted.judge(), Verdict::Tainted);
        tainted.error = Some("it hangs".into());
        assert_eq!(tainted.judge(), Verdict::Error);
    }

    #[test]
    fn it_fits_the_terminal() {
        for width in [80, 120] {
            for line in text(&comparison(183), width).lines() {
                // A checksum cannot be wrapped.
                assert!(
                    line.chars().count() <= width || line.contains("0123456789"),
                    "{width}: {line}"
                );
            }
        }
    }

    #[test]
    fn without_figures_there_is_no_table() {
        let mut c = comparison(183);
        c.error = Some("Linux panicked".into());
        c.result = c.judge();
        let text = text(&c, 80);
        assert!(
            !text.contains("latency in ns") && text.contains("error        Linux panicked"),
            "{text}"
        );
    }
}
