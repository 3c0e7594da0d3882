//! The words of the kernel's command line that Linux has for its tracer, in what the target understands: the target
//! knows ids where Linux has names, and counts sub-buffers.
//!
//! | Linux | here |
//! |---|---|
//! | `trace_event=sched:*,irq_handler_entry` | `events=4,6` |
//! | `trace_options=nooverwrite,sym-offset` | `mode=capture`; options of the output are the reader's |
//! | `trace_options=func_stack_trace,nostacktrace` | `func_stack_trace=1 stacktrace=0` |
//! | `stacktrace` | `stack_tracer=1` |
//! | `trace_buf_size=64K` | `trace_buf_subs=16` |
//! | `ftrace=`, `tracing_cpumask=` and all others | the same |

use anyhow::{Context, Result, bail};
use takt_tracer::decode::{EventTable, Role};

use super::events::{Known, resolve};
use crate::image::{Elf, events};
use crate::tracefs::options::{FUNC_STACK_TRACE, Options, STACKTRACE, split};

/// What the user gave, understood.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// For the kernel's command line.
    pub line: String,
    /// How a trace is to be shown.
    pub options: Options,
}

/// The events of an image that can be named.
#[must_use]
pub fn known(table: &EventTable) -> Vec<Known> {
    table
        .iter()
        .filter(|event| event.role != Role::Clock)
        .map(Known::from)
        .collect()
}

/// Translates `text` for the image.
///
/// # Errors
///
/// If a value makes no sense, or names an event that the image does not have.
pub fn translate(text: &str, elf: &Elf) -> Result<Words> {
    // An image whose descriptions nobody needs may have none.
    let events = match text.contains("trace_event=") {
        true => known(&events::table(elf)?),
        false => Vec::new(),
    };
    translate_with(text, &events, || Ok(elf.symbol(SUB_SIZE)?.max(1)))
}

/// The symbol whose value is the size of a sub-buffer in bytes (`takt_kernel::config`).
pub const SUB_SIZE: &str = "takt_trace_sub_size";

fn translate_with(
    text: &str,
    known: &[Known],
    sub_size: impl Fn() -> Result<u64>,
) -> Result<Words> {
    let mut words = Words::default();
    let mut line = Vec::new();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("trace_event", list)) => {
                let patterns: Vec<_> = list.split(',').map(str::to_owned).collect();
                let ids = resolve(&patterns, known).with_context(|| word.to_owned())?;
                let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
                line.push(format!("events={}", ids.join(",")));
            }
            Some(("trace_options", list)) => {
                for option in list.split(',').filter(|option| !option.is_empty()) {
                    match option {
                        "overwrite" => line.push("mode=flight".into()),
                        "nooverwrite" => line.push("mode=capture".into()),
                        _ if let (name @ (STACKTRACE | FUNC_STACK_TRACE), on) = split(option) => {
                            line.push(format!("{name}={}", u8::from(on)));
                        }
                        _ if words.options.set_by_name(option) => {}
                        _ => bail!("trace_options={option}: there is no such option"),
                    }
                }
            }
            Some(("trace_buf_size", size)) => {
                let Some(bytes) = bytes(size).filter(|bytes| *bytes > 0) else {
                    bail!("trace_buf_size={size}: not a number of bytes; K, M and G may follow it");
                };
                line.push(format!("trace_buf_subs={}", bytes.div_ceil(sub_size()?)));
            }
            None if word == "stacktrace" => line.push("stack_tracer=1".into()),
            _ => line.push(word.to_owned()),
        }
    }
    words.line = line.join(" ");
    Ok(words)
}

/// A size as Linux's `memparse` reads it, decimal.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<String> {
        let known = [
            ("sched:sched_switch", 4),
            ("sched:sched_wakeup", 6),
            ("irq:x", 8),
        ];
        let known = known.map(|(name, id)| Known {
            name: name.into(),
            id,
        });
        translate_with(text, &known, || Ok(4096)).map(|words| words.line)
    }

    #[test]
    fn linuxs_words_become_the_targets() {
        for (given, expected) in [
            ("ftrace=nop a=b", "ftrace=nop a=b"),
            ("trace_event=sched:*,irq:", "events=4,6,8"),
            ("trace_event=sched_switch", "events=4"),
            ("trace_options=nooverwrite,sym-offset", "mode=capture"),
            ("trace_options=overwrite", "mode=flight"),
            (
                "trace_options=func_stack_trace,nostacktrace,raw",
                "func_stack_trace=1 stacktrace=0",
            ),
            ("stacktrace quiet", "stack_tracer=1 quiet"),
            ("trace_buf_size=64K", "trace_buf_subs=16"),
            ("trace_buf_size=1", "trace_buf_subs=1"),
            ("  ", ""),
        ] {
            assert_eq!(line(given).unwrap(), expected, "{given}");
        }
        for bad in [
            "trace_event=shed",
            "trace_options=sym-ofset",
            "trace_buf_size=x",
            "trace_buf_size=",
            "trace_buf_size=0",
            "trace_buf_size=99999999999G",
            "trace_buf_size=1KK",
        ] {
            assert!(line(bad).is_err(), "{bad}");
        }
    }
}
