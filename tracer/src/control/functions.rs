//! [`FunctionBlock`]: where the function tracers keep what they are set to and what they have counted, so that a host that
//! reads the RAM knows what is in force, whoever has set it.
//!
//! An image with these tracers holds it as a static under the name [`FunctionBlock::SYMBOL`]; one without does not have
//! the symbol. It holds addresses only, so what the tracers look at stays where they want it. It is a binary interface:
//! whoever changes the layout changes [`FunctionBlock::MAGIC`].
//!
//! A set is an array of words of 64 bits, a bit for each function by its id (the place in the image's section
//! `__patchable_function_entries`), or for each thread.
//!
//! Context: plain loads, any.

use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Commands;

/// See the module's documentation.
#[repr(C)]
#[derive(Debug)]
pub struct FunctionBlock {
    /// [`FunctionBlock::MAGIC`], once the image says that it is there.
    pub magic: AtomicU64,
    /// First word of the set of functions in `set_ftrace_filter`; all bits are set where nothing was chosen.
    pub filter: &'static AtomicU64,
    /// That of `set_ftrace_notrace`.
    pub notrace: &'static AtomicU64,
    /// That of `set_graph_function`.
    pub graph: &'static AtomicU64,
    /// That of `set_graph_notrace`.
    pub graph_notrace: &'static AtomicU64,
    /// That of `stack_trace_filter`; all bits are set where nothing was chosen.
    pub stack: &'static AtomicU64,
    /// First word of the set of threads in `set_ftrace_pid`: eight words of 32 bits.
    pub pids: &'static AtomicU32,
    /// Whether `graph` counts.
    pub has_graph: &'static AtomicBool,
    /// Whether `pids` counts.
    pub has_pids: &'static AtomicBool,
    /// `max_graph_depth`; `u32::MAX` for all the way.
    pub max_depth: &'static AtomicU32,
    /// Functions not hooked because the shadow stack was full.
    pub overrun: &'static AtomicU64,
    /// Functions that were entered and never returned.
    pub missed_returns: &'static AtomicU64,
    /// Functions not hooked because they ran on no known stack, or inside the tracer.
    pub skipped: &'static AtomicU64,
    /// What is done at entries, beside recording them.
    pub commands: &'static Commands,
}

impl FunctionBlock {
    /// First eight bytes of a block in use.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"TAKTFUN4");
    /// Name of the symbol under which an image holds it.
    pub const SYMBOL: &'static str = "TAKT_FUNCTIONS";

    /// Says that the block is there.
    pub fn announce(&self) {
        self.magic.store(Self::MAGIC, Relaxed);
    }
}

/// A block, read from the bytes of a RAM: addresses in the target, none of them trusted to be possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are those of `FunctionBlock`")]
pub struct FunctionView {
    pub filter: u64,
    pub notrace: u64,
    pub graph: u64,
    pub graph_notrace: u64,
    pub stack: u64,
    pub pids: u64,
    pub has_graph: u64,
    pub has_pids: u64,
    pub max_depth: u64,
    pub overrun: u64,
    pub missed_returns: u64,
    pub skipped: u64,
    pub commands: u64,
}

impl FunctionView {
    /// Bytes of a block.
    pub const SIZE: usize = size_of::<FunctionBlock>();

    /// Reads a block; `None` if there is none yet.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let at = |at| crate::wire::u64_at(bytes, at).unwrap_or(0);
        if at(offset_of!(FunctionBlock, magic)) != FunctionBlock::MAGIC {
            return None;
        }
        Some(Self {
            filter: at(offset_of!(FunctionBlock, filter)),
            notrace: at(offset_of!(FunctionBlock, notrace)),
            graph: at(offset_of!(FunctionBlock, graph)),
            graph_notrace: at(offset_of!(FunctionBlock, graph_notrace)),
            stack: at(offset_of!(FunctionBlock, stack)),
            pids: at(offset_of!(FunctionBlock, pids)),
            has_graph: at(offset_of!(FunctionBlock, has_graph)),
            has_pids: at(offset_of!(FunctionBlock, has_pids)),
            max_depth: at(offset_of!(FunctionBlock, max_depth)),
            overrun: at(offset_of!(FunctionBlock, overrun)),
            missed_returns: at(offset_of!(FunctionBlock, missed_returns)),
            skipped: at(offset_of!(FunctionBlock, skipped)),
            commands: at(offset_of!(FunctionBlock, commands)),
        })
    }
}

// Both sides have addresses of 64 bits.
const _: () = assert!(size_of::<usize>() == 8 && FunctionView::SIZE == 14 * 8);
