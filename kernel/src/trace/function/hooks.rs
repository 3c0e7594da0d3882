//! Hooks: functions that are called at the entry of others, each with a filter of its own.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use super::graph::enter;
use super::profile::PROFILED;
use super::set::{SharedFilter, id_of};
use super::shadow::return_address;
use super::slow::slow;
use super::stack_max::{self, MEASURED};
use super::state::{GRAPHED, TRACED, has_stack_trace, is_pid_traced};
use crate::arch::percpu;
use crate::compact::rolled;
use crate::trace::stack;

/// Hooks that can be registered at the same time.
pub const MAX_HOOKS: usize = 4;

/// Is told the address of the function that begins, and the one it returns to.
pub type Hook = fn(ip: usize, parent_ip: usize);

pub(super) struct Slot {
    pub(super) hook: AtomicPtr<()>,
    pub(super) filter: SharedFilter,
}

pub(super) static SLOTS: [Slot; MAX_HOOKS] = [const {
    Slot {
        hook: AtomicPtr::new(core::ptr::null_mut()),
        filter: SharedFilter::none(),
    }
}; MAX_HOOKS];

/// Entries not passed on because the hooks themselves were running.
static NR_RECURSIONS: AtomicU64 = AtomicU64::new(0);

/// How many entries of functions were not passed on because a hook was running in the same context.
#[must_use]
pub fn nr_recursions() -> u64 {
    NR_RECURSIONS.load(Relaxed)
}

/// Whether any hook wants this function.
#[inline(never)]
pub(super) fn is_wanted(id: usize) -> bool {
    rolled(&SLOTS).any(|slot| slot.filter.contains(id))
}

/// In which of three contexts this is: thread, interrupt, NMI. Preemption is disabled, so the bits are the CPU's.
#[inline(always)]
fn context_bit() -> u32 {
    let byte = percpu::preempt_byte();
    match (byte & percpu::NMI != 0, byte & percpu::HARDIRQ != 0) {
        (true, _) => 4,
        (_, true) => 2,
        _ => 1,
    }
}

/// Called by the thunk at the entry of a function that a hook wants, or several want; `slot` has its return address.
pub(super) extern "C" fn dispatch(ip: u32, slot: &mut usize) {
    let Some(id) = id_of(ip as usize) else { return };
    let parent_ip = return_address(core::ptr::from_mut(slot) as usize, *slot);
    if TRACED.contains(id) && is_pid_traced() {
        slow(ip, slot);
        if has_stack_trace() {
            stack::at_function(ip as usize, parent_ip);
        }
    }
    if MEASURED.contains(id) {
        stack_max::measure(ip as usize, core::ptr::from_mut(slot) as usize, parent_ip);
    }
    let (is_graphed, is_profiled) = (GRAPHED.contains(id), PROFILED.contains(id));
    if is_graphed && !is_profiled {
        enter(ip, slot, true, false);
    }
    call(id, ip as usize, parent_ip);
    // Last, so that what is between the reading of the clock there and the function is always the same.
    if is_profiled {
        enter(ip, slot, is_graphed, true);
    }
}

/// Calls the hooks that want the function of this id, if there are any.
#[inline(never)]
fn call(id: usize, ip: usize, parent_ip: usize) {
    if !is_wanted(id) {
        return;
    }
    if percpu::preempt_byte() & percpu::DEPTH == percpu::DEPTH {
        NR_RECURSIONS.fetch_add(1, Relaxed);
        return;
    }
    percpu::preempt_inc(crate::preempt::too_deep);
    // Interrupts in between leave it as they found it.
    let busy = &percpu::this().function_busy;
    let bit = context_bit();
    let was_busy = busy.load(Relaxed);
    if was_busy & bit == 0 {
        busy.store(was_busy | bit, Relaxed);
        for slot in rolled(&SLOTS).filter(|slot| slot.filter.contains(id)) {
            let hook = slot.hook.load(Relaxed);
            if !hook.is_null() {
                // SAFETY: only `register_function_hook` stores here, and it stores hooks.
                let hook = unsafe { core::mem::transmute::<*mut (), Hook>(hook) };
                hook(ip, parent_ip);
            }
        }
        busy.store(was_busy, Relaxed);
    } else {
        NR_RECURSIONS.fetch_add(1, Relaxed);
    }
    percpu::preempt_dec(crate::switch::preempt_schedule);
}
