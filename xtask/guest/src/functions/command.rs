//! [`Command`]: `lock_slow:traceoff:3`, a word of `set_ftrace_filter` that chooses no functions.

use takt_tracer::rules::Action;

/// What is to be done at the entries of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command<'t> {
    /// It is to be taken away: `!` before it.
    pub is_removal: bool,
    /// Which functions.
    pub pattern: &'t str,
    /// What.
    pub action: Action,
    /// How often, as it was written; empty if nothing was said.
    pub count: &'t str,
}

impl<'t> Command<'t> {
    /// Reads a word; `None` if it is no command. Paths have colons too, but two of them.
    #[must_use]
    pub fn of(word: &'t str) -> Option<Self> {
        let (is_removal, rest) = match word.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let split = |text: &'t str| {
            let (before, last) = text.rsplit_once(':')?;
            (!before.is_empty() && !before.ends_with(':')).then_some((before, last))
        };
        let action = |name: &str| Action::from_name(name).filter(|it| it.is_for_functions());
        let (before, last) = split(rest)?;
        if let Some(action) = action(last) {
            return Some(Self {
                is_removal,
                pattern: before,
                action,
                count: "",
            });
        }
        let (pattern, name) = split(before)?;
        Some(Self {
            is_removal,
            pattern,
            action: action(name)?,
            count: last,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_commands() {
        let command = |word| {
            let it = Command::of(word)?;
            Some((it.is_removal, it.pattern, it.action, it.count))
        };
        let off = Action::TraceOff;
        assert_eq!(command("lock:traceoff"), Some((false, "lock", off, "")));
        assert_eq!(command("!a::b:traceoff:0"), Some((true, "a::b", off, "0")));
        assert_eq!(
            command("<a as b>::c:stacktrace:x"),
            Some((false, "<a as b>::c", Action::Stacktrace, "x"))
        );
        for word in [
            "lock",
            "a::traceoff",
            "a::b",
            "lock:hist",
            "lock:enable_event:x:y",
            ":traceoff",
            "a:b:3",
            "traceoff",
        ] {
            assert_eq!(command(word), None, "{word}");
        }
    }
}
