//! The rows: names, groups, the figures of other systems, our limits.
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

/// What Zephyr's figures contain for reading the time.
const ZEPHYR_READING: u64 = 8;

/// What a row's limit is measured by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Must {
    /// Nothing.
    None,
    /// This number.
    AtMost(u64),
    /// The anchor, each side without its cost of reading the time.
    Zephyr,
    /// The anchor as it is: averages contain no reading.
    Average,
}

/// A row before it is measured.
struct Spec(&'static str, &'static str, Option<u64>, Must, Option<u64>);

/// A row.
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) unit: &'static str,
    pub(super) value: u64,
    pub(super) anchor: Option<u64>,
    pub(super) anchor_note: &'static str,
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
            (_, Some(aim)) if self.value > aim => "ok, above the aim",
            _ => "ok",
        }
    }
}

/// A group of rows, its unit and where its anchors come from.
type Group = (&'static str, &'static str, &'static str, &'static [Spec]);

const LATENCY: &[Spec] = &[
    Spec(
        "irq-latency-min",
        "IRQ latency, minimum",
        Some(584),
        Must::None,
        None,
    ),
    Spec(
        "irq-latency-median",
        "IRQ latency, median",
        Some(726),
        Must::AtMost(20),
        Some(10),
    ),
    Spec(
        "irq-latency-max",
        "IRQ latency, maximum",
        Some(787),
        Must::AtMost(100),
        Some(50),
    ),
    Spec(
        "thread-latency-min",
        "thread latency, minimum",
        Some(4_117),
        Must::None,
        None,
    ),
    Spec(
        "thread-latency-median",
        "thread latency, median",
        Some(4_277),
        Must::AtMost(220),
        Some(150),
    ),
    Spec(
        "thread-latency-max",
        "thread latency, maximum",
        Some(5_517),
        Must::AtMost(280),
        Some(200),
    ),
    Spec(
        "irq-latency-min-untraced",
        "IRQ latency, minimum, tracing off",
        None,
        Must::None,
        None,
    ),
    Spec(
        "irq-latency-median-untraced",
        "IRQ latency, median, tracing off",
        None,
        Must::None,
        Some(10),
    ),
    Spec(
        "irq-latency-max-untraced",
        "IRQ latency, maximum, tracing off",
        None,
        Must::None,
        Some(50),
    ),
    Spec(
        "thread-latency-min-untraced",
        "thread latency, minimum, tracing off",
        None,
        Must::None,
        None,
    ),
    Spec(
        "thread-latency-median-untraced",
        "thread latency, median, tracing off",
        None,
        Must::None,
        Some(110),
    ),
    Spec(
        "thread-latency-max-untraced",
        "thread latency, maximum, tracing off",
        None,
        Must::None,
        Some(200),
    ),
];

const PRIMITIVES: &[Spec] = &[
    Spec(
        "own-cost",
        "reading the time",
        Some(ZEPHYR_READING),
        Must::None,
        None,
    ),
    Spec(
        "yield",
        "yield to an equal thread",
        Some(87),
        Must::Zephyr,
        Some(45),
    ),
    Spec(
        "cooperative-switch",
        "cooperative switch, average",
        Some(102),
        Must::Average,
        Some(45),
    ),
    Spec(
        "interrupt-to-same",
        "interrupt handler's end to the interrupted thread",
        Some(57),
        Must::Zephyr,
        Some(45),
    ),
    Spec(
        "interrupt-to-other",
        "interrupt handler's end to another thread",
        Some(79),
        Must::Zephyr,
        Some(60),
    ),
    Spec(
        "interrupt-entry",
        "thread to interrupt handler",
        None,
        Must::None,
        None,
    ),
    Spec(
        "thread-create",
        "thread create",
        Some(82),
        Must::Zephyr,
        Some(60),
    ),
    Spec(
        "thread-start",
        "thread start",
        Some(125),
        Must::Zephyr,
        Some(60),
    ),
    Spec(
        "thread-suspend",
        "suspend",
        Some(114),
        Must::Zephyr,
        Some(60),
    ),
    Spec("thread-resume", "resume", Some(118), Must::Zephyr, Some(60)),
    Spec(
        "semaphore-give",
        "semaphore give, no switch",
        Some(45),
        Must::Zephyr,
        Some(15),
    ),
    Spec(
        "semaphore-take",
        "semaphore take, no switch",
        Some(19),
        Must::Zephyr,
        Some(10),
    ),
    Spec(
        "semaphore-take-switch",
        "semaphore take, with switch",
        Some(124),
        Must::Zephyr,
        Some(70),
    ),
    Spec(
        "semaphore-give-switch",
        "semaphore give, with switch",
        Some(174),
        Must::Zephyr,
        Some(80),
    ),
    Spec(
        "mutex-lock",
        "mutex lock, uncontended",
        Some(38),
        Must::Zephyr,
        Some(10),
    ),
    Spec(
        "mutex-unlock",
        "mutex unlock, uncontended",
        Some(23),
        Must::Zephyr,
        Some(10),
    ),
    Spec(
        "mutex-lock-contended",
        "mutex lock, contended: the owner inherits and runs",
        None,
        Must::None,
        None,
    ),
    Spec(
        "mutex-unlock-contended",
        "mutex unlock, contended: the waiter runs",
        None,
        Must::None,
        None,
    ),
    Spec(
        "queue-send",
        "queue send, 16 bytes, no switch",
        None,
        Must::None,
        None,
    ),
    Spec(
        "queue-receive",
        "queue receive, 16 bytes, no switch",
        None,
        Must::None,
        None,
    ),
    Spec(
        "queue-send-switch",
        "queue send, with switch to the receiver",
        None,
        Must::None,
        None,
    ),
    Spec(
        "queue-receive-switch",
        "queue receive, with switch",
        None,
        Must::None,
        None,
    ),
];

const METRIC: &[Spec] = &[
    Spec(
        "metric-cooperative",
        "cooperative",
        Some(112),
        Must::Average,
        Some(60),
    ),
    Spec(
        "metric-preemptive",
        "preemptive",
        Some(184),
        Must::Average,
        Some(90),
    ),
    Spec(
        "metric-interrupt",
        "interrupt processing",
        Some(171),
        Must::Average,
        Some(100),
    ),
    Spec(
        "metric-interrupt-preemption",
        "interrupt preemption",
        Some(287),
        Must::Average,
        Some(150),
    ),
    Spec(
        "metric-message",
        "message",
        Some(203),
        Must::Average,
        Some(80),
    ),
    Spec(
        "metric-synchronisation",
        "synchronisation",
        Some(75),
        Must::Average,
        Some(25),
    ),
];

const SCALING: &[Spec] = &[
    Spec(
        "pick-1",
        "yield, 1 thread to pick from",
        None,
        Must::None,
        None,
    ),
    Spec(
        "pick-10",
        "yield, 10 threads to pick from",
        None,
        Must::None,
        None,
    ),
    Spec(
        "pick-100",
        "yield, 100 threads to pick from",
        None,
        Must::None,
        None,
    ),
    Spec(
        "pick-250",
        "yield, 250 threads to pick from",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-insert-1",
        "timer armed, 1 armed with it",
        None,
        Must::None,
        None,
    ),
    Spec("timer-insert-10", "timer armed, 10", None, Must::None, None),
    Spec(
        "timer-insert-100",
        "timer armed, 100",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-insert-1000",
        "timer armed, 1,000",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-cancel-1",
        "timer cancelled, 1 armed with it",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-cancel-10",
        "timer cancelled, 10",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-cancel-100",
        "timer cancelled, 100",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-cancel-1000",
        "timer cancelled, 1,000",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-expire-1",
        "timer's interrupt to its function, 1 armed with it",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-expire-10",
        "timer's interrupt to its function, 10",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-expire-100",
        "timer's interrupt to its function, 100",
        None,
        Must::None,
        None,
    ),
    Spec(
        "timer-expire-1000",
        "timer's interrupt to its function, 1,000",
        None,
        Must::None,
        None,
    ),
];

/// The classes, their records' bytes as aimed at, and whether they copy a text, for which there is no limit.
const CLASSES: [(&str, &str, u64, bool); 13] = [
    ("switch", "sched_switch", 8, false),
    ("vector", "irq_handler", 8, false),
    ("one_thread", "one thread", 8, false),
    ("one_timer", "one timer", 12, false),
    ("place", "a place in the code", 12, false),
    ("one_mutex", "one mutex", 12, false),
    ("wakeup", "sched_wakeup", 12, false),
    ("timer_deadline", "timer and deadline", 20, false),
    ("contended", "mutex_contended", 16, false),
    ("prio", "prio_change", 20, false),
    ("two", "two arguments, 16-bit id", 16, false),
    ("text", "a text of 16 bytes", 28, true),
    ("create", "thread_create with its name", 24, true),
];

const TRACING: &[Spec] = &[Spec(
    "yield-traced-adds",
    "sched_switch recorded: adds to a yield",
    Some(1_177),
    Must::None,
    Some(40),
)];

const FOOTPRINT: &[Spec] = &[
    Spec(
        "footprint-0-loaded",
        "no event, loaded",
        None,
        Must::None,
        None,
    ),
    Spec("footprint-0-text", "no event, text", None, Must::None, None),
    Spec("footprint-0-data", "no event, data", None, Must::None, None),
    Spec("footprint-0-bss", "no event, bss", None, Must::None, None),
    Spec(
        "footprint-1-loaded",
        "1 event, loaded",
        None,
        Must::None,
        None,
    ),
    Spec("footprint-1-text", "1 event, text", None, Must::None, None),
    Spec(
        "footprint-100-shared-loaded",
        "100 events of one class, loaded",
        None,
        Must::None,
        None,
    ),
    Spec(
        "footprint-100-shared-text",
        "100 events of one class, text",
        None,
        Must::None,
        None,
    ),
    Spec(
        "footprint-200-shared-loaded",
        "200 events of one class, loaded",
        None,
        Must::None,
        None,
    ),
    Spec(
        "footprint-200-shared-text",
        "200 events of one class, text",
        None,
        Must::None,
        None,
    ),
    Spec(
        "footprint-200-shared-data",
        "200 events of one class, data",
        None,
        Must::None,
        None,
    ),
    Spec(
        "footprint-200-shared-bss",
        "200 events of one class, bss",
        None,
        Must::None,
        None,
    ),
    Spec(
        "footprint-100-own-loaded",
        "100 events, each with a class, loaded",
        None,
        Must::None,
        None,
    ),
    Spec(
        "footprint-200-own-loaded",
        "200 events, each with a class, loaded",
        None,
        Must::None,
        None,
    ),
    Spec(
        "footprint-200-own-text",
        "200 events, each with a class, text",
        None,
        Must::None,
        None,
    ),
    Spec(
        "footprint-per-event-shared",
        "each further event of a class",
        Some(1_800),
        Must::AtMost(64),
        Some(40),
    ),
    Spec(
        "footprint-per-event-own",
        "each further event with a class",
        None,
        Must::None,
        None,
    ),
];

const IMAGES: &[Spec] = &[
    Spec(
        "image-minimal-code",
        "smallest useful image, text + rodata",
        Some(11_957),
        Must::None,
        Some(10_000),
    ),
    Spec(
        "image-minimal-text",
        "smallest useful image, text",
        None,
        Must::None,
        None,
    ),
    Spec(
        "image-minimal-rodata",
        "smallest useful image, rodata",
        None,
        Must::None,
        None,
    ),
    Spec(
        "image-minimal-data",
        "smallest useful image, data",
        None,
        Must::None,
        None,
    ),
    Spec(
        "image-minimal-bss",
        "smallest useful image, bss",
        None,
        Must::None,
        None,
    ),
    Spec(
        "image-full-text",
        "full image, text",
        None,
        Must::None,
        None,
    ),
    Spec(
        "image-full-rodata",
        "full image, rodata",
        None,
        Must::None,
        None,
    ),
    Spec(
        "image-full-data",
        "full image, data",
        None,
        Must::None,
        None,
    ),
    Spec("image-full-bss", "full image, bss", None, Must::None, None),
];

const BOOT: &[Spec] = &[
    Spec(
        "boot-kernel",
        "first Rust code to the first thread",
        None,
        Must::None,
        None,
    ),
    Spec(
        "boot-reset",
        "reset to the first thread, firmware included",
        Some(1_680_000_000),
        Must::None,
        None,
    ),
];

const GROUPS: [Group; 8] = [
    (
        "Latency of the idle system, timerlat's events recorded",
        "insn",
        " Linux",
        LATENCY,
    ),
    ("Kernel primitives", "insn", " Zephyr", PRIMITIVES),
    ("thread_metric, for one count", "insn", " Zephyr", METRIC),
    ("Many threads, many timers", "insn", "", SCALING),
    ("Tracing", "insn", " Zephyr", TRACING),
    ("Footprint of events", "B", " LWN", FOOTPRINT),
    ("Images", "B", " Zephyr", IMAGES),
    ("Boot", "insn", " Linux", BOOT),
];

/// All rows that were measured.
pub(super) fn rows(values: &Values) -> Vec<Row> {
    let own = values.get("own-cost").copied().unwrap_or_default();
    let mut rows = Vec::new();
    for (group, unit, note, specs) in GROUPS {
        if group == "Tracing" {
            rows.extend(class_rows(group, values));
        }
        for Spec(name, title, anchor, must, aim) in specs {
            let Some(value) = values.get(*name).copied() else {
                continue;
            };
            let must = match (*must, *anchor) {
                (Must::AtMost(limit), _) => Some(limit),
                (Must::Zephyr, Some(anchor)) => Some(anchor - ZEPHYR_READING + own),
                (Must::Average, anchor) => anchor,
                _ => None,
            };
            rows.push(Row {
                group,
                name: (*name).into(),
                title: (*title).into(),
                unit,
                value,
                anchor: *anchor,
                anchor_note: if anchor.is_some() { note } else { "" },
                must,
                aim: *aim,
            });
        }
    }
    rows
}

/// Cost and size of an event of each class, and of one that is off.
fn class_rows(group: &'static str, values: &Values) -> Vec<Row> {
    let mut rows = Vec::new();
    for (class, title, size, has_text) in CLASSES {
        let kinds = [
            ("event", "recorded", "insn", Some(40), Some(25)),
            (
                "event-worst",
                "recorded into a new sub-buffer",
                "insn",
                None,
                None,
            ),
            ("event-off", "off", "insn", Some(1), Some(1)),
            ("event-bytes", "bytes", "B", None, Some(size)),
        ];
        for (prefix, what, unit, must, aim) in kinds {
            let name = format!("{prefix}-{class}");
            let is_limited = !(has_text && prefix == "event");
            rows.extend(values.get(&name).map(|value| Row {
                group,
                title: format!("{title}: {what}"),
                unit,
                value: *value,
                anchor: None,
                anchor_note: "",
                must: must.filter(|_| is_limited),
                aim: aim.filter(|_| is_limited),
                name,
            }));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_taken_without_its_reading() {
        let values = [("own-cost", 2), ("yield", 81), ("metric-message", 203)];
        let values = values.map(|(name, value)| (name.to_owned(), value));
        let rows = rows(&Values::from(values));
        let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!(row("yield").must, Some(81));
        assert_eq!(row("yield").verdict(), "ok, above the aim");
        assert_eq!(row("metric-message").must, Some(203));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = GROUPS
            .iter()
            .flat_map(|group| group.3)
            .map(|spec| spec.0)
            .collect();
        let nr = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), nr);
    }
}
