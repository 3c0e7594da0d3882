//! The tracer's ring on this CPU: each primitive step is one `gs:`-relative instruction.

use core::arch::asm;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
    compiler_fence,
};

use takt_tracer::ring::{self, CpuRing, RingControl, Word};

use crate::arch::percpu::{self, CONTROL, CpuRef, RING, RING_BEFORE};
use crate::arch::proof;
use crate::config::{MAX_CPUS, TRACE_NR_SUBS, TRACE_SUB_SIZE};

/// This CPU's trace ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelRing;

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
        load::<CONTROL>(word.offset())
    }

    #[inline(always)]
    fn store(self, word: Word, value: u64) {
        store::<CONTROL, 0>(word.offset(), value);
    }

    #[inline(always)]
    fn add(self, word: Word, value: u64) {
        add::<CONTROL, 0>(word.offset(), value);
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
        load::<RING>(offset)
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
        store::<RING, DISP>(offset, value);
    }

    #[inline(always)]
    fn add64<const DISP: u32>(self, offset: u32, value: u64) {
        add::<RING, DISP>(offset, value);
    }

    #[cfg(feature = "function")]
    #[inline(always)]
    fn opening(self) {
        forget_context_here();
    }

    #[inline(always)]
    fn pos(self) -> u64 {
        control_word::<{ Word::Pos.offset() as usize }>()
    }
}

// Where a step is in this CPU's memory: at an offset behind `BASE`, which is that of the control words or of the ring, and `DISP`
// bytes further on.

/// Loads a control word, or eight bytes of the ring.
#[inline(always)]
fn load<const BASE: usize>(offset: u32) -> u64 {
    let value: u64;
    // SAFETY: a control word of this CPU, or inside its ring.
    unsafe {
        asm!("mov {v}, gs:[{o} + {b}]", v = out(reg) value, o = in(reg) u64::from(offset), b = const BASE,
             options(nostack, preserves_flags));
    }
    value
}

/// Stores one.
#[inline(always)]
fn store<const BASE: usize, const DISP: u32>(offset: u32, value: u64) {
    // SAFETY: a control word of this CPU, or inside its ring, in bytes that the caller has reserved.
    unsafe {
        asm!("mov gs:[{o} + {b}], {v}", v = in(reg) value, o = in(reg) u64::from(offset),
             b = const BASE + DISP as usize, options(nostack, preserves_flags));
    }
}

/// Adds to one.
#[inline(always)]
fn add<const BASE: usize, const DISP: u32>(offset: u32, value: u64) {
    // SAFETY: a control word of this CPU, or a commit counter inside its ring.
    unsafe {
        asm!("add gs:[{o} + {b}], {v}", v = in(reg) value, o = in(reg) u64::from(offset),
             b = const BASE + DISP as usize, options(nostack));
    }
}

takt_tracer::ring_sink! {
    /// A sink by the ring's own functions, which the model checkers have tested, in place of those in assembly. For tests.
    pub struct ModelSink => KernelRing;
}

/// The control word of this CPU's ring at this offset.
#[inline(always)]
pub(crate) fn control_word<const OFFSET: usize>() -> u64 {
    let value: u64;
    // SAFETY: a control word of this CPU.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) value, const CONTROL + OFFSET, options(nostack, preserves_flags));
    }
    value
}

/// Opens the next sub-buffer if that is all that keeps a record from being made, of the longest that the fast paths in assembly
/// make or less.
pub(crate) extern "C" fn turn() -> ring::Turned {
    const LONGEST: u32 = 32;
    ring::turn(RingOf::here(), LONGEST)
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
    // SAFETY: the caller's duty: without a null pointer, those of a slice.
    let text = (!text.is_null()).then(|| unsafe { core::slice::from_raw_parts(text, len) });
    ring::record_bytes(RingOf::here(), word, extra, text);
}

/// A CPU's ring, reached from anywhere: for what its CPU does slowly, for handing over and counting; another CPU does not
/// write while its CPU writes. Each step is one instruction, as those of [`KernelRing`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingOf(CpuRef);

impl RingOf {
    pub(crate) fn new(cpu: usize) -> Self {
        Self(CpuRef::of(cpu))
    }

    /// Those of all CPUs, one after the other.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        crate::compact::counted(MAX_CPUS).map(Self::new)
    }

    /// That of this CPU.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        Self(CpuRef::this())
    }

    /// Its control words.
    #[inline(always)]
    pub(crate) fn control(self) -> &'static RingControl {
        &self.0.block().ring
    }

    fn word(self, word: Word) -> &'static AtomicU64 {
        self.control().word(word)
    }

    /// A place in the ring's memory, for an offset within it.
    #[inline(always)]
    fn at(self, offset: u32) -> *mut u8 {
        (core::ptr::from_ref(self.0.block()) as usize - RING_BEFORE + offset as usize) as *mut u8
    }

    /// The place `DISP` bytes behind an offset: what lies together is reached from one address.
    #[inline(always)]
    fn behind<const DISP: u32>(self, offset: u32) -> *mut u8 {
        self.at(offset).wrapping_add(DISP as usize)
    }

    /// The eight bytes there, of which the offset is a multiple.
    #[inline(always)]
    fn word_at<const DISP: u32>(self, offset: u32) -> &'static AtomicU64 {
        debug_assert!((offset + DISP) as usize <= TRACE_SUB_SIZE * TRACE_NR_SUBS - 8);
        // SAFETY: 8-aligned, inside the ring, and any bytes are a number.
        unsafe { AtomicU64::from_ptr(self.behind::<DISP>(offset).cast()) }
    }

    /// Addresses of the control words and of the ring's memory.
    pub(crate) fn place(self) -> (usize, usize) {
        (&raw const *self.control() as usize, self.at(0) as usize)
    }

    /// Copies a sub-buffer, which may be written to meanwhile: what comes of that are bytes all the same.
    pub(crate) fn copy(self, offset: u32, to: &mut [u8; TRACE_SUB_SIZE]) {
        debug_assert!(offset as usize + TRACE_SUB_SIZE <= TRACE_SUB_SIZE * TRACE_NR_SUBS);
        // SAFETY: reads the ring's memory and writes to `to`, as many bytes as either has. Not by references, and the direction
        // flag is always clear.
        unsafe {
            asm!("rep movsq", inout("rcx") TRACE_SUB_SIZE / 8 => _, inout("rsi") self.at(offset) => _,
                 inout("rdi") to.as_mut_ptr() => _, options(nostack, preserves_flags));
        }
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
            true => percpu::IRQS_ON,
            false => 0,
        };
        // Another CPU's is what it is at the moment.
        irqs_on | self.0.context()
    }

    fn cpu(self) -> u8 {
        self.0.number() as u8
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

    #[inline(always)]
    fn round(self) {
        proof::bounded!("rounds until a record has its place, or is lost");
    }

    #[cfg(feature = "function")]
    fn opening(self) {
        forget_context(self.0);
    }

    #[inline(always)]
    fn load64(self, offset: u32) -> u64 {
        in_order();
        self.word_at::<0>(offset).load(Relaxed)
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
        // SAFETY: inside the ring, in bytes that the caller has reserved; they need be 4-aligned only.
        unsafe {
            self.behind::<DISP>(offset)
                .cast::<u64>()
                .write_unaligned(value)
        };
    }

    #[inline(always)]
    fn add64<const DISP: u32>(self, offset: u32, value: u64) {
        in_order();
        self.word_at::<DISP>(offset).fetch_add(value, Relaxed);
    }

    #[inline(always)]
    fn store_text(self, offset: u32, bytes: &[u8]) {
        // SAFETY: inside the ring, in bytes that the caller has reserved, and the ring is none of what is recorded.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset), bytes.len()) };
    }
}

/// A context that no record has.
#[cfg(feature = "function")]
const NO_CONTEXT: u32 = u32::MAX;

/// [`forget_context`] of this CPU.
#[cfg(feature = "function")]
#[inline(always)]
pub(crate) fn forget_context_here() {
    forget_context(CpuRef::this());
}

/// What a CPU's last record of a function says of the context does not count any more.
#[cfg(feature = "function")]
#[inline(always)]
pub(crate) fn forget_context(cpu: CpuRef) {
    // See `trace::function::thunk` for who may write when.
    cpu.function_context.store(NO_CONTEXT, Relaxed);
}
