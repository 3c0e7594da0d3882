//! The places of the kernel's events where no tracer is compiled in: their keys are the events' own.

use crate::arch::jump_label::Writable;

pub(crate) use super::events::irq_disable::ID as IRQ_OFF;
pub(crate) use super::events::irq_enable::ID as IRQ_ON;
pub(crate) use super::events::irq_handler_entry::ID as IRQ_ENTRY;
pub(crate) use super::events::preempt_disable::ID as PREEMPT_OFF;
pub(crate) use super::events::preempt_enable::ID as PREEMPT_ON;
pub(crate) use super::events::sched_switch::ID as SWITCH;
pub(crate) use super::events::sched_wakeup::ID as WAKEUP;

/// Nothing is to be done beside switching the event on.
pub(crate) fn set_event(_: &mut Writable, _: u32, _: bool) {}
