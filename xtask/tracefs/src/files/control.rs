//! The tracer, whether it records, and how its output is shown.

use std::fmt::Write;

use rustix::io::Errno;
use takt_tracer::control::{Setting, Tracer};

use crate::Result;
use crate::session::Session;
use crate::tree::Of;
use takt_guest::options::{
    self, FUNC_STACK_TRACE, FUNCTION_TRACE, GRAPH_NAMES, NAMES, OVERWRITE, STACKTRACE,
};

/// The names of the clock, the TSC, read in nanoseconds since the guest was started: it is the same on all CPUs, nobody
/// sets it, and it never stops.
pub(crate) const CLOCKS: [&str; 6] = ["local", "global", "perf", "mono", "mono_raw", "boot"];

pub(super) fn available_tracers(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let view = session.view()?;
    let names: Vec<_> = view.tracers().collect();
    Ok(format!("{}\n", names.join(" ")).into())
}

pub(super) fn current_tracer(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    Ok(format!("{}\n", session.tracer()?).into())
}

/// `none` is what the first versions of ftrace said for `nop`, `ftrace` for `function`. Another tracer than before begins
/// with an empty buffer, as in Linux; `nop` leaves what there is, so that a pipe can be read to its end.
pub(super) fn set_current_tracer(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let name = match text.trim() {
        "none" => Tracer::Nop.name(),
        "ftrace" => Tracer::Function.name(),
        name => name,
    };
    if name.contains(char::is_whitespace) {
        session.complain("current_tracer", text.trim(), 0, "No such tracer");
        return Err(Errno::INVAL);
    }
    let is_known = session.view()?.tracers().any(|known| known == name);
    if is_known && name != Tracer::Nop.name() && name != session.tracer()? {
        session.guest.set(Setting::Tracer(Tracer::Nop.name()))?;
        session.clear()?;
    }
    session.set(
        Setting::Tracer(name),
        "current_tracer",
        text.trim(),
        0,
        "No such tracer",
    )
}

pub(super) fn tracing_on(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    Ok(format!("{}\n", u8::from(session.view()?.is_on)).into())
}

/// As Linux: any number but 0 is 1.
pub(super) fn set_tracing_on(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let on = number(text)? != 0;
    session.guest.set(Setting::TracingOn(on))
}

pub(super) fn cpumask(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let view = session.view()?;
    let running = u32::MAX >> (32 - view.nr_cpus.clamp(1, 32));
    Ok(format!("{:x}\n", view.cpumask & running).into())
}

pub(super) fn set_cpumask(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Errno::INVAL);
    }
    let mask = u32::from_str_radix(text, 16).map_err(|_| Errno::OVERFLOW)?;
    session.guest.set(Setting::Cpumask(mask))
}

pub(super) fn trace_clock(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let names = CLOCKS.map(|name| match name == session.clock {
        true => format!("[{name}]"),
        false => name.to_owned(),
    });
    Ok(format!("{}\n", names.join(" ")).into())
}

/// There is one clock, so this changes nothing but its name.
pub(super) fn set_trace_clock(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let mut clocks = CLOCKS.iter();
    match clocks.find(|name| **name == text.trim()) {
        Some(name) => {
            session.clock = name;
            Ok(())
        }
        None => {
            session.complain("trace_clock", text.trim(), 0, "No such clock");
            Err(Errno::INVAL)
        }
    }
}

pub(super) fn saved_cmdlines(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let mut out = String::new();
    let nr_idle = session.guest.nr_idle();
    for (tid, name) in session.guest.threads() {
        if u16::from(tid) >= nr_idle {
            // Writing to a String does not fail.
            let _ = writeln!(out, "{tid} {name}");
        }
    }
    Ok(out.into())
}

pub(super) fn error_log(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    Ok(session.errors.text().into())
}

pub(super) fn clear_error_log(session: &mut Session) -> Result<()> {
    session.errors.clear();
    Ok(())
}

/// Whether an option is on.
fn is_on(session: &Session, name: &str) -> Result<bool> {
    Ok(match name {
        OVERWRITE => session.view()?.is_overwrite,
        STACKTRACE => byte(session, takt_tracer::control::STACKTRACE)?,
        FUNC_STACK_TRACE => byte(session, takt_tracer::control::FUNC_STACK_TRACE)?,
        FUNCTION_TRACE => byte(session, takt_tracer::control::FUNCTION_TRACE)?,
        name => session.options.get(name).unwrap_or(false),
    })
}

/// Whether a byte of the guest's is not 0; where the image does not have it, it is.
fn byte(session: &Session, symbol: &str) -> Result<bool> {
    let mut byte = [0];
    match session.guest.read_symbol(symbol, 0, &mut byte) {
        Ok(()) => Ok(byte != [0]),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn trace_options(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let mut out = String::new();
    let of_graph = GRAPH_NAMES.iter().filter(|_| is_graph(session));
    let names: Vec<_> = NAMES.iter().chain(of_graph).collect();
    for name in names {
        let no = if is_on(session, name)? { "" } else { "no" };
        // Writing to a String does not fail.
        let _ = writeln!(out, "{no}{name}");
    }
    Ok(out.into())
}

/// Whether function_graph is chosen, whose options are in `trace_options` then.
fn is_graph(session: &Session) -> bool {
    session
        .tracer()
        .is_ok_and(|tracer| tracer == "function_graph")
}

/// One word or several, of which those before a bad one are heeded.
pub(super) fn set_trace_options(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let mut is_empty = true;
    for word in text.split_whitespace() {
        is_empty = false;
        let (name, on) = options::split(word);
        let is_there = !GRAPH_NAMES.contains(&name) || is_graph(session);
        let done = match is_there {
            true => switch(session, name, on),
            false => Err(Errno::INVAL),
        };
        if let Err(error) = done {
            let at = word.as_ptr().addr() - text.as_ptr().addr();
            let what = match name {
                STACKTRACE | FUNC_STACK_TRACE => "The guest records no such stacks",
                FUNCTION_TRACE => "The guest traces no functions",
                _ => "No such option",
            };
            session.complain("trace_options", text.trim_end(), at, what);
            return Err(error);
        }
    }
    if is_empty {
        return Err(Errno::INVAL);
    }
    Ok(())
}

pub(super) fn option(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    let Of::Option(name) = of else {
        return Err(Errno::INVAL);
    };
    Ok(format!("{}\n", u8::from(is_on(session, name)?)).into())
}

pub(super) fn set_option(session: &mut Session, of: &Of, text: &str) -> Result<()> {
    let Of::Option(name) = of else {
        return Err(Errno::INVAL);
    };
    match number(text)? {
        on @ 0..=1 => switch(session, name, on == 1),
        _ => Err(Errno::INVAL),
    }
}

fn switch(session: &mut Session, name: &str, on: bool) -> Result<()> {
    if let Some(setting) = options::setting(name, on) {
        return match session.guest.set(setting) {
            // What the image cannot is off.
            Err(Errno::NOENT) if !on => Ok(()),
            Err(Errno::NOENT) => Err(Errno::INVAL),
            done => done,
        };
    }
    match session.options.set(name, on) {
        true => Ok(()),
        false => Err(Errno::INVAL),
    }
}

/// A number as the kernel reads it: decimal, or with its prefix hexadecimal or octal.
pub(super) fn number(text: &str) -> Result<u64> {
    let text = text.trim();
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return Err(Errno::INVAL);
    }
    u64::from_str_radix(digits, radix).map_err(|error| match error.kind() {
        std::num::IntErrorKind::PosOverflow => Errno::RANGE,
        _ => Errno::INVAL,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(number("12\n"), Ok(12));
        assert_eq!(number(" 0x1F "), Ok(31));
        assert_eq!(number("017"), Ok(15));
        assert_eq!(number("0"), Ok(0));
        for bad in ["", "x", "0x", "-1", "+1", "1 2", "08", "0x+1", "1é"] {
            assert_eq!(number(bad), Err(Errno::INVAL), "{bad}");
        }
        assert_eq!(number("18446744073709551616"), Err(Errno::RANGE));
    }
}
