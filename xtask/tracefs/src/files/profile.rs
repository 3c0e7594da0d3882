//! The function profiler: `function_profile_enabled` and `trace_stat/functionN`.

use std::fmt::Write;

use rustix::io::Errno;
use takt_tracer::control::Setting;
use takt_tracer::profile::{self, View};

use super::control::number;
use crate::Result;
use crate::session::Session;
use crate::tree::Of;
use takt_guest::functions::Functions;

/// A table is not longer than this; more is no table.
const MAX_FUNCTIONS: u64 = 1 << 16;

/// Whether the guest has a function profiler.
pub(crate) fn is_there(session: &Session) -> bool {
    session.guest.elf.symbol(profile::SYMBOL).is_ok()
}

pub(super) fn enabled(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let on = session.guest.word(profile::ENABLED)? != 0;
    Ok(format!("{}\n", u8::from(on)).into())
}

/// As Linux: any number but 0 is 1.
pub(super) fn set_enabled(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let on = number(text)? != 0;
    session.guest.set(Setting::FunctionProfile(on))
}

/// What was counted on a CPU, the functions that took longest first.
pub(super) fn stat(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    let Of::Cpu(cpu) = of else {
        return Err(Errno::INVAL);
    };
    let guest = &session.guest;
    let tsc_hz = guest.view()?.tsc_hz;
    let nr = guest.elf.symbol(profile::MAX_FUNCTIONS).unwrap_or(0);
    let len = usize::try_from(nr.min(MAX_FUNCTIONS)).unwrap_or(0) * View::SIZE;
    let mut bytes = vec![0; len];
    guest.read_symbol(profile::SYMBOL, (cpu * len) as u64, &mut bytes)?;
    let functions = Functions::of(&guest.elf).map_err(|_| Errno::NODEV)?;
    let entries = bytes.as_chunks().0.iter().map(View::decode).enumerate();
    let mut found: Vec<_> = entries
        .filter(|(_, entry)| entry.hits != 0)
        .filter_map(|(id, entry)| Some((functions.get(id)?.name.as_str(), entry)))
        .collect();
    found.sort_by_key(|(_, entry)| std::cmp::Reverse((entry.cycles, entry.hits)));
    Ok(table(&found, tsc_hz).into())
}

/// The lines of Linux's `trace_stat/function0`.
fn table(functions: &[(&str, View)], tsc_hz: u64) -> String {
    let mut out = String::from(
        "  Function                               Hit    Time            Avg             s^2\n\
         \u{20} --------                               ---    ----            ---             ---\n",
    );
    for (name, entry) in functions {
        let name: String = name.chars().take(30).collect();
        let ns = entry.ns(tsc_hz);
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "  {name:<30}  {:>10}    {}    {}    {}",
            entry.hits,
            duration(ns),
            duration(ns / entry.hits.max(1)),
            // Linux has a thousandth of ns² here, which it shows as it shows ns.
            duration(entry.variance_ns2(tsc_hz) / 1000),
        );
    }
    out
}

/// Microseconds as function_graph shows them: seven digits at most, the rest of eight places behind the unit.
fn duration(ns: u64) -> String {
    let mut shown = (ns / 1000).to_string();
    if shown.len() < 7 {
        let decimals = format!("{:03}", ns % 1000);
        let room = (7 - shown.len()).min(3);
        shown = format!("{shown}.{}", &decimals[..room]);
    }
    let fill = 8usize.saturating_sub(shown.len());
    format!("{shown} us {}", " ".repeat(fill))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_linuxs() {
        let entry = |hits, cycles, squares| View {
            hits,
            cycles,
            squares,
        };
        let functions = [
            (
                "takt_kernel::sync::semaphore::Semaphore::take",
                entry(3, 12_345_678, 1 << 50),
            ),
            ("short", entry(1, 999, 999 * 999)),
        ];
        assert_eq!(
            table(&functions, 1_000_000_000),
            "  Function                               Hit    Time            Avg             s^2\n\
             \u{20} --------                               ---    ----            ---             ---\n\
             \u{20} takt_kernel::sync::semaphore::           3    12345.67 us     4115.226 us     537547325 us \n\
             \u{20} short                                    1    0.999 us        0.999 us        0.000 us    \n"
        );
    }

    #[test]
    fn durations_have_linuxs_width() {
        for (ns, shown) in [
            (0, "0.000 us    "),
            (999, "0.999 us    "),
            (1_234_567, "1234.567 us "),
            (123_456_789, "123456.7 us "),
            (1_234_567_890, "1234567 us  "),
            (12_345_678_901_234, "12345678901 us "),
        ] {
            assert_eq!(duration(ns), shown, "{ns}");
        }
    }
}
