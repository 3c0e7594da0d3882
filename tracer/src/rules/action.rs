//! [`Action`]: what triggers do.

/// What a trigger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Action {
    /// Stops recording, after the event.
    TraceOff = 1,
    /// Starts recording, before the event.
    TraceOn = 2,
    /// Takes a snapshot, after the event.
    Snapshot = 3,
    /// Records the stack, after the event.
    Stacktrace = 4,
    /// Counts in a histogram.
    Hist = 5,
    /// Has another event recorded from now on.
    EnableEvent = 6,
    /// Has another event recorded no longer.
    DisableEvent = 7,
}

impl Action {
    /// All of them, with the names that ftrace has for them.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::TraceOff, "traceoff"),
        (Self::TraceOn, "traceon"),
        (Self::Snapshot, "snapshot"),
        (Self::Stacktrace, "stacktrace"),
        (Self::Hist, "hist"),
        (Self::EnableEvent, "enable_event"),
        (Self::DisableEvent, "disable_event"),
    ];

    /// The action with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::TraceOff,
            2 => Self::TraceOn,
            3 => Self::Snapshot,
            4 => Self::Stacktrace,
            5 => Self::Hist,
            6 => Self::EnableEvent,
            7 => Self::DisableEvent,
            _ => return None,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(action, _)| *action == self)
            .map_or("", |(_, name)| name)
    }

    /// The action of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, of)| *of == name).map(|(action, _)| action)
    }

    /// Whether it is about another event.
    #[must_use]
    pub const fn is_about_event(self) -> bool {
        matches!(self, Self::EnableEvent | Self::DisableEvent)
    }

    /// Whether it can be a command of a function.
    #[must_use]
    pub const fn is_for_functions(self) -> bool {
        matches!(self, Self::TraceOn | Self::TraceOff | Self::Stacktrace)
    }

    /// The action's bit in [`Verdict::actions`](super::Verdict::actions).
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}
