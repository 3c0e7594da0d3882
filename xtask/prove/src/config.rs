//! [`Config`]: what is known of a system besides its image.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use crate::image::Image;

/// What is known of a system besides its image. By default all is allowed, but that static keys are off as in the file.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Any static key of which nothing is said may be on or off at any time.
    pub any_keys: bool,
    /// How many CPUs run, if that is said.
    cpus: Option<u32>,
    /// By name.
    settings: BTreeMap<String, Setting>,
}

/// What the number of CPUs is called.
const CPUS: &str = "cpus";

/// What is said of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// It is never so.
    Off,
    /// It is always so: a static key.
    On,
    /// It may be so at any time.
    Any,
    /// It happens so often in a stretch at most.
    Most(u32),
}

impl Config {
    /// With each of these, `WHAT=VALUE`: what a mark says that it counts or what a part of the kernel is for, or a static key by
    /// its path in Rust or, behind a `#`, by its number, which an event's id is.
    ///
    /// # Errors
    ///
    /// If it is no such text.
    pub fn new(any_keys: bool, words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut settings = BTreeMap::new();
        let mut cpus = None;
        for word in words {
            let (what, value) = word
                .rsplit_once('=')
                .with_context(|| format!("{word}: WHAT=VALUE is meant"))?;
            let setting = match value {
                "off" => Setting::Off,
                "on" => Setting::On,
                "any" => Setting::Any,
                nr => Setting::Most(nr.parse().with_context(|| {
                    format!("{word}: off, on, any or a number is meant behind the sign")
                })?),
            };
            match (what, setting) {
                (CPUS, Setting::Most(nr @ 1..)) => cpus = Some(nr),
                (CPUS, _) => bail!("{word}: a number of CPUs is meant behind the sign"),
                _ => _ = settings.insert(what.to_owned(), setting),
            }
        }
        Ok(Self {
            any_keys,
            cpus,
            settings,
        })
    }

    /// How many CPUs run at most.
    pub(crate) fn cpus(&self) -> u32 {
        self.cpus.unwrap_or(1)
    }

    /// Whether anything is known: then a loop may be none.
    pub(crate) fn says_something(&self) -> bool {
        !self.settings.is_empty()
    }

    /// How often at most what is counted by that text happens, if that is known.
    pub(crate) fn most(&self, counts: &str) -> Option<u32> {
        match self.settings.get(counts)? {
            Setting::Most(nr) => Some(*nr),
            Setting::Off => Some(0),
            Setting::On | Setting::Any => None,
        }
    }

    /// Whether nobody comes to what is only for that.
    pub(crate) fn is_without(&self, part: &str) -> bool {
        self.settings.get(part) == Some(&Setting::Off)
    }

    /// What static keys are of which something is said, by their numbers.
    pub(crate) fn keys(&self, image: &Image) -> BTreeMap<u16, Setting> {
        let known = self.settings.iter();
        known
            .filter_map(|(name, it)| Some((key(image, name)?, *it)))
            .collect()
    }

    /// Whether a static key may be on.
    pub(crate) fn may_be_on(&self, image: &Image, name: &str) -> bool {
        let known = key(image, name).and_then(|it| self.keys(image).get(&it).copied());
        known.map_or(self.any_keys, |it| it != Setting::Off)
    }

    /// That each setting speaks of something: `known` are the texts of marks, with whether they count.
    pub(crate) fn check(&self, image: &Image, known: &BTreeMap<String, bool>) -> Result<()> {
        for (name, setting) in &self.settings {
            let Some(counts) = known.get(name) else {
                let keys = image.keys();
                let is_key = key(image, name)
                    .is_some_and(|it| name.starts_with('#') || keys.contains_key(&it.into()));
                ensure!(
                    is_key,
                    "the image has nothing of the name {name:?}: there is {CPUS:?}; {}; of static keys {}",
                    listed(known.keys()),
                    listed(keys.values())
                );
                if matches!(setting, Setting::Most(_)) {
                    bail!("{name:?} is a static key: off, on or any");
                }
                continue;
            };
            match setting {
                Setting::On => bail!("{name:?} cannot be always so: off, any or a number is meant"),
                Setting::Most(_) if !counts => {
                    bail!("{name:?} does not count: off or any is meant")
                }
                Setting::Most(_) | Setting::Off | Setting::Any => {}
            }
        }
        Ok(())
    }
}

fn listed<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let quoted: Vec<_> = names.map(|it| format!("{it:?}")).collect();
    quoted.join(", ")
}

/// A static key's number.
fn key(image: &Image, name: &str) -> Option<u16> {
    match name.strip_prefix('#') {
        Some(number) => number.parse().ok(),
        None => image.symbol_of(name).map(|it| it as u16),
    }
}
