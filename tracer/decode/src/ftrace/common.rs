//! The fields that every event has, and what their bits mean.

use crate::Context;

/// Bytes of the common fields: `u16` type, `u8` flags, `u8` preempt count, `i32` pid.
pub const COMMON_SIZE: usize = 8;

/// Bits of `common_flags` (`enum trace_flag_type` in Linux's `trace_events.h`).
const IRQS_OFF: u8 = 0x01;
const NEED_RESCHED: u8 = 0x04;
const HARDIRQ: u8 = 0x08;
/// Reschedule is due in the preempt count too. ftrace shows `N` only if both are set, else `n` or `p`.
const PREEMPT_RESCHED: u8 = 0x20;
const NMI: u8 = 0x40;

const fn bit(is_set: bool, bit: u8) -> u8 {
    if is_set { bit } else { 0 }
}

/// What `common_flags` is for a context.
pub const fn common_flags(context: Context) -> u8 {
    bit(context.is_irqs_off(), IRQS_OFF)
        | bit(context.is_need_resched(), NEED_RESCHED | PREEMPT_RESCHED)
        | bit(context.is_hardirq(), HARDIRQ)
        | bit(context.is_nmi(), NMI)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_linuxs() {
        assert_eq!(common_flags(Context(0xc0)), 0);
        assert_eq!(common_flags(Context(0x80)), 0x01);
        assert_eq!(common_flags(Context(0x11)), 0x2d);
        assert_eq!(common_flags(Context(0xb0)), 0x49);
    }
}
