//! The rows: names, groups, the figures of other systems, our limits. Most of them stand in `rows.txt`.
//!
//! Sources of the anchors: Zephyr 3.5.0 (qemu_x86_64, one CPU, `latency_measure` and `thread_metric`), Linux
//! PREEMPT_RT 6.1.192 (timerlat tracer), the LWN article on `TRACE_EVENT`; all but the last measured in the same QEMU
//! with icount.

use super::Values;

/// Said below the table.
pub(super) const NOTES: &str = "\
Instructions are counted exactly, by QEMU's icount. A row is what lies between two readings of the TSC; the reading's
own cost, two instructions, is part of it, as the eight of Zephyr's reading are part of Zephyr's figures. For the
verdict each is taken off its side. Zephyr's anchors: Zephyr 3.5.0. Linux's: PREEMPT_RT 6.1. `thread_metric` rows are
averages over loops, one count of the test's own counters each.
";

const ROWS: &str = include_str!("rows.txt");

/// What Zephyr's figures contain for reading the time.
const ZEPHYR_READING: u64 = 8;

/// The group that has rows for each class of events besides those of the file.
const TRACING: &str = "Tracing";

/// A row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) unit: &'static str,
    pub(super) value: u64,
    pub(super) anchor: Option<u64>,
    /// Whose figure the anchor is.
    pub(super) source: &'static str,
    pub(super) must: Option<u64>,
    pub(super) aim: Option<u64>,
}

impl Row {
    pub(super) fn misses_must(&self) -> bool {
        self.must.is_some_and(|must| self.value > must)
    }

    pub(super) fn verdict(&self) -> &'static str {
        match (self.must, self.aim) {
            (None, None) => "",
            _ if self.misses_must() => "MISSED",
            (_, Some(aim)) if self.value > aim => "above the aim",
            _ => "ok",
        }
    }
}

/// All rows that were measured.
pub(super) fn rows(values: &Values) -> Vec<Row> {
    let own = values.get("own-cost").copied().unwrap_or_default();
    let mut rows = Vec::new();
    let mut group = ["", "", ""];
    for line in ROWS.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            group = cells(heading);
            if group[0] == TRACING {
                rows.extend(class_rows(values));
            }
        } else if !line.starts_with('#') && !line.is_empty() {
            rows.extend(row(group, line, values, own));
        }
    }
    rows
}

fn cells<const N: usize>(line: &'static str) -> [&'static str; N] {
    let mut cells = line.split(" | ");
    std::array::from_fn(|_| cells.next().unwrap_or_default())
}

/// A row of the file, if it was measured.
fn row(group: [&'static str; 3], line: &'static str, values: &Values, own: u64) -> Option<Row> {
    let [group, unit, source] = group;
    let [name, title, anchor, must, aim] = cells(line);
    let anchor = anchor.parse().ok();
    let must = match must {
        // Each side without its cost of reading the time.
        "zephyr" => anchor.map(|anchor: u64| anchor - ZEPHYR_READING + own),
        "average" => anchor,
        _ => limit(must, values),
    };
    Some(Row {
        group,
        name: name.into(),
        title: title.into(),
        unit,
        value: *values.get(name)?,
        anchor,
        source,
        must,
        aim: limit(aim, values),
    })
}

/// A number, or what may come on top of another row's figure.
fn limit(cell: &str, values: &Values) -> Option<u64> {
    match cell.split_once(" + ") {
        Some((row, more)) => Some(values.get(row)? + more.parse::<u64>().ok()?),
        None => cell.parse().ok(),
    }
}

/// No class of Takt's own: it shows what an application pays that puts a number before its text.
const WITHOUT_LIMIT: &str = "text_one";

/// The classes, and the bytes of their records as aimed at.
const CLASSES: [(&str, &str, u64); 18] = [
    ("switch", "sched_switch", 8),
    ("vector", "irq_handler", 8),
    ("one_thread", "one thread", 8),
    ("one_timer", "one timer", 12),
    ("place", "a place in the code", 12),
    ("one_mutex", "one mutex", 12),
    ("wakeup", "sched_wakeup", 12),
    ("timer_deadline", "timer and deadline", 12),
    ("far_deadline", "timer and deadline far away", 16),
    ("contended", "mutex_contended", 16),
    ("prio", "prio_change", 12),
    ("two", "two arguments, 16-bit id", 16),
    ("two_known", "two arguments, interrupts known to be on", 16),
    ("sample", "timerlat's samples", 16),
    ("text", "marker of 16 bytes", 28),
    ("create", "thread_create", 12),
    ("name", "thread_name of 4 bytes", 16),
    (
        WITHOUT_LIMIT,
        "a number and a text of 4 bytes, 16-bit id",
        20,
    ),
];

/// Cost and size of an event of each class, and of one that is off.
fn class_rows(values: &Values) -> Vec<Row> {
    let mut rows = Vec::new();
    for (class, title, size) in CLASSES {
        let (limits, worst) = if class == WITHOUT_LIMIT {
            ((None, None), (None, None))
        } else {
            ((Some(40), Some(25)), (Some(200), Some(120)))
        };
        let kinds = [
            ("event", "recorded", "insn", limits),
            (
                "event-worst",
                "recorded into a new sub-buffer",
                "insn",
                worst,
            ),
            ("event-off", "off", "insn", (Some(1), Some(1))),
            ("event-bytes", "bytes", "B", (None, Some(size))),
        ];
        for (prefix, what, unit, (must, aim)) in kinds {
            let name = format!("{prefix}-{class}");
            rows.extend(values.get(&name).map(|value| Row {
                group: TRACING,
                title: format!("{title}: {what}"),
                unit,
                value: *value,
                anchor: None,
                source: "",
                must,
                aim,
                name,
            }));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(values: &[(&str, u64)]) -> Vec<Row> {
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        rows(&values.collect())
    }

    #[test]
    fn each_side_is_taken_without_its_reading() {
        let rows = measured(&[("own-cost", 2), ("mutex-lock", 32), ("metric-message", 204)]);
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(row("mutex-lock").must, Some(32));
        assert_eq!(row("mutex-lock").verdict(), "above the aim");
        assert_eq!(row("metric-message").must, Some(203));
        assert!(row("metric-message").misses_must());
        assert_eq!(row("own-cost").verdict(), "");
    }

    #[test]
    fn a_limit_is_what_comes_on_top_of_another_row() {
        let (busy, kernel) = ("task-deadline-busy", "task-deadline-busy-kernel");
        let of = |value| measured(&[(busy, value), (kernel, 193)]);
        let row = |value| of(value).into_iter().find(|row| row.name == busy).unwrap();
        assert_eq!((row(208).must, row(208).aim), (Some(208), Some(203)));
        assert!(!row(208).misses_must() && row(209).misses_must());
        assert_eq!(measured(&[(busy, 300)])[0].must, None);
    }

    #[test]
    fn the_file_is_sound() {
        let lines: Vec<_> = ROWS
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .collect();
        let mut names: Vec<_> = lines.iter().map(|line| cells::<5>(line)[0]).collect();
        let all: Vec<_> = names.iter().map(|name| (*name, 1)).collect();
        assert_eq!(measured(&all).len(), lines.len());
        for line in &lines {
            assert_eq!(line.split(" | ").count(), 5, "{line}");
            for cell in cells::<5>(line)[3..].iter().filter(|it| it.contains('+')) {
                let (row, _) = cell.split_once(" + ").unwrap();
                assert!(all.contains(&(row, 1)), "{line}");
            }
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), lines.len(), "a name stands there twice");
    }
}
