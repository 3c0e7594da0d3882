//! The stack tracer: `stack_max_size`, `stack_trace` and `stack_tracer_enabled`.

use std::fmt::Write;

use rustix::io::Errno;
use takt_tracer::control::Setting;
use takt_tracer::stack_max::{self, View};

use super::control::number;
use crate::Result;
use crate::session::Session;
use crate::tree::Of;

/// There are not more stacks than this.
const MAX_STACKS: u64 = 512;

/// What `stack_trace` says while the stack tracer is off and has found nothing.
const DISABLED: &str = "\
#
#  Stack tracer disabled
#
# To enable the stack tracer, either add 'stacktrace' to the
# kernel command line
# or 'echo 1 > stack_tracer_enabled'
#
";

/// Whether the guest has a stack tracer.
pub(super) fn is_there(session: &Session) -> bool {
    session.guest.elf.symbol(stack_max::SYMBOL).is_ok()
}

pub(super) fn enabled(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    Ok(format!("{}\n", u8::from(is_on(session)?)).into())
}

fn is_on(session: &Session) -> Result<bool> {
    Ok(session.guest.word(stack_max::ENABLED)? != 0)
}

pub(super) fn set_enabled(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    match number(text)? {
        on @ 0..=1 => session.guest.set(Setting::StackTracer(on == 1)),
        _ => Err(Errno::INVAL),
    }
}

/// The most of all stacks, or what it has to be more than.
pub(super) fn size(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let floor = session.guest.word(stack_max::FLOOR)?;
    let stacks = stacks(session)?;
    let depths = stacks.iter().map(|(_, view)| view.depth());
    Ok(format!("{}\n", depths.fold(floor, u32::max)).into())
}

/// What was found is forgotten.
pub(super) fn set_size(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let bytes = u32::try_from(number(text)?).map_err(|_| Errno::OVERFLOW)?;
    session.guest.set(Setting::StackMax(bytes))
}

/// Each stack's deepest use in Linux's lines, the deepest of all first.
pub(super) fn trace(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let stacks = stacks(session)?;
    if stacks.is_empty() && !is_on(session)? {
        return Ok(DISABLED.into());
    }
    let symbol = |address: u32| match session.symbols.find(address.into()) {
        Some((name, offset, size)) => format!("{name}+{offset:#x}/{size:#x}"),
        None => format!("{address:#x}"),
    };
    let tables = stacks
        .iter()
        .map(|(name, view)| table(name, view, &symbol))
        .collect::<Vec<_>>();
    Ok(tables.join("\n").into())
}

/// The stacks that something was found of, with the names of their owners, the deepest first.
fn stacks(session: &Session) -> Result<Vec<(String, View)>> {
    let guest = &session.guest;
    let symbol = |name| guest.elf.symbol(name).unwrap_or(0);
    let nr_threads = symbol("takt_max_threads");
    let nr = (nr_threads + symbol("takt_max_cpus")).min(MAX_STACKS) as usize;
    let mut bytes = vec![0; nr * View::SIZE];
    guest.read_symbol(stack_max::SYMBOL, 0, &mut bytes)?;
    let threads = guest.threads();
    let name = |number: usize| {
        if let Some(cpu) = number.checked_sub(nr_threads as usize) {
            return format!("interrupts of CPU {cpu}");
        }
        if number < usize::from(guest.nr_idle()) {
            return format!("swapper/{number}");
        }
        let thread = threads.iter().find(|(tid, _)| usize::from(*tid) == number);
        thread.map_or_else(
            || format!("<...>-{number}"),
            |(tid, name)| format!("{name}-{tid}"),
        )
    };
    let views = bytes.as_chunks().0.iter().map(View::decode).enumerate();
    let mut found: Vec<_> = views
        .filter_map(|(number, view)| Some((name(number), view?)))
        .collect();
    found.sort_by_key(|(_, view)| std::cmp::Reverse(view.depth()));
    Ok(found)
}

/// A stack's lines.
fn table(name: &str, view: &View, symbol: &impl Fn(u32) -> String) -> String {
    let frames = view.frames();
    let mut out = format!(
        "# stack of {name}: {} of {} bytes\n        Depth    Size   Location    ({} entries)\n\
         \u{20}       -----    ----   --------\n",
        view.depth(),
        view.size,
        frames.len()
    );
    for (number, (address, depth)) in frames.iter().enumerate() {
        let below = frames.get(number + 1).map_or(0, |(_, depth)| *depth);
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "{number:3}) {depth:8}   {:5}   {}",
            depth - below,
            symbol(*address)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_linuxs() {
        let mut bytes = [0; View::SIZE];
        let words = [2u32, 0x50_0000, 16384, 2, 0x20_1000, 2928, 0x20_2004, 96];
        for (at, word) in words.into_iter().enumerate() {
            bytes[4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        let view = View::decode(&bytes).unwrap();
        assert_eq!(
            table("main-8", &view, &|address| format!("f{address:x}")),
            "# stack of main-8: 2928 of 16384 bytes\n\
             \u{20}       Depth    Size   Location    (2 entries)\n\
             \u{20}       -----    ----   --------\n\
             \u{20} 0)     2928    2832   f201000\n\
             \u{20} 1)       96      96   f202004\n"
        );
    }
}
