//! Triggers as ftrace writes them: `traceoff:3 if prio < 10`, `enable_event:sched:sched_switch:1`,
//! `hist:keys=common_pid:vals=latency:sort=latency`.
//!
//! ```text
//!  text ──parse──> Trigger ──bind──> BoundTrigger: the words for the target, and how a histogram is shown
//! ```

use super::error::FilterError;
use takt_tracer::rules::Action;

mod bind;
mod hist;

pub use bind::{BoundTrigger, Quantity, condition};
pub use hist::{Command, HITCOUNT, Hist, Key};

/// A trigger, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// What it does.
    pub action: Action,
    /// How often at most.
    pub count: Option<u64>,
    /// The event that it switches, `system:name`, and where that stands in the text.
    pub other: Option<(usize, String)>,
    /// What a histogram is made of.
    pub hist: Option<Hist>,
    /// What has to hold, and where it begins in the text.
    pub condition: Option<(usize, String)>,
}

impl Trigger {
    /// Reads a trigger, without a `!` before it.
    ///
    /// # Errors
    /// [`FilterError`] with the place, if it cannot be understood.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        // What is missing at the end has its place there.
        let inside = |error: FilterError| FilterError::new(error.at.min(text.len()), error.reason);
        Self::read(text).map_err(inside)
    }

    fn read(text: &str) -> Result<Self, FilterError> {
        let (head, condition) = match text.find(" if ") {
            Some(at) => {
                let begin = at + " if ".len();
                let condition = &text[begin..];
                let skipped = condition.len() - condition.trim_start().len();
                (
                    &text[..at],
                    Some((begin + skipped, condition.trim().to_owned())),
                )
            }
            None => (text, None),
        };
        let head_at = head.len() - head.trim_start().len();
        let head = head.trim();
        let (name, rest) = head.split_once(':').unwrap_or((head, ""));
        let rest_at = head_at + name.len() + 1;
        let action = Action::from_name(name).ok_or_else(|| {
            let names: Vec<_> = Action::ALL.iter().map(|(_, name)| *name).collect();
            let reason = format!("there is no trigger `{name}`, but {}", names.join(", "));
            FilterError::new(head_at, reason)
        })?;
        let (mut other, mut hist, mut times) = (None, None, None);
        if action == Action::Hist {
            hist = Some(Hist::parse(rest, rest_at)?);
        } else if action.is_about_event() {
            let colons: Vec<_> = rest.match_indices(':').map(|(at, _)| at).collect();
            let &[first, ref further @ ..] = &*colons else {
                let reason = format!("an event is missing: {name}:SYSTEM:EVENT");
                return Err(FilterError::new(rest_at, reason));
            };
            let end = further.first().copied().unwrap_or(rest.len());
            if first == 0 || first + 1 == end {
                let reason = "an event has a system and a name: SYSTEM:EVENT";
                return Err(FilterError::new(rest_at, reason));
            }
            other = Some((rest_at, rest[..end].to_owned()));
            if let Some(text) = rest.get(end + 1..) {
                times = count(text, rest_at + end + 1)?;
            }
        } else if head.contains(':') {
            times = count(rest, rest_at)?;
        }
        Ok(Self {
            action,
            count: times,
            other,
            hist,
            condition,
        })
    }

    /// How ftrace shows it, with so many times left.
    #[must_use]
    pub fn text(&self, left: Option<u64>) -> String {
        let name = self.action.name();
        let condition = self.condition.as_ref();
        let condition = condition.map_or_else(String::new, |(_, text)| format!(" if {text}"));
        if let Some(hist) = &self.hist {
            let state = if left == Some(0) { "paused" } else { "active" };
            return format!("{name}:{}{condition} [{state}]", hist.text());
        }
        let other = self.other.as_ref();
        let other = other.map_or_else(String::new, |(_, other)| format!("{other}:"));
        match left {
            None => format!("{name}:{other}unlimited{condition}"),
            Some(left) => format!("{name}:{other}count={left}{condition}"),
        }
    }

    /// Whether the other one is the same, so that there cannot be both and one takes the other away: count and condition do
    /// not matter. There may be one for each event that is switched. Of histograms there may be several that differ in keys, values, order or condition, as in Linux.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let condition = |trigger: &Self| {
            let condition = trigger.condition.as_ref();
            condition.map(|(_, text)| text.clone())
        };
        let event = |trigger: &Self| trigger.other.as_ref().map(|(_, event)| event.clone());
        self.action == other.action
            && event(self) == event(other)
            && match (&self.hist, &other.hist) {
                (Some(hist), Some(of)) => hist.is_like(of) && condition(self) == condition(other),
                _ => true,
            }
    }

    /// Whether both are histograms with the same keys.
    #[must_use]
    pub fn has_keys_of(&self, other: &Self) -> bool {
        let keys = |hist: &Hist| hist.keys.iter().map(Key::text).collect::<Vec<_>>();
        let (hist, of) = (self.hist.as_ref(), other.hist.as_ref());
        hist.is_some() && hist.map(keys) == of.map(keys)
    }
}

/// How often something acts, which is at least once: `3`, `count=3` or `unlimited`.
///
/// # Errors
/// [`FilterError`] at `at` if it is none of these.
pub fn count(rest: &str, at: usize) -> Result<Option<u64>, FilterError> {
    if rest == "unlimited" {
        return Ok(None);
    }
    let digits = rest.strip_prefix("count=").unwrap_or(rest);
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(count) if is_plain && count > 0 => Ok(Some(count)),
        _ => Err(FilterError::new(
            at,
            format!("`{rest}` is no number of times"),
        )),
    }
}
