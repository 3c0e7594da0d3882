//! [`Commands`]: what is done at the entries of functions, beside recording them: `func:traceoff:3` in
//! `set_ftrace_filter`.
//!
//! A table without gaps, read at each entry that has a command, by a host too. The actions are those of events'
//! [triggers](crate::rules).

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::rules::{Action, RuleError, UNLIMITED, spend};

/// Commands that there is room for; each is for one function.
pub const MAX_COMMANDS: usize = 128;

/// A command.
#[repr(C)]
#[derive(Debug)]
struct Command {
    /// The function's id and 1; 0 behind the last command.
    function: AtomicU32,
    /// [`Action`] as a number.
    action: AtomicU32,
    /// How often it acts from here on.
    left: AtomicU64,
}

/// The commands.
#[repr(C)]
#[derive(Debug)]
pub struct Commands([Command; MAX_COMMANDS]);

impl Commands {
    /// Bytes of the table.
    pub const SIZE: usize = size_of::<Self>();

    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self(
            [const {
                Command {
                    function: AtomicU32::new(0),
                    action: AtomicU32::new(0),
                    left: AtomicU64::new(0),
                }
            }; MAX_COMMANDS],
        )
    }

    /// The commands that are there, each with its function.
    fn used(&self) -> impl Iterator<Item = (u32, &Command)> {
        let all = self.0.iter();
        all.map_while(|command| Some((command.function.load(Relaxed).checked_sub(1)?, command)))
    }

    /// Those of a function.
    fn of(&self, function: u32) -> impl Iterator<Item = &Command> {
        let its = self.used().filter(move |(of, _)| *of == function);
        its.map(|(_, command)| command)
    }

    /// Whether a function has commands.
    ///
    /// # Context
    /// Any.
    #[must_use]
    pub fn has(&self, function: u32) -> bool {
        self.of(function).next().is_some()
    }

    /// What is to be done at a function's entry: the [`bit`](Action::bit)s of actions, each of which has spent one of its
    /// times. `idle` has those that would change nothing now, which spend none.
    ///
    /// # Context
    /// Any, NMI included.
    #[must_use]
    pub fn act(&self, function: u32, idle: u32) -> u32 {
        let mut actions = 0;
        for command in self.of(function) {
            let bit = 1u32.wrapping_shl(command.action.load(Relaxed));
            if idle & bit == 0 && spend(&command.left) {
                actions |= bit;
            }
        }
        actions
    }

    /// Gives functions a command. One that has such a command keeps it, as in Linux.
    ///
    /// # Errors
    /// [`RuleError::Full`]; nothing has changed then.
    ///
    /// # Context
    /// Threads, one at a time.
    pub fn add(
        &self,
        functions: impl Iterator<Item = u32> + Clone,
        action: Action,
        left: u64,
    ) -> Result<(), RuleError> {
        let is = |command: &Command| command.action.load(Relaxed) == action as u32;
        let new = functions.filter(|function| !self.of(*function).any(is));
        let nr_used = self.used().count();
        if new.clone().count() > MAX_COMMANDS - nr_used {
            return Err(RuleError::Full);
        }
        // The places behind the last are looked at by nobody until the function is there.
        for function in new {
            let Some(free) = self.0.get(self.used().count()) else {
                break;
            };
            free.action.store(action as u32, Relaxed);
            free.left.store(left, Relaxed);
            free.function.store(function + 1, Relaxed);
        }
        Ok(())
    }

    /// Takes functions' commands of a kind away, as far as there are any.
    ///
    /// # Context
    /// While nobody else runs.
    pub fn remove(&self, functions: impl Iterator<Item = u32>, action: Action) {
        for function in functions {
            let mut its = self.of(function);
            let gone = its.find(|command| command.action.load(Relaxed) == action as u32);
            if let (Some(gone), Some((_, last))) = (gone, self.used().last()) {
                gone.action.store(last.action.load(Relaxed), Relaxed);
                gone.left.store(last.left.load(Relaxed), Relaxed);
                gone.function.store(last.function.load(Relaxed), Relaxed);
                last.function.store(0, Relaxed);
            }
        }
    }
}

impl Default for Commands {
    fn default() -> Self {
        Self::new()
    }
}

/// A command, read from the bytes of a RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandView {
    /// The function's id.
    pub function: u32,
    /// What it does.
    pub action: Action,
    /// How often it acts from here on; `None` for always.
    pub left: Option<u64>,
}

impl CommandView {
    /// The commands of a table. Nothing in it is trusted to be possible.
    pub fn all(table: &[u8]) -> impl Iterator<Item = Self> {
        let commands = table.chunks_exact(size_of::<Command>());
        commands.map_while(|bytes| {
            let word = |at| crate::wire::u32_at(bytes, at).unwrap_or(0);
            let left = crate::wire::u64_at(bytes, offset_of!(Command, left)).unwrap_or(0);
            Some(Self {
                function: word(offset_of!(Command, function)).checked_sub(1)?,
                action: Action::from_number(word(offset_of!(Command, action)))?,
                left: (left != UNLIMITED).then_some(left),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_act_as_often_as_they_may() {
        let commands = Commands::new();
        let (off, stack) = (Action::TraceOff, Action::Stacktrace);
        commands.add([3, 7].into_iter(), off, 2).unwrap();
        commands.add([7].into_iter(), stack, UNLIMITED).unwrap();
        // It has one already, which stays.
        commands.add([7].into_iter(), off, 9).unwrap();
        assert!(commands.has(3) && commands.has(7) && !commands.has(0) && !commands.has(8));
        assert_eq!(commands.act(0, 0), 0);
        assert_eq!(commands.act(7, off.bit()), stack.bit());
        assert_eq!(commands.act(7, 0), off.bit() | stack.bit());
        assert_eq!(commands.act(7, 0), off.bit() | stack.bit());
        assert_eq!(commands.act(7, 0), stack.bit());
        assert_eq!(commands.act(3, 0), off.bit());
        commands.remove([3, 4].into_iter(), off);
        assert!(!commands.has(3));
        assert_eq!(commands.act(7, 0), stack.bit());
        commands.remove([7].into_iter(), stack);
        assert!(commands.has(7));
        commands.remove([7].into_iter(), off);
        assert!(!commands.has(7));
    }

    #[test]
    fn what_has_no_room_changes_nothing() {
        let commands = Commands::new();
        let most = MAX_COMMANDS as u32;
        commands.add(1..most, Action::TraceOn, 1).unwrap();
        let more = commands.add([0, most].into_iter(), Action::TraceOn, 1);
        assert_eq!(more, Err(RuleError::Full));
        assert!(!commands.has(0));
        // Those that are there take no room.
        commands.add(0..most, Action::TraceOn, 1).unwrap();
        assert!(commands.has(0));
    }
}
