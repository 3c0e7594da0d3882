//! What was recorded.

use rustix::io::Errno;
use takt_tracer::control::Setting;
use takt_tracer::control::setting::Snapshot;

use super::control::number;
use crate::guest::MAX_LINE;
use crate::session::Session;
use crate::tree::Of;
use crate::{Result, render, snapshot as kept};
use takt_host::latency::is_latency_tracer;

fn cpu_of(of: &Of) -> Option<usize> {
    match of {
        Of::Cpu(cpu) => Some(*cpu),
        _ => None,
    }
}

pub(super) fn trace(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    render::trace(session, cpu_of(of))
}

/// While a latency tracer is chosen the snapshot is its own, as in Linux.
pub(super) fn snapshot(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    if is_latency_tracer(&session.tracer()?) {
        return Err(Errno::BUSY);
    }
    kept::show(session, cpu_of(of))
}

/// 0 frees, 1 takes, anything else clears.
pub(super) fn set_snapshot(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let what = match number(text)? {
        0 => Snapshot::Free,
        1 => Snapshot::Take,
        _ => Snapshot::Clear,
    };
    session.guest.set(Setting::Snapshot(what))
}

pub(super) fn stats(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    render::stats(session, cpu_of(of).ok_or(Errno::INVAL)?)
}

/// `trace` of one CPU clears all of them: there is one clearing.
pub(super) fn clear(session: &mut Session) -> Result<()> {
    session.clear()
}

/// A record for each line, and for each part of one that is too long for one record.
pub(super) fn marker(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let room = MAX_LINE - Setting::Marker("").to_string().len();
    for line in text.lines() {
        let mut rest = line;
        loop {
            let mut at = rest.len().min(room);
            while !rest.is_char_boundary(at) {
                at -= 1;
            }
            let (part, behind) = rest.split_at(at);
            session.guest.set(Setting::Marker(part))?;
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
    }
    Ok(())
}
