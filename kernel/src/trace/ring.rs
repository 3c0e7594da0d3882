//! The tracer's ring on this CPU: each primitive step is one `gs:`-relative instruction.

use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_tracer::event::Sink;
use takt_tracer::ring::{CpuRing, Word};
use takt_tracer::wire;

use crate::arch::percpu::{self, PerCpu};
use crate::arch::tsc;
use crate::config::{TRACE_NR_SUBS, TRACE_SUB_SIZE};

const CONTROL: usize = offset_of!(PerCpu, ring);
const POS: usize = CONTROL + Word::Pos.offset() as usize;
const LIMIT: usize = CONTROL + Word::Limit.offset() as usize;
const TS_HI: usize = CONTROL + Word::TsHi.offset() as usize;
const RING: usize = offset_of!(PerCpu, ring_memory);

/// This CPU's trace ring.
#[derive(Clone, Copy, Debug)]
pub struct KernelRing;

takt_tracer::ring_sink! {
    /// Where trace points send their records: this CPU's ring.
    pub struct KernelSink => KernelRing,
        each [cfg_attr(feature = "function", patchable_function_entry(prefix_nops = 0, entry_nops = 0))];
}

// All steps act on this CPU's own words and are single instructions, so they are atomic towards interrupts and NMIs
// of this CPU. Threads do not migrate. None is `nomem`: the compiler must keep their order.
impl CpuRing for KernelRing {
    const SUB_SIZE: u32 = TRACE_SUB_SIZE as u32;
    const NR_SUBS: u32 = TRACE_NR_SUBS as u32;

    #[inline(always)]
    fn now(self) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: reads the TSC. Not `nomem`: it stays between the load of `pos` and its exchange.
        unsafe {
            asm!("rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags))
        };
        u64::from(low) | u64::from(high) << 32
    }

    #[inline(always)]
    fn ctx(self) -> u32 {
        let context: u64;
        // SAFETY: reads the flags by way of the stack, and the context word. IF is bit 9 of the flags, bit 22 here.
        unsafe {
            asm!("pushfq", "pop {c}", "shl {c:e}, 13", "and {c:e}, 0x400000", "or {c:e}, gs:[{w}]",
                 c = out(reg) context, w = const percpu::CONTEXT);
        }
        context as u32
    }

    #[inline(always)]
    fn with_ctx(self, word: u32) -> u32 {
        let sum: u32;
        // SAFETY: as `ctx`. Written out so that no instruction is spent on moving the word.
        unsafe {
            asm!("pushfq", "pop {c:r}", "shl {c:e}, 13", "and {c:e}, 0x400000", "or {c:e}, {w:e}",
                 "or {c:e}, gs:[{o}]", c = out(reg) sum, w = in(reg) word, o = const percpu::CONTEXT);
        }
        sum
    }

    #[inline(always)]
    fn cpu(self) -> u8 {
        percpu::cpu() as u8
    }

    #[inline(always)]
    fn load(self, word: Word) -> u64 {
        let value: u64;
        // SAFETY: a control word of this CPU.
        unsafe {
            asm!("mov {v}, gs:[{o} + {c}]", v = out(reg) value, o = in(reg) u64::from(word.offset()),
                 c = const CONTROL, options(nostack, preserves_flags));
        }
        value
    }

    #[inline(always)]
    fn store(self, word: Word, value: u64) {
        // SAFETY: a control word of this CPU.
        unsafe {
            asm!("mov gs:[{o} + {c}], {v}", v = in(reg) value, o = in(reg) u64::from(word.offset()),
                 c = const CONTROL, options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn add(self, word: Word, value: u64) {
        // SAFETY: a control word of this CPU.
        unsafe {
            asm!("add gs:[{o} + {c}], {v}", v = in(reg) value, o = in(reg) u64::from(word.offset()),
                 c = const CONTROL, options(nostack));
        }
    }

    #[inline(always)]
    fn cas(self, word: Word, old: u64, new: u64) -> bool {
        let seen: u64;
        // SAFETY: a control word of this CPU.
        unsafe {
            // `lock`: another CPU may turn tracing on or off meanwhile.
            asm!("lock cmpxchg gs:[{o} + {c}], {n}", n = in(reg) new, o = in(reg) u64::from(word.offset()),
                 c = const CONTROL, inout("rax") old => seen, options(nostack));
        }
        seen == old
    }

    #[inline(always)]
    fn load64(self, offset: u32) -> u64 {
        let value: u64;
        // SAFETY: inside this CPU's ring.
        unsafe {
            asm!("mov {v}, gs:[{o} + {r}]", v = out(reg) value, o = in(reg) u64::from(offset), r = const RING,
                 options(nostack, preserves_flags));
        }
        value
    }

    #[inline(always)]
    fn store32<const DISP: u32>(self, offset: u32, value: u32) {
        // SAFETY: inside this CPU's ring, in bytes that the caller has reserved.
        unsafe {
            asm!("mov gs:[{o} + {r}], {v:e}", v = in(reg) value, o = in(reg) u64::from(offset),
                 r = const RING + DISP as usize, options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn store64<const DISP: u32>(self, offset: u32, value: u64) {
        // SAFETY: as `store32`.
        unsafe {
            asm!("mov gs:[{o} + {r}], {v}", v = in(reg) value, o = in(reg) u64::from(offset),
                 r = const RING + DISP as usize, options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn store32_at<const DISP: u32>(self, base: u32, index: u32, value: u32) {
        // SAFETY: as `store32`.
        unsafe {
            asm!("mov gs:[{b} + {i} + {r}], {v:e}", v = in(reg) value, b = in(reg) u64::from(base),
                 i = in(reg) u64::from(index), r = const RING + DISP as usize, options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn store64_at<const DISP: u32>(self, base: u32, index: u32, value: u64) {
        // SAFETY: as `store32`.
        unsafe {
            asm!("mov gs:[{b} + {i} + {r}], {v}", v = in(reg) value, b = in(reg) u64::from(base),
                 i = in(reg) u64::from(index), r = const RING + DISP as usize, options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn add64<const DISP: u32>(self, offset: u32, value: u64) {
        // SAFETY: as `store32`.
        unsafe {
            asm!("add gs:[{o} + {r}], {v}", v = in(reg) value, o = in(reg) u64::from(offset),
                 r = const RING + DISP as usize, options(nostack));
        }
    }

    #[cfg(feature = "function")]
    #[inline(always)]
    fn opening(self) {
        super::function::forget_context_here();
    }

    #[inline(always)]
    fn pos(self) -> u64 {
        let pos: u64;
        // SAFETY: a control word of this CPU.
        unsafe {
            asm!("mov {}, gs:[{}]", out(reg) pos, const POS, options(nostack, preserves_flags))
        };
        pos
    }

    #[inline(always)]
    fn position_after<const LESS: i32>(self, pos: u64, sum: u64) -> u64 {
        let new: u64;
        // SAFETY: adds.
        unsafe {
            asm!("lea {}, [{} + {} - {}]", out(reg) new, in(reg) pos, in(reg) sum, const LESS,
                 options(pure, nomem, nostack, preserves_flags));
        }
        new
    }

    #[inline(always)]
    fn cas_pos(self, old: u64, new: u64) -> bool {
        // SAFETY: a control word of this CPU; the label is in this function.
        unsafe {
            asm!("cmpxchg gs:[{}], {}", "jne {}", const POS, in(reg) new, label { return false },
                 inout("rax") old => _, options(nostack));
        }
        true
    }

    #[inline(always)]
    fn has_room(self, new: u64) -> bool {
        // SAFETY: a control word of this CPU; the label is in this function.
        unsafe {
            asm!("cmp {}, gs:[{}]", "ja {}", in(reg) new, const LIMIT, label { return false }, options(nostack));
        }
        true
    }

    #[inline(always)]
    fn is_noted_half(self, half: u32) -> bool {
        // SAFETY: a control word of this CPU; the label is in this function.
        unsafe {
            asm!("cmp {:e}, gs:[{}]", "jne {}", in(reg) half, const TS_HI, label { return false }, options(nostack));
        }
        true
    }

    #[inline(always)]
    fn commit<const LEN: u32>(self, sub: u32) {
        // SAFETY: the commit counter of the sub-buffer that the record lies in.
        unsafe {
            asm!("add qword ptr gs:[{} + {}], {}", in(reg) u64::from(sub),
                 const RING + wire::SUB_COMMIT as usize, const wire::commit_of(LEN), options(nostack));
        }
    }
}

/// The context word with interrupts off: one instruction.
#[inline(always)]
fn context_irqs_off() -> u32 {
    let context: u32;
    // SAFETY: reads this CPU's context word.
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) context, const percpu::CONTEXT,
             options(nostack, preserves_flags, readonly));
    }
    context
}

/// Where trace points send their records when interrupts are off: the context is added at the place itself, and what
/// is called are the functions without context.
#[derive(Clone, Copy, Debug)]
pub struct IrqsOffSink;

impl Sink for IrqsOffSink {
    #[inline(always)]
    fn rec8(word: u32) {
        KernelSink::rec8(word);
    }

    #[inline(always)]
    fn rec8_ctx(word: u32) {
        KernelSink::rec8(word | context_irqs_off());
    }

    #[inline(always)]
    fn rec12(word: u32, a: u32) {
        KernelSink::rec12(word, a);
    }

    #[inline(always)]
    fn rec12_ctx(word: u32, a: u32) {
        KernelSink::rec12(word | context_irqs_off(), a);
    }

    #[inline(always)]
    fn rec16(word: u32, ab: u64) {
        KernelSink::rec16(word, ab);
    }

    #[inline(always)]
    fn rec16_ctx(word: u32, ab: u64) {
        KernelSink::rec16(word | context_irqs_off(), ab);
    }

    #[inline(always)]
    fn rec20(word: u32, ab: u64, c: u32) {
        KernelSink::rec20(word, ab, c);
    }

    #[inline(always)]
    fn rec20_ctx(word: u32, ab: u64, c: u32) {
        KernelSink::rec20(word | context_irqs_off(), ab, c);
    }

    #[inline(always)]
    fn rec24(word: u32, ab: u64, cd: u64) {
        KernelSink::rec24(word, ab, cd);
    }

    #[inline(always)]
    fn rec24_ctx(word: u32, ab: u64, cd: u64) {
        KernelSink::rec24(word | context_irqs_off(), ab, cd);
    }

    #[inline(always)]
    fn rec_text(text: &[u8], word: u32) {
        KernelSink::rec_text(text, word);
    }

    #[inline(always)]
    fn rec_text_ctx(text: &[u8], word: u32) {
        KernelSink::rec_text(text, word | context_irqs_off());
    }

    #[inline(always)]
    fn rec_text1(text: &[u8], word: u32, a: u32) {
        KernelSink::rec_text1(text, word, a);
    }

    #[inline(always)]
    fn rec_text1_ctx(text: &[u8], word: u32, a: u32) {
        KernelSink::rec_text1(text, word | context_irqs_off(), a);
    }

    #[inline(always)]
    fn rec_bytes(word: u32, extra: &[u32], bytes: Option<&[u8]>) {
        KernelSink::rec_bytes(word, extra, bytes);
    }

    #[inline(always)]
    fn rec_bytes_ctx(word: u32, extra: &[u32], bytes: Option<&[u8]>) {
        KernelSink::rec_bytes(word | context_irqs_off(), extra, bytes);
    }
}

/// A CPU's ring, reached from anywhere: for handing over and counting, not for writing while its CPU writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingOf {
    block: *mut PerCpu,
    cpu: u8,
}

impl RingOf {
    pub(super) fn new(cpu: usize) -> Self {
        Self {
            block: percpu::of(cpu),
            cpu: cpu as u8,
        }
    }

    fn word(self, word: Word) -> &'static AtomicU64 {
        // SAFETY: the block is static and the control words are atomics.
        unsafe { (*self.block).ring.word(word) }
    }

    fn at(self, offset: u32) -> *mut u8 {
        (self.block as usize + RING + offset as usize % (TRACE_SUB_SIZE * TRACE_NR_SUBS)) as *mut u8
    }

    /// Addresses of the control words and of the ring's memory.
    pub(super) fn place(self) -> (usize, usize) {
        (self.block as usize + CONTROL, self.block as usize + RING)
    }

    /// The memory of a sub-buffer.
    pub(super) fn sub_buffer(self, offset: u32) -> &'static [u8] {
        // SAFETY: `offset` is that of a complete sub-buffer: no writer is inside.
        unsafe { core::slice::from_raw_parts(self.at(offset), TRACE_SUB_SIZE) }
    }
}

impl CpuRing for RingOf {
    const SUB_SIZE: u32 = TRACE_SUB_SIZE as u32;
    const NR_SUBS: u32 = TRACE_NR_SUBS as u32;

    fn now(self) -> u64 {
        tsc::now()
    }

    fn ctx(self) -> u32 {
        0x0080_0000
    }

    fn cpu(self) -> u8 {
        self.cpu
    }

    fn load(self, word: Word) -> u64 {
        self.word(word).load(Relaxed)
    }

    fn store(self, word: Word, value: u64) {
        self.word(word).store(value, Relaxed);
    }

    fn add(self, word: Word, value: u64) {
        self.word(word).fetch_add(value, Relaxed);
    }

    fn cas(self, word: Word, old: u64, new: u64) -> bool {
        self.word(word)
            .compare_exchange(old, new, Relaxed, Relaxed)
            .is_ok()
    }

    #[cfg(feature = "function")]
    fn opening(self) {
        super::function::forget_context(self.cpu.into());
    }

    fn load64(self, offset: u32) -> u64 {
        // SAFETY: inside the ring.
        unsafe { self.at(offset).cast::<u64>().read_volatile() }
    }

    fn store32<const DISP: u32>(self, offset: u32, value: u32) {
        // SAFETY: inside the ring, in bytes that the caller has reserved.
        unsafe { self.at(offset + DISP).cast::<u32>().write_volatile(value) };
    }

    fn store64<const DISP: u32>(self, offset: u32, value: u64) {
        // SAFETY: as `store32`; the ring's words are at least 4-aligned.
        unsafe { self.at(offset + DISP).cast::<u64>().write_unaligned(value) };
    }

    fn add64<const DISP: u32>(self, offset: u32, value: u64) {
        // SAFETY: a commit counter, 8-aligned, inside the ring.
        unsafe { AtomicU64::from_ptr(self.at(offset + DISP).cast()) }.fetch_add(value, Relaxed);
    }
}
