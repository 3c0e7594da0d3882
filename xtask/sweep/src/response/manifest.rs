//! [`read`]: the threads and interrupts of a manifest, `takt.app.toml`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{Interrupt, Set, Thread};
use takt_base::input;
use takt_image::tasks::manifest::Timing;

/// Nanoseconds of a microsecond.
const US: u64 = 1_000;
/// The highest priority of a thread.
const MAX_PRIORITY: u8 = 99;

/// What is read here of a manifest.
#[derive(Debug, Deserialize)]
struct File {
    #[serde(rename = "task", default)]
    tasks: Vec<Task>,
    #[serde(rename = "thread", default)]
    threads: Vec<Further>,
    #[serde(rename = "timing", default)]
    timings: Vec<Timing>,
}

#[derive(Debug, Deserialize)]
struct Task {
    name: String,
    priority: u8,
    #[serde(default)]
    cpu: u8,
    budget_us: Option<u64>,
}

/// A further thread of a task.
#[derive(Debug, Deserialize)]
struct Further {
    name: String,
    task: String,
    priority: u8,
    budget_us: Option<u64>,
}

/// Reads a manifest.
///
/// # Errors
///
/// If it cannot be read, or makes no sense.
pub fn read(path: &Path) -> Result<Set> {
    let text = input::read_to_string(path)
        .with_context(|| format!("cannot read the manifest {}", path.display()))?;
    parse(&text).with_context(|| format!("the manifest {}", path.display()))
}

/// Whether it has tasks, of which there is an image then.
///
/// # Errors
///
/// As [`read`].
pub fn has_tasks(path: &Path) -> Result<bool> {
    let text = input::read_to_string(path)
        .with_context(|| format!("cannot read the manifest {}", path.display()))?;
    let file: File =
        basic_toml::from_str(&text).with_context(|| format!("the manifest {}", path.display()))?;
    Ok(!file.tasks.is_empty())
}

fn parse(text: &str) -> Result<Set> {
    let mut file: File = basic_toml::from_str(text)?;
    for thread in std::mem::take(&mut file.threads) {
        let task = file.tasks.iter().find(|it| it.name == thread.task);
        let cpu = task
            .with_context(|| format!("there is no task `{}`", thread.task))?
            .cpu;
        file.tasks.push(Task {
            name: thread.name,
            priority: thread.priority,
            cpu,
            budget_us: thread.budget_us,
        });
    }
    if let Some(task) = file.tasks.iter().find(|it| it.budget_us.is_some()) {
        anyhow::bail!(
            "`{}` has a budget: what that takes at each switch is not in the bounds",
            task.name
        );
    }
    ensure!(
        !file.timings.is_empty(),
        "it has no [[timing]]: which thread runs how often, and for how long"
    );
    let mut set = Set::default();
    for it in &file.timings {
        match (&it.thread, &it.interrupt) {
            (Some(name), None) => set.threads.push(thread(&file.tasks, it, name)?),
            (None, Some(name)) => {
                ensure!(
                    it.priority.is_none() && it.deadline_us.is_none() && it.blocking_ns == 0,
                    "the interrupt `{name}` has a period and a wcet only"
                );
                set.interrupts.push(Interrupt {
                    name: name.clone(),
                    period: period(it, name)?,
                    wcet: wcet(it, name)?,
                    function: it.function.clone(),
                });
            }
            _ => anyhow::bail!("a [[timing]] is of a `thread` or of an `interrupt`"),
        }
    }
    for task in &file.tasks {
        ensure!(
            set.threads.iter().any(|it| it.name == task.name),
            "the task `{}` has no [[timing]]",
            task.name
        );
    }
    Ok(set)
}

fn thread(tasks: &[Task], it: &Timing, name: &str) -> Result<Thread> {
    let task = tasks.iter().find(|task| task.name == name);
    let priority = match (task, it.priority) {
        (Some(task), None) => {
            ensure!(task.cpu == 0, "`{name}` runs on another CPU than the first");
            task.priority
        }
        (None, Some(priority)) => priority,
        (Some(_), Some(_)) => anyhow::bail!("the task `{name}` has its priority already"),
        (None, None) => anyhow::bail!("`{name}` is no task: its `priority` is missing"),
    };
    ensure!(
        priority <= MAX_PRIORITY,
        "priorities go to {MAX_PRIORITY}: `{name}`"
    );
    let period = period(it, name)?;
    Ok(Thread {
        name: name.to_owned(),
        priority,
        period,
        deadline: it.deadline_us.map_or(period, |it| it.saturating_mul(US)),
        wcet: wcet(it, name)?,
        function: it.function.clone(),
        blocking: it.blocking_ns,
    })
}

/// What it takes; nothing yet where that is to be proved of its function.
fn wcet(it: &Timing, name: &str) -> Result<u64> {
    ensure!(
        it.wcet_ns.is_some() != it.function.is_some(),
        "what `{name}` takes says either `wcet_ns` or the `function` that it is"
    );
    Ok(it.wcet_ns.unwrap_or_default())
}

/// In nanoseconds, up to an hour; so sums stay below what a word holds.
fn period(it: &Timing, name: &str) -> Result<u64> {
    let most = super::FOREVER;
    let period = it.period_us.saturating_mul(US);
    ensure!(
        (1..=most).contains(&period) && it.wcet_ns <= Some(most) && it.blocking_ns <= most,
        "a period is from a microsecond to an hour, what is within it not longer: `{name}`"
    );
    Ok(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_threads_of_tasks() {
        let text = "
            [[task]]\nname = \"a\"\npackage = \"p\"\npriority = 70\nstack = 4096
            [[thread]]\nname = \"b\"\ntask = \"a\"\npriority = 30\nstack = 4096
            [[timing]]\nthread = \"a\"\nperiod_us = 1000\nwcet_ns = 900
            [[timing]]\nthread = \"b\"\nperiod_us = 500\nwcet_ns = 70
        ";
        let set = parse(text).unwrap();
        let priorities: Vec<_> = set.threads.iter().map(|it| it.priority).collect();
        assert_eq!(priorities, [70, 30]);
        let lone = text.replace("task = \"a\"", "task = \"c\"");
        assert!(
            parse(&lone)
                .unwrap_err()
                .to_string()
                .contains("no task `c`")
        );
        let silent = &text[..text.rfind("[[timing]]").unwrap()];
        assert!(
            parse(silent)
                .unwrap_err()
                .to_string()
                .contains("`b` has no [[timing]]")
        );
    }

    #[test]
    fn tasks_threads_and_interrupts() {
        let text = "
            [[task]]\nname = \"control\"\npackage = \"p\"\npriority = 70\nstack = 4096
            [[timing]]\nthread = \"control\"\nperiod_us = 1000\ndeadline_us = 500\nwcet_ns = 900
            [[timing]]\nthread = \"log\"\npriority = 20\nperiod_us = 9000\nwcet_ns = 70\nblocking_ns = 7
            [[timing]]\ninterrupt = \"uart\"\nperiod_us = 87\nwcet_ns = 300
        ";
        let set = parse(text).unwrap();
        let of = |it: &Thread| (it.priority, it.period, it.deadline, it.wcet, it.blocking);
        assert_eq!(of(&set.threads[0]), (70, 1_000_000, 500_000, 900, 0));
        assert_eq!(of(&set.threads[1]), (20, 9_000_000, 9_000_000, 70, 7));
        assert_eq!(
            (set.interrupts[0].period, set.interrupts[0].wcet),
            (87_000, 300)
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let task = "[[task]]\nname = \"a\"\npriority = 7\n";
        let timing = "\nperiod_us = 10\nwcet_ns = 5\n";
        for (text, part) in [
            (task.to_owned(), "no [[timing]]"),
            (format!("[[timing]]{timing}"), "of a `thread` or"),
            (
                format!("[[timing]]\nthread = \"b\"{timing}"),
                "`priority` is missing",
            ),
            (
                format!("{task}[[timing]]\nthread = \"a\"\npriority = 7{timing}"),
                "already",
            ),
            (
                format!("{task}[[timing]]\nthread = \"b\"\npriority = 7{timing}"),
                "`a` has no [[timing]]",
            ),
            (
                "[[timing]]\nthread = \"b\"\npriority = 7\nperiod_us = 0\nwcet_ns = 5\n".to_owned(),
                "from a microsecond",
            ),
            (
                "[[timing]]\nthread = \"b\"\npriority = 7\nperiod_us = 10\n".to_owned(),
                "either `wcet_ns` or",
            ),
            (
                format!("[[timing]]\nthread = \"b\"\npriority = 7\nfunction = \"f\"{timing}"),
                "either `wcet_ns` or",
            ),
        ] {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
