//! What protected tasks take, and what others pay for there being such.

use std::io::BufReader;

use anyhow::{Context, Result};
use takt_guest::Elf;
use takt_machine::counted::Plugin;
use takt_machine::counted::log::Log;
use takt_machine::run::once::Folder;
use takt_results::analysis::marks::{Mark, Marks};

use super::{Values, images, latency};

/// What the feature adds to rows of an image without it: the row's name, that of what is measured, and of the same with the feature.
const TAXES: [(&str, &str, &str); 3] = [
    (
        "tasks-tax-idle",
        "irq-latency-median-untraced",
        "irq-latency-median-tasks",
    ),
    (
        "tasks-tax-entry",
        "interrupt-entry",
        "interrupt-entry-tasks",
    ),
    (
        "tasks-tax-thread",
        "thread-latency-median-untraced",
        "thread-latency-median-tasks",
    ),
];

/// Measures behind the rows without tasks.
pub(super) fn measure(folder: &Folder, values: &mut Values) -> Result<()> {
    tell!("Calling tasks …");
    let image = crate::commands::test::with_tasks("tasks", "tests/tasks/takt.app.toml")?;
    for test in [
        "messages::calls_are_short",
        "team::calls_within_a_task_are_short",
        "measured::deadlines_reach_user_space",
        "devices::interrupts_reach_drivers",
        "talk::events_are_cheap",
        "lease::leases_are_short",
    ] {
        let words = format!("capture=off test={test}");
        let booted = folder.boot_with(&image, &words, |mut arguments| {
            // COM2, of which one has the interrupt.
            arguments.extend(["-serial", "null"].map(Into::into));
            arguments
        })?;
        values.extend(images::lines(&booted.serial)?);
    }
    for cpus in [2, 4] {
        let words = format!("capture=off cpus={cpus} test=spread::calls_between_cpus_are_measured");
        let booted = folder.boot_on(cpus, &image, &words, |arguments| arguments)?;
        values.extend(images::lines(&booted.serial)?);
    }
    let longest = end_of_budget(&image, folder)?;
    values.insert("task-budget-end".into(), longest);
    taxes(folder, values)
}

/// How many instructions the longest of the timer's interrupts takes until it returns or another thread runs, while budgets end: of a
/// task that is throttled, of one that is stopped, of one whose call ends. Counted from outside.
fn end_of_budget(image: &Elf, folder: &Folder) -> Result<u64> {
    const TESTS: &str = "budget::an_endless_loop_is_throttled,budget::an_endless_loop_is_stopped,budget::a_budget_is_lent";
    let (marks, log) = (Marks::of(image), folder.path("counted"));
    let plugin = Plugin::with_marks(marks.addresses())?;
    let line = format!("capture=off test={TESTS}");
    folder.boot_with(image, &line, |arguments| {
        plugin.added_to(arguments, &log, None)
    })?;
    let file = takt_base::input::open(&log).context("cannot read what was counted")?;
    let mut log = Log::new(BufReader::new(file))?;
    let (mut begun, mut longest) = (None, None);
    while let Some(event) = log.next_event()? {
        let mark = event.mark.and_then(|number| marks.get(number));
        match (mark.map(|(_, mark)| mark), begun) {
            (Some(Mark::Entry(latency::TIMER)), _) => begun = Some(event.at),
            (Some(Mark::Iret | Mark::Sti | Mark::Switch), Some(at)) => {
                longest = longest.max(Some(event.at - at + 1));
                begun = None;
            }
            _ => {}
        }
    }
    longest.context("no interrupt of the timer was executed")
}

/// Measures the same with the feature as without, where there is no task.
fn taxes(folder: &Folder, values: &mut Values) -> Result<()> {
    tell!("Measuring with tasks …");
    latency::with_tasks(&images::takt(&["tasks"])?, folder, values)?;
    let booted = folder.boot_counting(&images::build(images::TASKS)?, |arguments| arguments)?;
    for (name, value) in images::lines(&booted.serial)? {
        values.insert(format!("{name}-tasks"), value);
    }
    for (name, without, with) in TAXES {
        let value = |row| {
            let value = values.get(row).copied();
            value.with_context(|| format!("{row} was not measured"))
        };
        let tax = value(with)?.saturating_sub(value(without)?);
        values.insert(name.into(), tax);
    }
    Ok(())
}
