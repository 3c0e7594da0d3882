//! Semaphores that tasks share.

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::check_name;

/// As the kernel counts permits.
const MAX_PERMITS: u32 = i32::MAX as u32;
/// Of one task.
const MAX_SEMAPHORES: usize = 16;

/// A semaphore.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Semaphore {
    /// What its tasks call it.
    pub name: String,
    /// Permits that it begins with.
    #[serde(default)]
    pub initial: u32,
    /// Permits that it has at most.
    pub maximum: u32,
}

/// A task's handle of one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Granted {
    /// Its name.
    pub name: String,
    /// What it allows.
    pub rights: Vec<Right>,
}

/// What such a handle allows.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// To take permits, and to wait for them.
    Take,
    /// To give permits.
    Give,
}

impl Semaphore {
    /// Looks whether it makes sense; the others are those above it. An error comes with the key that it is about.
    pub(super) fn check(&self, others: &[Self]) -> Result<(), (&'static str, anyhow::Error)> {
        let names = others.iter().map(|it| &it.name);
        check_name("semaphore", &self.name, "-_", names).map_err(|error| ("name", error))?;
        self.check_maximum().map_err(|error| ("maximum", error))?;
        self.check_initial().map_err(|error| ("initial", error))
    }

    fn check_maximum(&self) -> Result<()> {
        ensure!(
            (1..=MAX_PERMITS).contains(&self.maximum),
            "a semaphore has from one permit to {MAX_PERMITS} at most"
        );
        Ok(())
    }

    fn check_initial(&self) -> Result<()> {
        ensure!(
            self.initial <= self.maximum,
            "a semaphore begins with {} permits at most, its maximum",
            self.maximum
        );
        Ok(())
    }
}

/// Looks whether a task can have these, of all that there are.
pub(super) fn check_granted(granted: &[Granted], all: &[Semaphore]) -> Result<()> {
    ensure!(
        granted.len() <= MAX_SEMAPHORES,
        "more than {MAX_SEMAPHORES} semaphores"
    );
    for (number, it) in granted.iter().enumerate() {
        let name = &it.name;
        ensure!(
            all.iter().any(|other| other.name == *name),
            "there is no semaphore `{name}`"
        );
        let mut before = granted[..number].iter();
        ensure!(
            before.all(|other| other.name != *name),
            "it has `{name}` twice"
        );
        ensure!(
            !it.rights.is_empty(),
            "the handle of `{name}` allows nothing"
        );
    }
    Ok(())
}
