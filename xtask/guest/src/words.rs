//! The words of the kernel's command line that Linux has for its tracer, in what the target understands: the target
//! knows ids where Linux has names, and counts sub-buffers.
//!
//! | Linux | here |
//! |---|---|
//! | `trace_event=sched:*,irq_handler_entry`, also as `events=` | `events=4,6` |
//! | `trace_options=nooverwrite,sym-offset` | `mode=capture`; options of the output are the reader's |
//! | `trace_options=func_stack_trace,nostacktrace` | `func_stack_trace=1 stacktrace=0` |
//! | `stacktrace` | `stack_tracer=1` |
//! | `trace_buf_size=64K` | `trace_buf_subs=16` |
//! | `ftrace_filter=*lock*,!unlock*`, `ftrace_notrace=`, `ftrace_graph_filter=`, `ftrace_graph_notrace=` | `ftrace_filter=3,7-12` |
//! | `stacktrace_filter=sleep_until` | `stack_trace_filter=9 stack_tracer=1` |
//! | `ftrace=`, `tracing_cpumask=` and all others | the same |

use anyhow::{Context, Result, anyhow, bail};
use takt_decode::{EventTable, Role};
use takt_tracer::control::setting::{Ids, List};
use takt_tracer::control::{Setting, Tracer};
use takt_tracer::named::Named;

use crate::functions::{Functions, ranges};
use crate::options::{FUNCTION_TRACE, Options, setting, split};
use crate::patterns::{Known, resolve};
use crate::rings;
use crate::{Elf, events};
use takt_base::term::WithHelp;

/// The functions that the stack tracer checks, which switches it on as well, as in Linux.
const STACK_FILTER: &str = "stacktrace_filter";

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
    let events = match pairs(text).any(|(name, list)| list.is_some_and(|it| names_events(name, it)))
    {
        true => known(&events::table(elf)?),
        false => Vec::new(),
    };
    // An image without is refused here: the guest would only log it.
    let functions = match has_names(text) || want_functions(text) {
        true => Some(Functions::of(elf)?),
        false => None,
    };
    translate_with(text, &events, functions.as_ref(), || {
        let nr_subs = elf.symbol(rings::NR_SUBS)?;
        Ok((elf.symbol(rings::SUB_SIZE)?.max(1), nr_subs))
    })
}

/// The words of a text, those with a value apart.
fn pairs(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    text.split_whitespace()
        .map(|word| match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        })
}

/// A list of functions, by Linux's name for it.
fn list_of(name: &str) -> Option<List> {
    match name {
        STACK_FILTER => Some(List::StackFilter),
        name => List::from_name(name).filter(|list| *list != List::StackFilter),
    }
}

/// Whether a list is one of ids already, which no function's name can be, or of all functions.
fn is_of_ids(list: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b'-');
    list == "*" || list.bytes().all(is_digit)
}

/// Whether a word's list names events: Linux's word, or our own with names where the target takes ids.
fn names_events(name: &str, list: &str) -> bool {
    match name {
        "trace_event" => true,
        "events" | "events_off" => !is_of_ids(list),
        _ => false,
    }
}

/// Whether functions are named somewhere.
fn has_names(text: &str) -> bool {
    pairs(text)
        .any(|(name, value)| list_of(name).is_some() && value.is_some_and(|list| !is_of_ids(list)))
}

/// Whether the words are for an image whose functions can be traced.
#[must_use]
pub fn want_functions(text: &str) -> bool {
    pairs(text).any(|(name, value)| match (name, value) {
        ("stacktrace", None) => true,
        ("ftrace", Some(tracer)) => Tracer::from_name(tracer).is_some_and(Tracer::is_of_functions),
        (_, Some(_)) => list_of(name).is_some(),
        _ => false,
    })
}

/// The tracer that a kernel's command line chooses, the last one that it names.
#[must_use]
pub fn tracer(line: &str) -> Option<&str> {
    let named = pairs(line).filter_map(|(name, value)| value.filter(|_| name == "ftrace"));
    named.last()
}

fn translate_with(
    text: &str,
    known: &[Known],
    functions: Option<&Functions>,
    // Bytes of a sub-buffer, and how many a CPU's ring has.
    ring: impl Fn() -> Result<(u64, u64)>,
) -> Result<Words> {
    let mut words = Words::default();
    let mut line = Vec::new();
    // Before the others: a tracer is to be about what was asked for from its first record on.
    let mut lists = Vec::new();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some((name, list)) if let Some(of) = list_of(name) => {
                let ids;
                let ids = match functions {
                    Some(functions) if !is_of_ids(list) => {
                        let patterns = list.split(',').filter(|pattern| !pattern.is_empty());
                        let chosen = functions.chosen(patterns, of.is_of_wanted());
                        ids = ranges(&chosen.with_context(|| word.to_owned())?);
                        ids.as_str()
                    }
                    _ => list,
                };
                lists.push(format!("{of}={ids}"));
                if of == List::StackFilter {
                    line.push(Setting::StackTracer(true).to_string());
                }
            }
            Some((name, list)) if names_events(name, list) => {
                let patterns: Vec<_> = list.split(',').map(str::to_owned).collect();
                let ids = resolve(&patterns, known).with_context(|| word.to_owned())?;
                let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
                let ids = ids.join(",");
                let ids = Ids::parse(&ids).expect("ids are numbers");
                let setting = match name {
                    "events_off" => Setting::EventsOff(ids),
                    _ => Setting::Events(ids),
                };
                line.push(setting.to_string());
            }
            Some(("trace_options", list)) => {
                for option in list.split(',').filter(|option| !option.is_empty()) {
                    match option {
                        // It is off already, and an image without functions knows nothing of it.
                        _ if split(option) == (FUNCTION_TRACE, false) => {}
                        _ if let (name, on) = split(option)
                            && let Some(setting) = setting(name, on) =>
                        {
                            line.push(setting.to_string());
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
                let (sub_size, room) = ring()?;
                let nr_subs = bytes.div_ceil(sub_size);
                if nr_subs > room {
                    return Err(anyhow!(
                        "trace_buf_size={size}: the image has {} KiB for each CPU",
                        room * sub_size / 1024
                    ))
                    .help("give no more than that, or build the image with a larger TAKT_TRACE_NR_SUBS");
                }
                let nr_subs = u32::try_from(nr_subs).unwrap_or(u32::MAX);
                line.push(Setting::BufferSize(nr_subs).to_string());
            }
            // The guest would only log it and go on without.
            Some(("ftrace", name)) if name != "none" && Tracer::from_name(name).is_none() => {
                let known: Vec<_> = Tracer::ALL.iter().map(|tracer| tracer.name()).collect();
                return Err(anyhow!("ftrace={name}: there is no such tracer"))
                    .help(format!("there are: {}", known.join(", ")));
            }
            Some(("tracing_cpumask", mask)) if u32::from_str_radix(mask, 16).is_err() => {
                bail!("tracing_cpumask={mask}: not a hexadecimal number of 32 bits");
            }
            None if word == "stacktrace" => line.push(Setting::StackTracer(true).to_string()),
            _ => line.push(word.to_owned()),
        }
    }
    lists.append(&mut line);
    words.line = lists.join(" ");
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
        let functions = Functions::named(&["main", "lock_slow", "lock_fast", "unlock", "a::lock"]);
        translate_with(text, &known, Some(&functions), || Ok((4096, 64))).map(|words| words.line)
    }

    #[test]
    fn functions_are_named() {
        for (given, expected) in [
            ("ftrace_filter=main", "ftrace_filter=0"),
            ("ftrace_filter=*lock*,!unlock", "ftrace_filter=1-2,4"),
            ("ftrace_filter=!*lock*", "ftrace_filter=0"),
            ("ftrace_notrace=lock*", "ftrace_notrace=1-2,4"),
            ("ftrace_notrace=lock*,!lock_fast", "ftrace_notrace=1,4"),
            ("ftrace_graph_filter=a::*", "ftrace_graph_filter=4"),
            (
                "ftrace_graph_notrace=main,unlock",
                "ftrace_graph_notrace=0,3",
            ),
            // What is chosen comes before what it is chosen for.
            (
                "ftrace=function quiet ftrace_filter=main",
                "ftrace_filter=0 ftrace=function quiet",
            ),
            (
                "stacktrace_filter=lock_*",
                "stack_trace_filter=1-2 stack_tracer=1",
            ),
            ("stacktrace_filter=*", "stack_trace_filter=* stack_tracer=1"),
            // Ids as they are.
            ("ftrace_filter=3,7-9", "ftrace_filter=3,7-9"),
            ("ftrace_filter=*", "ftrace_filter=*"),
            ("ftrace_filter+=11", "ftrace_filter+=11"),
            ("ftrace_graph_max_depth=2", "ftrace_graph_max_depth=2"),
        ] {
            assert_eq!(line(given).unwrap(), expected, "{given}");
        }
        for bad in [
            "ftrace_filter=nothing",
            "ftrace_filter=main,nothing*",
            "stacktrace_filter=!nothing",
        ] {
            let error = format!("{:#}", line(bad).unwrap_err());
            assert!(
                error.contains("no function is meant by `nothing"),
                "{error}"
            );
            assert!(error.contains(bad), "{error}");
        }
    }

    #[test]
    fn some_words_want_an_image_with_functions() {
        for text in [
            "ftrace_filter=x",
            "quiet ftrace_notrace=3",
            "ftrace=function_graph",
            "stacktrace",
            "stacktrace_filter=*",
        ] {
            assert!(want_functions(text), "{text}");
        }
        for text in [
            "",
            "ftrace=irqsoff",
            "mode=flight",
            "stacktraces",
            "trace_event=x",
        ] {
            assert!(!want_functions(text), "{text}");
        }
    }

    #[test]
    fn the_tracer_is_the_last_one_that_is_named() {
        assert_eq!(tracer("quiet ftrace_filter=1 mode=flight"), None);
        let line = "ftrace=function quiet ftrace=irqsoff ftrace_filter=1";
        assert_eq!(tracer(line), Some("irqsoff"));
    }

    #[test]
    fn linuxs_words_become_the_targets() {
        for (given, expected) in [
            ("ftrace=nop a=b", "ftrace=nop a=b"),
            ("trace_event=sched:*,irq:", "events=4,6,8"),
            ("trace_event=sched_switch", "events=4"),
            ("events=sched,irq", "events=4,6,8"),
            ("events=all events_off=irq:x", "events=4,6,8 events_off=8"),
            ("events=4,6 events_off=8", "events=4,6 events_off=8"),
            ("events= events_off=*", "events= events_off=*"),
            ("trace_options=nooverwrite,sym-offset", "mode=capture"),
            ("trace_options=overwrite", "mode=flight"),
            (
                "trace_options=func_stack_trace,nostacktrace,raw",
                "func_stack_trace=1 stacktrace=0",
            ),
            ("stacktrace quiet", "stack_tracer=1 quiet"),
            ("trace_options=nofunction-trace,latency-format", ""),
            ("trace_options=function-trace", "function-trace=1"),
            ("trace_buf_size=64K", "trace_buf_subs=16"),
            (
                "ftrace=wakeup_rt tracing_cpumask=f",
                "ftrace=wakeup_rt tracing_cpumask=f",
            ),
            ("trace_buf_size=1", "trace_buf_subs=1"),
            ("trace_buf_size=256K", "trace_buf_subs=64"),
            ("  ", ""),
        ] {
            assert_eq!(line(given).unwrap(), expected, "{given}");
        }
        for bad in [
            "trace_event=shed",
            "events=shed",
            "events_off=4,shed",
            "trace_options=sym-ofset",
            "trace_buf_size=x",
            "trace_buf_size=",
            "trace_buf_size=0",
            "trace_buf_size=257K",
            "trace_buf_size=99999999999G",
            "trace_buf_size=1KK",
            "ftrace=irqoff",
            "ftrace=",
            "tracing_cpumask=g",
            "tracing_cpumask=100000000",
        ] {
            assert!(line(bad).is_err(), "{bad}");
        }
    }
}
