//! The tracer's ring on this CPU: each primitive step is one `gs:`-relative instruction.

use core::arch::asm;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
    compiler_fence,
};

use takt_tracer::event::Sink;
use takt_tracer::ring::{self, CpuRing, RingControl, Word};

use crate::arch::percpu::{self, CONTROL, PerCpu, RING, RING_BEFORE};
use crate::arch::record;
use crate::config::{MAX_CPUS, TRACE_NR_SUBS, TRACE_SUB_SIZE};

const POS: usize = CONTROL + Word::Pos.offset() as usize;

/// This CPU's trace ring.
#[derive(Clone, Copy, Debug)]
pub struct KernelRing;

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
}

/// The control word of this CPU's ring at this offset.
#[inline(always)]
pub(super) fn control_word<const OFFSET: usize>() -> u64 {
    let value: u64;
    // SAFETY: a control word of this CPU.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) value, const CONTROL + OFFSET, options(nostack, preserves_flags));
    }
    value
}

/// What the fast paths in assembly leave over, and what they are not for: records any number of extra words, and a text if
/// the pointer is not null.
///
/// # Safety
/// The pointers and numbers are those of slices.
pub(crate) unsafe extern "C" fn record_bytes(
    text: *const u8,
    len: usize,
    extra: *const u32,
    word: u32,
    nr: usize,
) {
    // SAFETY: the caller's duty.
    let extra = unsafe { core::slice::from_raw_parts(extra, nr) };
    // SAFETY: as above.
    let text = (!text.is_null()).then(|| unsafe { core::slice::from_raw_parts(text, len) });
    ring::record_bytes(RingOf::here(), word, extra, text);
}

/// The halves of a pair of extra words.
#[inline(always)]
fn halves(pair: u64) -> (u32, u32) {
    (pair as u32, (pair >> 32) as u32)
}

/// Declares a [`Sink`] over the record functions: those for words with context have the names behind `_ctx`, and of the
/// context they get `$context`.
macro_rules! sink {
    ($(#[$doc:meta])* $vis:vis $sink:ident, $context:expr, $rare:literal, $rec8:ident $rec12:ident $rec16:ident $rec20:ident $rec24:ident $near:ident $text:ident $text1:ident
        $bytes:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $sink;

        impl Sink for $sink {
            const CONTEXT: u32 = $context;
            const RARE: bool = $rare;

            #[inline(always)]
            fn rec_near_ctx(word: usize, time: u64) {
                record::$near(word, time);
            }

            sink! { @functions rec8 rec12 rec16 rec20 rec24 rec_text rec_text1 rec_bytes =>
                rec8 rec12 rec16 rec20 rec24 rec_text rec_text1 rec_bytes }
            sink! { @functions rec8_ctx rec12_ctx rec16_ctx rec20_ctx rec24_ctx rec_text_ctx rec_text1_ctx rec_bytes_ctx =>
                $rec8 $rec12 $rec16 $rec20 $rec24 $text $text1 $bytes }
        }
    };
    (@functions $rec8:ident $rec12:ident $rec16:ident $rec20:ident $rec24:ident $text:ident $text1:ident $bytes:ident =>
        $to8:ident $to12:ident $to16:ident $to20:ident $to24:ident $to_text:ident $to_text1:ident $to_bytes:ident) => {
        #[inline(always)]
        fn $rec8(word: usize) {
            record::$to8(word);
        }

        #[inline(always)]
        fn $rec12(word: usize, a: u32) {
            record::$to12(word, a);
        }

        #[inline(always)]
        fn $rec16(word: usize, ab: u64) {
            let (a, b) = halves(ab);
            record::$to16(word, a, b);
        }

        #[inline(always)]
        fn $rec20(word: usize, ab: u64, c: u32) {
            let (a, b) = halves(ab);
            record::$to20(word, a, b, c);
        }

        #[inline(always)]
        fn $rec24(word: usize, ab: u64, cd: u64) {
            let ((a, b), (c, d)) = (halves(ab), halves(cd));
            record::$to24(word, a, b, c, d);
        }

        #[inline(always)]
        fn $text(text: &[u8], word: usize) {
            record::$to_text(word, text.as_ptr(), text.len());
        }

        #[inline(always)]
        fn $text1(text: &[u8], word: usize, a: u32) {
            record::$to_text1(word, text.as_ptr(), text.len(), a);
        }

        #[inline(always)]
        fn $bytes(word: usize, extra: &[u32], bytes: Option<&[u8]>) {
            let (text, len) = bytes.map_or((core::ptr::null(), 0), |text| (text.as_ptr(), text.len()));
            record::$to_bytes(word, text, len, extra.as_ptr(), extra.len());
        }
    };
}

sink! {
    /// Where trace points send their records: this CPU's ring.
    pub KernelSink, record::IRQS_ON, false, rec8_ctx rec12_ctx rec16_ctx rec20_ctx rec24_ctx rec_near_ctx rec_text_ctx rec_text1_ctx rec_bytes_ctx
}
sink! {
    /// Where trace points send their records when interrupts are known to be off.
    pub IrqsOffSink, 0, false, rec8_known rec12_known rec16_known rec20_known rec24_known rec_near_known rec_text_known rec_text1_known rec_bytes_known
}
sink! {
    /// Where trace points send their records when interrupts are known to be on.
    pub IrqsOnSink, record::IRQS_ON, false, rec8_known rec12_known rec16_known rec20_known rec24_known rec_near_known rec_text_known rec_text1_known rec_bytes_known
}
#[cfg(feature = "latency-tracers")]
sink! {
    /// Where the tracers send records of which there are few, when interrupts are known to be off: no image needs a quick
    /// function for these.
    pub(super) RareSink, 0, true, rec8_known rec12_known rec16_known rec20_known rec24_known rec_near_known rec_text_known rec_text1_known rec_bytes_known
}

/// A CPU's ring, reached from anywhere: for what its CPU does slowly, for handing over and counting; another CPU does not
/// write while its CPU writes. Each step is one instruction, as those of [`KernelRing`].
#[derive(Clone, Copy, Debug)]
pub(super) struct RingOf(*mut PerCpu);

impl RingOf {
    pub(super) fn new(cpu: usize) -> Self {
        Self(percpu::of(cpu))
    }

    /// Those of all CPUs, one after the other.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        super::counted(MAX_CPUS).map(Self::new)
    }

    /// That of this CPU.
    #[inline(always)]
    pub(super) fn here() -> Self {
        Self(percpu::this())
    }

    /// Its control words.
    #[inline(always)]
    pub(super) fn control(self) -> &'static RingControl {
        // SAFETY: the block is static and the control words are atomics.
        unsafe { &(*self.0).ring }
    }

    fn word(self, word: Word) -> &'static AtomicU64 {
        self.control().word(word)
    }

    /// A place in the ring's memory, for an offset within it.
    #[inline(always)]
    fn at(self, offset: u32) -> *mut u8 {
        (self.0 as usize - RING_BEFORE + offset as usize) as *mut u8
    }

    /// The place `DISP` bytes behind an offset: what lies together is reached from one address.
    #[inline(always)]
    fn behind<const DISP: u32>(self, offset: u32) -> *mut u8 {
        self.at(offset).wrapping_add(DISP as usize)
    }

    /// Addresses of the control words and of the ring's memory.
    pub(super) fn place(self) -> (usize, usize) {
        (&raw const *self.control() as usize, self.at(0) as usize)
    }

    /// The memory of a sub-buffer.
    pub(super) fn sub_buffer(self, offset: u32) -> &'static [u8] {
        // SAFETY: `offset` is that of a complete sub-buffer: no writer is inside.
        unsafe { core::slice::from_raw_parts(self.at(offset), TRACE_SUB_SIZE) }
    }
}

/// Keeps the compiler from moving a step before the one above it. What interrupts this CPU sees them in this order.
#[inline(always)]
fn in_order() {
    compiler_fence(SeqCst);
}

impl CpuRing for RingOf {
    const SUB_SIZE: u32 = TRACE_SUB_SIZE as u32;
    const NR_SUBS: u32 = TRACE_NR_SUBS as u32;

    fn now(self) -> u64 {
        // Stays where it is, as the steps around it do.
        KernelRing.now()
    }

    fn ctx(self) -> u32 {
        in_order();
        let irqs_on = match crate::arch::interrupts::are_enabled() {
            true => record::IRQS_ON,
            false => 0,
        };
        // SAFETY: a word of a static block. Another CPU's is what it is at the moment.
        irqs_on | unsafe { percpu::context_of(self.0) }
    }

    fn cpu(self) -> u8 {
        // SAFETY: set once, before the CPU records anything.
        unsafe { (*self.0).cpu as u8 }
    }

    #[inline(always)]
    fn load(self, word: Word) -> u64 {
        in_order();
        self.word(word).load(Relaxed)
    }

    #[inline(always)]
    fn store(self, word: Word, value: u64) {
        in_order();
        self.word(word).store(value, Relaxed);
    }

    #[inline(always)]
    fn add(self, word: Word, value: u64) {
        in_order();
        self.word(word).fetch_add(value, Relaxed);
    }

    #[inline(always)]
    fn cas(self, word: Word, old: u64, new: u64) -> bool {
        in_order();
        self.word(word)
            .compare_exchange(old, new, Relaxed, Relaxed)
            .is_ok()
    }

    #[cfg(feature = "function")]
    fn opening(self) {
        super::function::forget_context(self.0);
    }

    #[inline(always)]
    fn load64(self, offset: u32) -> u64 {
        in_order();
        // SAFETY: inside the ring.
        unsafe { self.at(offset).cast::<u64>().read_volatile() }
    }

    #[inline(always)]
    fn store32<const DISP: u32>(self, offset: u32, value: u32) {
        in_order();
        // SAFETY: inside the ring, in bytes that the caller has reserved.
        unsafe {
            self.behind::<DISP>(offset)
                .cast::<u32>()
                .write_volatile(value)
        };
    }

    #[inline(always)]
    fn store64<const DISP: u32>(self, offset: u32, value: u64) {
        in_order();
        // SAFETY: as `store32`; the ring's words are at least 4-aligned.
        unsafe {
            self.behind::<DISP>(offset)
                .cast::<u64>()
                .write_unaligned(value)
        };
    }

    #[inline(always)]
    fn add64<const DISP: u32>(self, offset: u32, value: u64) {
        in_order();
        // SAFETY: a commit counter, 8-aligned, inside the ring.
        unsafe { AtomicU64::from_ptr(self.behind::<DISP>(offset).cast()) }
            .fetch_add(value, Relaxed);
    }

    #[inline(always)]
    fn store_text(self, offset: u32, bytes: &[u8]) {
        // SAFETY: as `store32`, and the ring is none of what is recorded.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset), bytes.len()) };
    }
}
