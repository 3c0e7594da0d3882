//! What protected tasks take, and what others pay for there being such.

use anyhow::{Context, Result};
use takt_machine::run::once::Folder;

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
        "budget::the_end_of_a_budget_is_bounded",
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
    taxes(folder, values)
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
