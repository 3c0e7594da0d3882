//! [`Action`]: what `--on-threshold` and `--on-end` have done, in rtla's words.

use std::path::PathBuf;
use std::str::FromStr;

/// Where a trace is saved that nobody gave a name.
pub(super) const TRACE_FILE: &str = "timerlat_trace.txt";

/// Something to be done when a measurement is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Saves the trace as text.
    Trace(PathBuf),
    /// Sends a signal.
    Signal {
        /// Its number.
        number: i32,
        /// To which process; `None` is the parent.
        pid: Option<i32>,
    },
    /// Runs a command in a shell.
    Shell(String),
    /// Has the measurement go on from the instruction where it stands.
    Continue,
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(',').unwrap_or((text, ""));
        match kind {
            "trace" => match rest.split_once('=') {
                None if rest.is_empty() => Ok(Self::Trace(TRACE_FILE.into())),
                Some(("file", file)) if !file.is_empty() => Ok(Self::Trace(file.into())),
                _ => Err("a trace is `trace` or `trace,file=FILE`".into()),
            },
            "signal" => signal(rest)
                .ok_or_else(|| "a signal is `signal,num=NUMBER,pid=PID`, or `pid=parent`, with a number from 1 to 31".into()),
            // Commas are the command's own.
            "shell" => match rest.split_once('=') {
                Some(("command", command)) if !command.is_empty() => {
                    Ok(Self::Shell(command.into()))
                }
                _ => Err("a command is `shell,command=COMMAND`".into()),
            },
            "continue" if rest.is_empty() => Ok(Self::Continue),
            _ => Err("trace, signal, shell and continue can be done".into()),
        }
    }
}

/// An action at the end, where nothing goes on.
pub(super) fn at_end(text: &str) -> Result<Action, String> {
    match text.parse()? {
        Action::Continue => Err("nothing goes on at the end".into()),
        action => Ok(action),
    }
}

fn signal(parameters: &str) -> Option<Action> {
    let (mut number, mut pid) = (None, None);
    for parameter in parameters.split(',') {
        match parameter.split_once('=')? {
            ("num", text) => number = text.parse().ok().filter(|number| (1..=31).contains(number)),
            ("pid", "parent") => pid = Some(None),
            // 0 and below are groups of processes.
            ("pid", text) => pid = Some(Some(text.parse().ok().filter(|pid| *pid > 0)?)),
            _ => return None,
        }
    }
    Some(Action::Signal {
        number: number?,
        pid: pid?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_rtlas() {
        for (text, action) in [
            ("trace", Action::Trace(TRACE_FILE.into())),
            ("trace,file=a=b", Action::Trace("a=b".into())),
            (
                "signal,num=9,pid=parent",
                Action::Signal {
                    number: 9,
                    pid: None,
                },
            ),
            (
                "signal,pid=12,num=10",
                Action::Signal {
                    number: 10,
                    pid: Some(12),
                },
            ),
            (
                "shell,command=echo a,b=c",
                Action::Shell("echo a,b=c".into()),
            ),
        ] {
            assert_eq!(text.parse(), Ok(action), "{text}");
        }
        assert_eq!("continue".parse(), Ok(Action::Continue));
        for bad in [
            "",
            "trace,x=y",
            "trace,file=",
            "signal",
            "signal,num=9",
            "signal,num=0,pid=1",
            "signal,num=34,pid=1",
            "signal,num=9,pid=0",
            "signal,num=9,pid=-1",
            "shell",
            "shell,command=",
            "continue,x",
            "halt",
        ] {
            assert!(bad.parse::<Action>().is_err(), "{bad}");
        }
    }
}
