//! What the tracers `timerlat` and `osnoise` are set to: the folder `osnoise`.
//!
//! Limits and errors are Linux's. Times are microseconds, with decimals where a nanosecond is wanted.

use rustix::io::Errno;
use takt_tracer::control::osnoise::{Flag, Param};
use takt_tracer::control::setting::Osnoise;
use takt_tracer::control::{OsnoiseBlock, Setting};
use takt_tracer::named::Named;

use super::File;
use super::latency::{self, micros, parse};
use crate::Result;
use crate::session::Session;
use crate::tree::Of;
use takt_base::units::CpuSet;
use takt_guest::functions::{Selection, ranges};

/// The folder.
pub(crate) const DIR: &str = "osnoise";

/// A file with a time.
macro_rules! time_file {
    ($name:literal, $param:ident) => {
        File::new(
            $name,
            Some(|session, _| Ok(micros(session.guest.osnoise()?.get(Param::$param)).into())),
            Some(|session, _, text| set(session, Param::$param, parse(text)?)),
        )
    };
}

/// The files in it.
pub(crate) static FILES: [File; 9] = [
    File::new("cpus", Some(cpus), Some(set_cpus)),
    File::new("options", Some(options), Some(set_options)),
    time_file!("period_us", Period),
    time_file!("print_stack", PrintStack),
    time_file!("runtime_us", Runtime),
    time_file!("stop_tracing_total_us", StopTracingTotal),
    time_file!("stop_tracing_us", StopTracing),
    time_file!("timerlat_period_us", TimerlatPeriod),
    // The same as in the root, where Linux has it.
    File::new(
        "tracing_threshold",
        Some(latency::thresh),
        Some(latency::set_thresh),
    ),
];

/// In `per_cpu/cpuN`. To measure in a thread of one's own takes user tasks, which there are none: to open it fails as
/// where Linux's own threads do the work.
pub(crate) static TIMERLAT_FD: File =
    File::new("timerlat_fd", Some(|_, _| Err(Errno::INVAL)), None);

/// Whether the image has these tracers.
pub(crate) fn is_there(session: &Session) -> bool {
    session.guest.elf.physical(OsnoiseBlock::SYMBOL).is_ok()
}

fn set(session: &mut Session, param: Param, value: u64) -> Result<()> {
    session
        .guest
        .set(Setting::Osnoise(Osnoise { param, value }))
}

fn cpus(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let running = u32::MAX >> (32 - session.view()?.nr_cpus.clamp(1, 32));
    let mask = session.guest.osnoise()?.get(Param::Cpus) as u32 & running;
    let cpus: Selection = (0..32).filter(|cpu| mask >> cpu & 1 != 0).collect();
    Ok(format!("{}\n", ranges(&cpus)).into())
}

fn set_cpus(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let cpus: CpuSet = text.trim().parse().map_err(|_| Errno::INVAL)?;
    if u32::from(cpus.needed_smp()) > session.view()?.nr_cpus {
        return Err(Errno::INVAL);
    }
    set(session, Param::Cpus, cpus.mask().into())
}

/// Each option's name, with `NO_` before it where it is off.
fn options(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let set = session.guest.osnoise()?.get(Param::Options);
    let names = Flag::ALL.iter().map(|flag| match set & flag.bit() {
        0 => format!("{NO}{flag}"),
        _ => flag.to_string(),
    });
    Ok(format!("{}\n", names.collect::<Vec<_>>().join(" ")).into())
}

const NO: &str = "NO_";
/// What has all options as they are at first.
const DEFAULTS: &str = "DEFAULTS";

fn set_options(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let mut options = session.guest.osnoise()?.get(Param::Options);
    match text.trim() {
        DEFAULTS => options = Param::Options.default(),
        word => {
            let (name, on) = match word.strip_prefix(NO) {
                Some(name) => (name, false),
                None => (word, true),
            };
            let bit = Flag::from_name(name).ok_or(Errno::INVAL)?.bit();
            options = if on { options | bit } else { options & !bit };
        }
    }
    set(session, Param::Options, options)
}
