//! Memory that tasks share.

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::{PAGE, check_name};

/// A region.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// What its tasks call it.
    pub name: String,
    /// Bytes: whole pages.
    pub size: u64,
    /// Whose it is.
    pub tasks: Vec<Share>,
}

/// What a task may do with a region.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The task.
    pub task: String,
    /// What it may do.
    pub access: Access,
}

/// What may be done with memory.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Read.
    Read,
    /// Read and write.
    Write,
}

/// Memory that a task has besides its own.
#[derive(Debug)]
pub(in crate::tasks) struct Mapped {
    /// By which it finds address and size.
    pub(in crate::tasks) name: String,
    /// Where the task has it.
    pub(in crate::tasks) at: u64,
    /// Bytes.
    pub(in crate::tasks) size: u64,
    /// What it is.
    pub(in crate::tasks) source: Source,
}

/// What is mapped.
#[derive(Debug)]
pub(in crate::tasks) enum Source {
    /// The region of this number, to be written to or not.
    Region(usize, bool),
    /// A device's memory, from this address on.
    Device(u64),
}

impl Region {
    /// Looks whether it can be shared; the others are those above it. An error comes with the key that it is about.
    pub(super) fn check(
        &self,
        others: &[Self],
        is_task: impl Fn(&str) -> bool,
    ) -> Result<(), (&'static str, anyhow::Error)> {
        let names = others.iter().map(|it| &it.name);
        check_name("region", &self.name, "_", names).map_err(|error| ("name", error))?;
        self.check_size().map_err(|error| ("size", error))?;
        self.check_tasks(is_task).map_err(|error| ("tasks", error))
    }

    fn check_size(&self) -> Result<()> {
        ensure!(
            self.size != 0 && self.size.is_multiple_of(PAGE),
            "a region is whole pages of {PAGE} bytes"
        );
        Ok(())
    }

    fn check_tasks(&self, is_task: impl Fn(&str) -> bool) -> Result<()> {
        for (number, share) in self.tasks.iter().enumerate() {
            let name = &share.task;
            ensure!(is_task(name), "there is no task `{name}`");
            let mut before = self.tasks[..number].iter();
            ensure!(before.all(|it| it.task != *name), "`{name}` has it twice");
        }
        Ok(())
    }

    /// What of it a task is to have, at no address yet; `number` is its own.
    pub(super) fn mapped(&self, number: usize, task: &str) -> Option<Mapped> {
        let share = self.tasks.iter().find(|it| it.task == task)?;
        Some(Mapped {
            name: format!("region_{}", self.name),
            at: 0,
            size: self.size,
            source: Source::Region(number, share.access == Access::Write),
        })
    }
}
