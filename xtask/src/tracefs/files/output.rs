//! What was recorded.

use rustix::io::Errno;

use crate::export::latency::is_latency_tracer;
use crate::tracefs::guest::MAX_LINE;
use crate::tracefs::session::Session;
use crate::tracefs::tree::Of;
use crate::tracefs::{Result, render, snapshot as kept};

use super::control::number;

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
    let what = number(text)?.min(2);
    session.guest.set(&format!("snapshot={what}"))
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
    const SETTING: &str = "trace_marker=";
    let room = MAX_LINE - SETTING.len();
    for line in text.lines() {
        let mut rest = line;
        loop {
            let mut at = rest.len().min(room);
            while !rest.is_char_boundary(at) {
                at -= 1;
            }
            let (part, behind) = rest.split_at(at);
            session.guest.set(&format!("{SETTING}{part}"))?;
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
    }
    Ok(())
}
