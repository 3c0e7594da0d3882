//! Records of functions by the ring's ordinary ways.

use takt_tracer::event::Event;

use super::entry::block_of;
use super::events;
use super::shadow::return_address;
use crate::probe::ring;
use crate::probe::sink::KernelSink;

/// Records a function by the ring's ordinary ways, with its context. The next record begins with a context as well.
#[inline(never)]
pub(super) extern "C" fn slow(ip: u32, slot: &mut usize) {
    let parent_ip = return_address(core::ptr::from_mut(slot) as usize, *slot);
    ring::forget_context_here();
    events::FunctionContext::emit::<KernelSink>(
        events::function_context::Event::id(),
        block_of(ip as usize),
        block_of(parent_ip.wrapping_sub(1)),
    );
}
