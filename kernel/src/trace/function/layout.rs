//! What assembly knows of shadow stacks.

use core::mem::offset_of;

use super::shadow::{Frame, STEP, Shadow};
use crate::config::GRAPH_DEPTH;
use crate::thread::tcb::Tcb;

pub(super) const SIZE: usize = size_of::<Shadow>();
pub(super) const AT: usize = offset_of!(Shadow, at);
pub(super) const IRQ: usize = offset_of!(Shadow, irq);
/// The end of the stack.
pub(super) const END: usize = offset_of!(Shadow, frames) + SLOT;
pub(super) const SLOT: usize = offset_of!(Frame, slot);
pub(super) const RET: usize = offset_of!(Frame, ret);
pub(super) const WHAT: usize = offset_of!(Frame, what);
pub(super) const THREAD_TID: usize = offset_of!(Tcb, tid);
pub(super) const THREAD_BOTTOM: usize = offset_of!(Tcb, stack_bottom);
pub(super) const THREAD_TOP: usize = offset_of!(Tcb, stack_top);

const _: () = assert!(
    offset_of!(Shadow, frames) == 0 && STEP == 32 && GRAPH_DEPTH < 1 << 16,
    "as the assembly has it"
);
const _: () = assert!(
    WHAT.is_multiple_of(8) && offset_of!(Frame, entered) == WHAT + 8,
    "what, part and is_timed are stored as one"
);
