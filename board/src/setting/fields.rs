//! [`Fields`]: values that are several.

use takt_tracer::rules::Action;

use super::values::decimal;
use super::{Errno, EventTrigger, Setting, Words};

/// The fields of a value that has several: separated by commas, the last one with whatever is in it.
pub(super) struct Fields<'a>(pub(super) &'a str);

impl<'a> Fields<'a> {
    fn word(&mut self) -> Result<&'a str, Errno> {
        let (word, rest) = self.0.split_once(',').ok_or(Errno::Invalid)?;
        self.0 = rest;
        Ok(word)
    }

    fn number(&mut self) -> Result<u32, Errno> {
        decimal(self.word()?).ok_or(Errno::Invalid)
    }

    /// Of `program`.
    pub(super) fn program(mut self) -> Result<Setting<'a>, Errno> {
        Ok(Setting::Program {
            at: self.number()? as usize,
            words: Words::parse(self.0)?,
        })
    }

    /// Of `event_filter`.
    pub(super) fn filter(mut self) -> Result<Setting<'a>, Errno> {
        Ok(Setting::EventFilter {
            event: self.number()?,
            len: self.number()? as usize,
            text: self.0,
        })
    }

    /// Of `event_trigger`.
    pub(super) fn trigger(mut self) -> Result<Setting<'a>, Errno> {
        let event = self.number()?;
        let action = Action::from_name(self.word()?).ok_or(Errno::Invalid)?;
        let count = match self.word()? {
            "-" => None,
            count => Some(decimal(count).ok_or(Errno::Invalid)?),
        };
        Ok(Setting::EventTrigger(EventTrigger {
            event,
            action,
            count,
            nr_spec: self.number()? as usize,
            nr_condition: self.number()? as usize,
            text: self.0,
        }))
    }

    /// Of `event_trigger_off`.
    pub(super) fn trigger_off(mut self) -> Result<Setting<'a>, Errno> {
        Ok(Setting::EventTriggerOff {
            event: self.number()?,
            place: decimal(self.0).ok_or(Errno::Invalid)? as usize,
        })
    }
}
