//! What is shown on the terminal while a run goes on: rtla `timerlat top`'s table and a progress
//! bar, on stderr. Where the table does not fit, each latency has a row.

use std::cell::Cell;
use std::fmt::Write;
use std::time::Duration;

use console::{Term, style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use takt_timerlat::stats::RunState;
use takt_timerlat::stats::view::{Figures, Head, Slot};

use super::config::{RunConfig, UNTIL_STOPPED};
use crate::run::lines::Line;
use crate::run::lines::Lines;

/// Columns of rtla's table, and how many more that of a user's thread has.
const WIDE: usize = 97;
const USER: usize = 42;

/// They begin with an empty line, because one line stays behind after the `^C` that the terminal echoes on a line of its
/// own.
const BAR: &str = "\n{msg}\n{bar:34.cyan/dim} {percent:>3} % in {elapsed}";
const ENDLESS: &str = "\n{msg}\nfor {elapsed}, until Ctrl-C";

/// The live view. Shows nothing where stderr is no terminal.
#[derive(Debug)]
pub struct Live {
    bar: ProgressBar,
    period_ns: u64,
    duration_ns: u64,
    /// cyclictest's lines instead of rtla's table.
    lines: Option<Lines>,
    /// The highest latency that is shown.
    max: Cell<u64>,
}

impl Live {
    /// Begins to show.
    #[must_use]
    pub fn new(config: &RunConfig, is_quiet: bool, lines: Option<Lines>) -> Self {
        let target = if is_quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(config.duration_ns.max(1)), target);
        let template = match config.duration_ns {
            UNTIL_STOPPED => ENDLESS,
            _ => BAR,
        };
        // The templates are constant; if one were wrong, the default style would do.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message("booting");
        Self {
            bar,
            period_ns: config.period_ns,
            duration_ns: config.duration_ns,
            lines,
            max: Cell::new(0),
        }
    }

    /// Shows the state of things.
    pub fn update(&self, head: &Head, slots: &[Slot]) {
        if self.bar.is_hidden() {
            return;
        }
        if head.state == RunState::Booting {
            self.bar.tick();
            return;
        }
        let elapsed = slots
            .iter()
            .map(|slot| elapsed_ns(slot, self.period_ns))
            .max()
            .unwrap_or_default();
        self.bar.set_position(elapsed.min(self.duration_ns));
        if let Some(lines) = self.lines {
            return self.show_lines(slots, lines);
        }
        let width = Term::stderr()
            .size_checked()
            .map_or(WIDE, |(_, columns)| columns.into());
        self.bar
            .set_message(table("Timer Latency", elapsed, slots, width));
    }

    fn show_lines(&self, slots: &[Slot], lines: Lines) {
        let max = slots.iter().map(|slot| slot.thread.max).max().unwrap_or(0);
        if self.max.replace(max) < max || !lines.is_on_max {
            let texts = slots.iter().map(|slot| Line::now(slot).text(lines));
            self.bar.set_message(texts.collect::<Vec<_>>().join("\n"));
        }
    }

    /// What is shown, for another thread that has to write to the terminal in between.
    #[must_use]
    pub fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Shows a text.
    pub fn say(&self, text: &'static str) {
        self.bar.set_message(text);
    }

    /// Takes the view off the terminal.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// How far a slot has come, by its activations.
fn elapsed_ns(slot: &Slot, period_ns: u64) -> u64 {
    let interval = if slot.interval_ns == 0 {
        period_ns
    } else {
        slot.interval_ns
    };
    (slot.thread.count + slot.missed).saturating_mul(interval)
}

fn table(title: &str, elapsed_ns: u64, slots: &[Slot], width: usize) -> String {
    let time = format_elapsed(Duration::from_nanos(elapsed_ns));
    let columns = format!("{:>9} {:>9} {:>9} {:>9}", "cur", "min", "avg", "max");
    let has_user = slots.iter().any(|slot| slot.user.is_some());
    if width < WIDE + if has_user { USER } else { 0 } {
        narrow(title, &time, &columns, slots)
    } else {
        wide(title, &time, &columns, slots, has_user)
    }
}

/// rtla's.
fn wide(title: &str, time: &str, columns: &str, slots: &[Slot], has_user: bool) -> String {
    let mut out = format!("{}\n", style(format!("{title:^86}")).dim());
    // Writing to a String does not fail.
    let _ = write!(
        out,
        "{time}   |{:^40}|{:^40}",
        "IRQ Timer Latency (ns)", "Thread Timer Latency (ns)"
    );
    let mut head = format!("CPU COUNT      |{columns} |{columns}");
    if has_user {
        let _ = write!(out, " |{:^40}", "Ret user Timer Latency (ns)");
        head += &format!(" |{columns}");
    }
    let _ = write!(out, "\n{}", style(head).reverse());
    for slot in slots {
        let (count, cpu) = (count(slot), slot.cpu);
        let (irq, thread) = (cells(&slot.irq), cells(&slot.thread));
        let _ = write!(out, "\n{cpu:>3} {count:<10} |{irq} |{thread}");
        if has_user {
            let _ = write!(out, " |{}", cells(&slot.user.unwrap_or_default()));
        }
    }
    out
}

fn narrow(title: &str, time: &str, columns: &str, slots: &[Slot]) -> String {
    let mut out = format!("{}\n", style(format!("{time}   {title} (ns)")).dim());
    let head = format!("CPU COUNT      {columns}");
    // Writing to a String does not fail.
    let _ = write!(out, "{}", style(head).reverse());
    for slot in slots {
        let (count, cpu) = (count(slot), slot.cpu);
        let (irq, thread) = (cells(&slot.irq), cells(&slot.thread));
        let _ = write!(out, "\n{cpu:>3} {count:<10} {irq}\n      thread   {thread}");
        if let Some(user) = &slot.user {
            let _ = write!(out, "\n      user     {}", cells(user));
        }
    }
    out
}

fn count(slot: &Slot) -> String {
    format!("#{}", slot.thread.count)
}

fn cells(figures: &Figures) -> String {
    match figures.avg() {
        Some(avg) => format!(
            "{:>9} {:>9} {avg:>9} {:>9}",
            figures.cur, figures.min, figures.max
        ),
        None => format!("{:>9} {:>9} {:>9} {:>9}", "-", "-", "-", "-"),
    }
}

/// rtla's days and hh:mm:ss.
fn format_elapsed(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    format!(
        "{days:>3} {hours:02}:{:02}:{:02}",
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_rtlas_columns() {
        let figures = Figures {
            count: 5000,
            cur: 1135,
            min: 601,
            max: 1135,
            sum: 728 * 5000,
        };
        let none = Figures::default();
        let slot = Slot {
            index: 0,
            cpu: 0,
            prio: 95,
            tid: 9,
            interval_ns: 1_000_000,
            missed: 0,
            negative: 0,
            irq: figures,
            thread: none,
            user: None,
        };
        let drawn = |width| {
            let text = table(
                "Timer Latency",
                5_000_000_000,
                std::slice::from_ref(&slot),
                width,
            );
            console::strip_ansi_codes(&text).into_owned()
        };
        let text = drawn(WIDE);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].starts_with("  0 00:00:05   |"));
        assert_eq!(
            lines[2],
            "CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max"
        );
        assert_eq!(
            lines[3],
            "  0 #0         |     1135       601       728      1135 |        -         -         -         -"
        );
        assert!(lines.iter().all(|line| line.len() <= WIDE));

        let text = drawn(WIDE - 1);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[2..],
            [
                "  0 #0              1135       601       728      1135",
                "      thread           -         -         -         -"
            ]
        );
        assert!(lines.iter().all(|line| line.len() <= 60));

        let slot = Slot {
            user: Some(figures),
            ..slot
        };
        let drawn = |width| {
            let text = table("Timer Latency", 0, std::slice::from_ref(&slot), width);
            console::strip_ansi_codes(&text).into_owned()
        };
        let text = drawn(WIDE + USER);
        let last = text.lines().last().unwrap();
        assert!(last.ends_with("|     1135       601       728      1135"));
        assert_eq!(last.matches('|').count(), 3);
        assert!(text.lines().all(|line| line.len() <= WIDE + USER));
        assert!(drawn(WIDE).ends_with("      user          1135       601       728      1135"));
    }
}
