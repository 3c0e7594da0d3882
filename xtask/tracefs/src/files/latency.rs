//! The latency tracers: the maximum, the threshold, the stretch that was kept, and the hwlat detector's times.
//!
//! Times are microseconds as in Linux. Where one is no whole number of them it has three decimals: most of Takt's latencies
//! are shorter than one.

use rustix::io::Errno;
use takt_decode::TscClock;
use takt_tracer::control::Setting;

use super::File;
use super::output::clear;
use crate::session::Session;
use crate::tree::Of;
use crate::{Result, render};

/// The files, in the root.
pub(super) static FILES: [File; 3] = [
    File::new("latency_trace", Some(latency_trace), Some(|_, _, _| Ok(()))).truncating(clear),
    File::new("tracing_max_latency", Some(max), Some(set_max)).if_there(has_tracers),
    File::new("tracing_thresh", Some(thresh), Some(set_thresh)).if_there(has_tracers),
];

/// In `hwlat_detector`.
pub(crate) static HWLAT: [File; 3] = [
    File::new("mode", Some(|_, _| Ok("[none]\n".into())), Some(set_mode)),
    File::new("width", Some(width), Some(set_width)),
    File::new("window", Some(window), Some(set_window)),
];

/// Whether the image has latency tracers.
pub(crate) fn has_tracers(session: &Session) -> bool {
    session.guest.has_latency_tracers()
}

fn latency_trace(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    render::latency(session, None)
}

/// Cycles as the guest has them, in nanoseconds.
fn nanos(session: &Session, cycles: u64) -> Result<u64> {
    Ok(TscClock::new(session.view()?.tsc_hz).ns(cycles))
}

fn max(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let cycles = session.guest.latency()?.max;
    Ok(micros(nanos(session, cycles)?).into())
}

pub(super) fn thresh(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let cycles = session.guest.latency()?.thresh;
    Ok(micros(nanos(session, cycles)?).into())
}

fn window(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    Ok(micros(session.guest.latency()?.hwlat_window).into())
}

fn width(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    Ok(micros(session.guest.latency()?.hwlat_width).into())
}

fn set_max(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    session.guest.set(Setting::MaxLatency(parse(text)?))
}

pub(super) fn set_thresh(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    session.guest.set(Setting::Thresh(parse(text)?))
}

fn set_window(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    session.guest.set(Setting::HwlatWindow(parse(text)?))
}

fn set_width(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    session.guest.set(Setting::HwlatWidth(parse(text)?))
}

/// The thread that watches stays where it is.
fn set_mode(_: &mut Session, _: &Of, text: &str) -> Result<()> {
    match text.trim() {
        "none" => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

/// A line with so many microseconds.
pub(super) fn micros(ns: u64) -> String {
    match ns % 1000 {
        0 => format!("{}\n", ns / 1000),
        rest => format!("{}.{rest:03}\n", ns / 1000),
    }
}

/// Microseconds, with up to three decimals, in nanoseconds.
pub(super) fn parse(text: &str) -> Result<u64> {
    let text = text.trim();
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(rest) || rest.len() > 3 {
        return Err(Errno::INVAL);
    }
    let whole: u64 = whole.parse().map_err(|_| Errno::RANGE)?;
    let rest: u64 = format!("{rest:0<3}").parse().map_err(|_| Errno::INVAL)?;
    let nanos = whole.checked_mul(1000).and_then(|ns| ns.checked_add(rest));
    nanos.ok_or(Errno::RANGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_read_and_shown() {
        for (text, ns, shown) in [
            ("0\n", 0, "0\n"),
            ("100", 100_000, "100\n"),
            ("0.412", 412, "0.412\n"),
            ("12.5", 12_500, "12.500\n"),
        ] {
            assert_eq!(parse(text), Ok(ns), "{text}");
            assert_eq!(micros(ns), shown);
        }
        for bad in ["", "x", "-1", "1.", ".5", "1.2345", "1 2", "0x10"] {
            assert_eq!(parse(bad), Err(Errno::INVAL), "{bad}");
        }
        for large in ["18446744073709551616", "18446744073709551.999"] {
            assert_eq!(parse(large), Err(Errno::RANGE), "{large}");
        }
    }
}
