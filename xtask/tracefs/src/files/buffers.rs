//! How much of the rings is used.

use rustix::io::Errno;
use takt_tracer::control::Setting;

use super::control::number;
use crate::Result;
use crate::buffer::entries_of;
use crate::session::Session;
use crate::tree::Of;

/// What `trace_entries` counts, in bytes: an average record with its share of the rest.
const ENTRY: u32 = 16;

fn kb(session: &Session) -> Result<u64> {
    let view = session.view()?;
    Ok(u64::from(view.capacity) * u64::from(view.sub_size) / 1024)
}

pub(super) fn size_kb(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    Ok(format!("{}\n", kb(session)?).into())
}

pub(super) fn total_size_kb(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let nr_cpus = session.view()?.nr_cpus;
    Ok(format!("{}\n", kb(session)? * u64::from(nr_cpus.max(1))).into())
}

pub(super) fn set_size_kb(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let sub_size = u64::from(session.view()?.sub_size.max(1));
    let bytes = number(text)?.saturating_mul(1024);
    resize(session, "buffer_size_kb", text, bytes.div_ceil(sub_size))
}

pub(super) fn entries(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let view = session.view()?;
    let entries = u64::from(view.capacity) * entries_of(view.sub_size, ENTRY);
    Ok(format!("{entries}\n").into())
}

pub(super) fn set_entries(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let in_sub = entries_of(session.view()?.sub_size, ENTRY).max(1);
    let nr_subs = number(text)?.div_ceil(in_sub);
    resize(session, "trace_entries", text, nr_subs)
}

/// The guest judges; a size that does not even fit a number is one that it does not have the memory for.
fn resize(session: &mut Session, file: &str, text: &str, nr_subs: u64) -> Result<()> {
    let nr_subs = u32::try_from(nr_subs).unwrap_or(u32::MAX);
    match session.guest.set(Setting::BufferSize(nr_subs)) {
        Err(Errno::INVAL) if nr_subs != 0 => {
            session.complain(
                file,
                text.trim(),
                0,
                "The size can be changed only while current_tracer is nop",
            );
            Err(Errno::INVAL)
        }
        other => other,
    }
}
