//! Events that tasks emit: their words come in registers, and of a dynamic field the bytes from the task's own memory.

use takt_abi::Error;
use takt_tracer::event::{Id, Layout, Packed};
use takt_tracer::wire::MAX_BYTES;

use super::frame::Frame;
use super::object::Task;
use crate::probe::flags::Event;
use crate::probe::sink::IrqsOnSink;

impl Task {
    /// [`Call::Trace`](takt_abi::Call::Trace), by the task's own thread.
    #[inline(never)]
    pub(super) fn trace(&self, event: u64, at: u64, frame: &Frame) -> Result<(), Error> {
        let behind = (event as u32).wrapping_sub(self.program.events_at as u32);
        // Half of it, and more than there can be if that is none.
        let number = behind.rotate_right(1) as usize;
        let known = self.program.events.get(number);
        let known = known.ok_or(Error::InvalidArgument)?;
        if !(known.is_on)() {
            return Ok(());
        }
        // SAFETY: the task's own thread, in the kernel, and no one else uses it.
        let rate = unsafe { &mut *self.events.get() };
        if !rate.may_emit(self.program.name, known.words) {
            return Ok(());
        }
        if !known.has_bytes {
            send(known, frame, None);
            return Ok(());
        }
        // One byte more tells that there were more.
        let len = ((event >> 32) as usize).min(MAX_BYTES + 1);
        rate.count_bytes(len);
        if self.has_others() {
            return self.trace_copy(known, at, len, frame);
        }
        // SAFETY: the task's only thread, in the kernel.
        let bytes = unsafe { self.program.bytes(at as usize, len) };
        send(known, frame, Some(bytes.ok_or(Error::BadAddress)?));
        Ok(())
    }

    /// The same where another thread of the task may write to the bytes.
    #[inline(never)]
    fn trace_copy(&self, event: &Event, at: u64, len: usize, frame: &Frame) -> Result<(), Error> {
        let mut copy = [0; MAX_BYTES + 1];
        let bytes = &mut copy[..len];
        // SAFETY: the task's own thread, in the kernel.
        if !unsafe { self.program.copy_from(at as usize, bytes) } {
            return Err(Error::BadAddress);
        }
        send(event, frame, Some(bytes));
        Ok(())
    }
}

#[inline(always)]
fn send(event: &Event, frame: &Frame, bytes: Option<&[u8]>) {
    let [_, _, words @ ..] = frame.message();
    let extra = core::array::from_fn(|at| (words[at / 2] >> (32 * (at % 2))) as u32);
    Packed::of(Id::of(event.id), extra).send::<IrqsOnSink>(Layout::Wide, event.words, bytes);
}
