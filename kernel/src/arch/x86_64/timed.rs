//! The clock of a system without hooks: what hooks take is timed, and hidden from it.

use core::arch::global_asm;
use core::mem::offset_of;

use super::hidden::Hooks;
use super::place::{TIMED, place_asm, place_text};
use super::proof::shown;
use crate::arch::jump_label::Writable;
use crate::arch::jump_label::{self, keys, number};
use crate::arch::percpu::{self, PerCpu, behind_gs};
use crate::clock::{AtomicCycles, Cycles, Instant};
use crate::compact::counted;

keys! {
    /// The place that is measured.
    PROBE;
}

global_asm!(
    ".section .text.thunk, \"ax\"",
    ".balign 64",
    // As where it is referred to: in an object that has both, the assembler warns of two bindings.
    ".weak takt_place_timed",
    "takt_place_timed:",
    // So that no interrupt's time is taken for the hook's.
    shown!("cli"),
    ".global takt_place_begins, takt_place_begun, takt_place_ends, takt_place_ended",
    "takt_place_begins:",
    shown!("mov rax, gs:[{hidden}]"),
    "mov gs:[{before}], rax",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov gs:[{entered}], rax",
    "takt_place_begun:",
    shown!("mov edi, [rbp + 8]"),
    "mov rsi, [rbp + 16]",
    "mov rdx, rcx",
    "mov rcx, [rbp - 80]",
    "and rsp, -16",
    "call r8",
    "takt_place_ends:",
    shown!("rdtsc"),
    "shl rdx, 32",
    "or rax, rdx",
    "sub rax, gs:[{entered}]",
    "add rax, [rip + {overhead}]",
    "add rax, gs:[{before}]",
    "mov gs:[{hidden}], rax",
    "takt_place_ended:",
    shown!("jmp takt_place_hook_end"),
    "takt_place_probed:",
    "push offset {probed}",
    "jmp takt_place_hook",
    ".text",
    entered = const behind_gs(offset_of!(PerCpu, hooks) + offset_of!(Hooks, entered)),
    before = const behind_gs(offset_of!(PerCpu, hooks) + offset_of!(Hooks, before)),
    hidden = const behind_gs(offset_of!(PerCpu, hooks) + offset_of!(Hooks, hidden)),
    overhead = sym OVERHEAD,
    probed = sym probed,
);

extern "C" fn probed() {}

/// What a hook takes besides those between its time stamps, less those of the place itself.
static OVERHEAD: AtomicCycles = AtomicCycles::new(Cycles::ZERO);
/// From a place to its hook's first time stamp.
static LEAD: AtomicCycles = AtomicCycles::new(Cycles::ZERO);

/// What a way to a hook takes beside that of a place: in front of the hook, and altogether.
#[derive(Clone, Copy)]
pub(crate) struct Rest {
    pub(crate) before: Cycles,
    pub(crate) all: Cycles,
}

impl Hooks {
    /// When the place was passed whose hook is under way, on the clock without hooks.
    #[inline(always)]
    pub(crate) fn now(&self) -> Instant {
        self.passed().wrapping_sub(self.before.load())
    }

    /// The TSC when the place was passed whose hook is under way.
    #[inline(always)]
    pub(crate) fn passed(&self) -> Instant {
        self.entered.load().wrapping_sub(LEAD.load())
    }

    /// The same of a place with a way of its own, whose rest is hidden as well.
    #[inline(always)]
    pub(crate) fn now_behind(&self, rest: Rest) -> Instant {
        let now = self.now().wrapping_sub(rest.before);
        let before = self.before.load().get();
        self.before.store(Cycles::new(before + rest.all.get()));
        now
    }

    /// A reading of the TSC behind the last hook, on the clock without hooks: which may go round, as more may be hidden than has
    /// passed.
    #[inline(always)]
    pub(crate) fn without_hooks(&self, tsc: Instant) -> Instant {
        tsc.wrapping_sub(self.hidden.load())
    }
}

unsafe extern "C" {
    /// Where a hook's time begins to be taken, and behind it.
    static takt_place_begins: u8;
    static takt_place_begun: u8;
    /// Where its end begins to be taken, and behind that.
    static takt_place_ends: u8;
    static takt_place_ended: u8;
}

/// What a non-maskable interrupt has come upon of a hook: hooks of its own are part of that one.
pub(in crate::arch) struct UnderWay {
    entered: Instant,
    before: Cycles,
}

impl UnderWay {
    /// For the beginning of such an interrupt.
    #[inline(always)]
    pub(in crate::arch) fn of(hooks: &Hooks) -> Self {
        Self {
            entered: hooks.entered.load(),
            before: hooks.before.load(),
        }
    }

    /// For its end: gives where to go on that was interrupted at `rip`. Time that was about to be taken is taken anew.
    #[inline(always)]
    pub(in crate::arch) fn resume(self, hooks: &Hooks, rip: u64) -> u64 {
        hooks.entered.store(self.entered);
        hooks.before.store(self.before);
        let taken = [
            (&raw const takt_place_begins, &raw const takt_place_begun),
            (&raw const takt_place_ends, &raw const takt_place_ended),
        ];
        for (begin, end) in taken {
            if (begin as u64..end as u64).contains(&rip) {
                return begin as u64;
            }
        }
        rip
    }
}

/// From one time to another on the clock without hooks. In real time more may be hidden than a hook has taken, so that a very
/// short stretch seems to end before it begins: it took none.
pub(crate) fn between(begin: Instant, end: Instant) -> Cycles {
    let cycles = end.wrapping_since(begin).get().cast_signed();
    Cycles::new(cycles.max(0).cast_unsigned())
}

/// How often each is measured: the first times right after the code was rewritten take longer on a real machine.
const ROUNDS: usize = 16;

/// The lower halves of two readings of the TSC with a place in between.
#[inline(never)]
fn probe() -> (u32, u32) {
    let (begin, end): (u32, u32);
    place_asm!(
        "rdtsc",
        "mov {begin:e}, eax",
        place_text!("probed", "push -1"),
        "rdtsc";
        key = sym PROBE,
        begin = out(reg) begin,
        out("eax") end,
        out("edx") _,
        options(nostack)
    );
    (begin, end)
}

/// The shortest of some passages of the place, in cycles: all of it, from its begin to the hook's first time stamp, and
/// what is hidden.
fn shortest(hooks: &Hooks) -> [u32; 3] {
    let mut least = [u32::MAX; 3];
    for _ in counted(ROUNDS) {
        let hidden = hooks.hidden.load().get() as u32;
        let (begin, end) = probe();
        let passed = [
            end.wrapping_sub(begin),
            (hooks.entered.load().cycles() as u32).wrapping_sub(begin),
            (hooks.hidden.load().get() as u32).wrapping_sub(hidden),
        ];
        for (least, passed) in least.iter_mut().zip(passed) {
            *least = passed.min(*least);
        }
    }
    least
}

/// Measures what a hook takes besides what it times itself: a place with a hook that does nothing, against the place alone.
///
/// # Context
/// Threads, while every other CPU stands still. Takes some thousand instructions.
pub(crate) fn calibrate(stopped: &mut Writable) {
    OVERHEAD.store(Cycles::ZERO);
    let hooks = &percpu::this().hooks;
    let [alone, ..] = shortest(hooks);
    let mut switch = |on| {
        for key in [&TIMED, &PROBE] {
            jump_label::set(stopped, number(key), on);
        }
    };
    switch(true);
    let [whole, lead, timed] = shortest(hooks);
    switch(false);
    // The last of the instructions of the place alone is the second reading: the place is the one before.
    LEAD.store(Cycles::new(lead.saturating_sub(alone - 1).into()));
    OVERHEAD.store(Cycles::new(whole.saturating_sub(alone + timed).into()));
}
