//! The function graph's way through where everything is as it mostly is: what the entry of a hooked function calls, and
//! where that function returns to, in assembly.
//!
//! Nothing is called here, so nothing can recur, and no register is saved but those that are used. Each of the two looks
//! for the shadow stack, reserves room in the ring, writes the record there and changes the shadow stack. What stands in
//! the way is found before anything was changed; then all of it is left to [`graph_entry`](super::graph::graph_entry) and
//! [`graph_return`](super::graph::graph_return), anew. That is the case where
//!
//! * the return address lies on no stack that has a shadow stack, or on another one than its shadow stack's last; but a
//!   return is looked for on the CPU's last shadow stack as well, where functions that switch have theirs;
//! * someone is at work on the shadow stack, or the function on top of it is timed or not recorded;
//! * functions were entered that never returned, or the one that begins was jumped to;
//! * a function is to be looked up in a set, the shadow stack is full, or the graph is not to look as deep;
//! * recording is off, the sub-buffer is full, or somebody else has reserved meanwhile;
//! * records are judged by rules before they are made.
//!
//! The order of steps in the ring is that of the record functions. The frame is there before the depth says so, and that
//! before the return address is replaced: so whoever walks the stack in between, from an interrupt, finds what he needs.
//! At a return it is the other way round. Only this context changes its shadow stack: what interrupts or preempts it has
//! another.

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

use takt_tracer::ring::Word;
use takt_tracer::wire;

use super::layout;
use super::shadow::STEP;
use super::state::{
    ARE_RECORDS_JUDGED, HAS_GRAPH_FUNCTIONS, HAS_GRAPH_NOTRACE, HAS_PIDS, IS_GRAPH_ON, MAX_DEPTH,
    has_left_out,
};
use crate::arch::percpu::{self, PerCpu};
use crate::config::{GRAPH_DEPTH, IRQ_STACK_SIZE, MAX_THREADS, TRACE_SUB_SIZE};

unsafe extern "C" {
    fn takt_function_graph();
}

/// The function graph's thunk.
pub(super) fn entry() -> usize {
    takt_function_graph as *const () as usize
}

/// From how deep on, and up to where, an entry may go straight through; and a return. In what `Shadow::at` counts.
static ENTRIES_FROM: AtomicU32 = AtomicU32::new(0);
static ENTRIES_TO: AtomicU32 = AtomicU32::new(0);
static RETURNS_TO: AtomicU32 = AtomicU32::new(0);

/// What the words above have to be, as everything is set now.
#[inline(never)]
fn limits() -> [u32; 3] {
    // Who is inside a function that is recorded is neither asked for his number nor for where the graph begins.
    let asks_who = HAS_PIDS.load(SeqCst) || has_left_out();
    let begins_anywhere = !asks_who && !HAS_GRAPH_FUNCTIONS.load(SeqCst);
    let are_returns_plain = IS_GRAPH_ON.load(SeqCst) && !ARE_RECORDS_JUDGED.load(SeqCst);
    let are_entries_plain = are_returns_plain && !HAS_GRAPH_NOTRACE.load(SeqCst);
    let max_depth = MAX_DEPTH.load(SeqCst).min(GRAPH_DEPTH as u32);
    [
        if begins_anywhere { 0 } else { STEP },
        if are_entries_plain {
            max_depth * STEP
        } else {
            0
        },
        if are_returns_plain {
            GRAPH_DEPTH as u32 * STEP
        } else {
            0
        },
    ]
}

/// Has the assembly follow what is set: to be called after every change.
///
/// # Context
/// Any. Whoever is last to store has seen what everyone has changed, or is followed by whom he has not.
#[inline(never)]
pub(super) fn follow() {
    loop {
        let now = limits();
        for (word, value) in [&ENTRIES_FROM, &ENTRIES_TO, &RETURNS_TO].iter().zip(now) {
            word.store(value, SeqCst);
        }
        if limits() == now {
            return;
        }
    }
}

global_asm!(
    ".section .text.notrace.graph, \"ax\"",
    // Goes to `other` if the place in `slot` is not on the running thread's stack; then r11 = the stack's end, r10 = the
    // shadow stack.
    ".macro TAKT_GRAPH_THREAD slot, other",
    "mov r11, gs:[{CURRENT}]",
    "cmp \\slot, [r11 + {THREAD_BOTTOM}]",
    "jb \\other",
    "movzx r10d, byte ptr [r11 + {THREAD_TID}]",
    "mov r11, [r11 + {THREAD_TOP}]",
    "cmp \\slot, r11",
    "jae \\other",
    "imul r10, r10, {SHADOW_SIZE}",
    ".endm",
    // The same for the CPU's interrupt stack.
    ".macro TAKT_GRAPH_IRQ slot, other",
    "mov r11, gs:[{IRQ_STACK_TOP}]",
    "lea r10, [r11 - {IRQ_STACK_SIZE}]",
    "cmp \\slot, r10",
    "jb \\other",
    "cmp \\slot, r11",
    "jae \\other",
    "mov r10d, gs:[{CPU}]",
    "add r10d, {MAX_THREADS}",
    "imul r10, r10, {SHADOW_SIZE}",
    ".endm",
    //
    // Reserves a record, or goes to `other`: eax = place in the ring, where the time stamp stands. Uses rdx, and `pos`, whose
    // lower half is `stamp`. The upper half of rax counts rounds, so addresses are computed with 32 bits.
    ".macro TAKT_GRAPH_RESERVE pos, stamp, other",
    "mov \\pos, gs:[{POS}]",
    "rdtsc",
    "cmp edx, gs:[{TS_HI}]",
    "jne \\other",
    "lea rdx, [\\pos + 12]",
    "cmp rdx, gs:[{LIMIT}]",
    "ja \\other",
    "xchg rax, \\pos",
    "cmpxchg gs:[{POS}], rdx",
    "jne \\other",
    "mov gs:[eax + {RING}], \\stamp",
    ".endm",
    // Writes its word, which is in `word` then, the lower half of `whole`: r11 = where the uppermost frame is. A frame's 32
    // bytes are a depth's 256 in the word.
    ".macro TAKT_GRAPH_WORD whole, word, id:vararg",
    "pushfq",
    "pop \\whole",
    "and \\word, 0x200", // interrupts are on
    "shl \\word, 13",    // from bit 9 to the place in a record
    "or \\word, gs:[{CONTEXT}]",
    "or \\word, dword ptr [{shadows} + r10 + {IRQ}]",
    "lea \\word, [\\whole + 8 * r11 + \\id]",
    "mov gs:[eax + {RING} + 4], \\word",
    ".endm",
    // Writes the rest, which is in edx, and commits.
    ".macro TAKT_GRAPH_COMMIT",
    "mov gs:[eax + {RING} + 8], edx",
    "and eax, -{SUB_SIZE}",
    "add qword ptr gs:[rax + {RING} + {COMMIT}], {COMMIT12}",
    ".endm",
    //
    // The entry of a function. What is free there, and what is on the stack: see `thunk`.
    ".balign 64",
    ".global takt_function_graph",
    "takt_function_graph:",
    "lea rax, [rsp + 8]",
    "TAKT_GRAPH_THREAD rax, 3f",
    "2:",
    "cmp r11, qword ptr [{shadows} + r10 + {END}]",
    "jne 9f",
    "mov r11d, dword ptr [{shadows} + r10 + {AT}]",
    "cmp r11d, dword ptr [{entries_to}]",
    "jae 9f",
    "cmp r11d, dword ptr [{entries_from}]",
    "jb 9f",
    "cmp rax, qword ptr [{shadows} + r10 + r11 + {SLOT}]", // the stack's end, if nothing is under way
    "jae 9f",
    "push rdx",
    "push rsi",
    "TAKT_GRAPH_RESERVE rsi, esi, 8f",
    "TAKT_GRAPH_WORD rsi, esi, {funcgraph_entry}",
    // The block: the image begins at a multiple of 4096 of them. The thread is in the word's uppermost bits too.
    "mov edx, [rsp + 16]",
    "shr edx, 6",
    "and edx, 0xfff",
    "shr esi, 24",
    "shl esi, 12",
    "or edx, esi",
    "mov qword ptr [{shadows} + r10 + r11 + {STEP} + {WHAT}], rdx",
    "TAKT_GRAPH_COMMIT",
    "lea rax, [rsp + 24]",
    "mov rdx, [rax]",
    "mov qword ptr [{shadows} + r10 + r11 + {STEP} + {SLOT}], rax",
    "mov qword ptr [{shadows} + r10 + r11 + {STEP} + {RET}], rdx",
    "add dword ptr [{shadows} + r10 + {AT}], {STEP}",
    "mov gs:[{LAST}], r10d",
    "mov qword ptr [rax], offset takt_graph_return",
    "pop rsi",
    "pop rdx",
    "ret",
    "3:",
    "TAKT_GRAPH_IRQ rax, 9f",
    "jmp 2b",
    "8:",
    "pop rsi",
    "pop rdx",
    "9:",
    "jmp takt_function_graph_slow",
    //
    // A hooked function has returned. rax and rdx may hold its result, and so may rcx, r8 and r9; a function that is
    // `extern "win64"` has kept rsi and rdi. r10, r11 and the flags are free.
    ".global takt_graph_return",
    "takt_graph_return:",
    "sub rsp, 8", // where its return address was
    "TAKT_GRAPH_THREAD rsp, 3f",
    "2:",
    "mov r11d, dword ptr [{shadows} + r10 + {AT}]",
    "cmp r11d, dword ptr [{returns_to}]",
    "ja 9f",
    "cmp rsp, qword ptr [{shadows} + r10 + r11 + {SLOT}]",
    "jne 9f",
    "push rax",
    "push rdx",
    "TAKT_GRAPH_RESERVE r11, r11d, 8f",
    "mov r11d, dword ptr [{shadows} + r10 + {AT}]",
    "TAKT_GRAPH_WORD rdx, edx, {funcgraph_exit} - 256",
    "mov edx, dword ptr [{shadows} + r10 + r11 + {WHAT}]",
    "TAKT_GRAPH_COMMIT",
    "mov rdx, qword ptr [{shadows} + r10 + r11 + {RET}]",
    "mov [rsp + 16], rdx",
    "sub dword ptr [{shadows} + r10 + {AT}], {STEP}",
    "pop rdx",
    "pop rax",
    "ret",
    "3:",
    "TAKT_GRAPH_IRQ rsp, 4f",
    "jmp 2b",
    "4:",
    "mov r10d, gs:[{LAST}]",
    "jmp 2b",
    "8:",
    "pop rdx",
    "pop rax",
    "9:",
    "jmp takt_graph_return_slow",
    ".text",
    CURRENT = const percpu::CURRENT,
    CONTEXT = const percpu::CONTEXT,
    CPU = const percpu::behind_gs(offset_of!(PerCpu, cpu)),
    IRQ_STACK_TOP = const percpu::IRQ_STACK_TOP,
    IRQ_STACK_SIZE = const IRQ_STACK_SIZE,
    MAX_THREADS = const MAX_THREADS,
    THREAD_TID = const layout::THREAD_TID,
    THREAD_BOTTOM = const layout::THREAD_BOTTOM,
    THREAD_TOP = const layout::THREAD_TOP,
    SHADOW_SIZE = const layout::SIZE,
    AT = const layout::AT,
    IRQ = const layout::IRQ,
    END = const layout::END,
    SLOT = const layout::SLOT,
    RET = const layout::RET,
    WHAT = const layout::WHAT,
    LAST = const percpu::behind_gs(offset_of!(PerCpu, function_shadow)),
    STEP = const STEP,
    POS = const percpu::CONTROL + Word::Pos.offset() as usize,
    LIMIT = const percpu::CONTROL + Word::Limit.offset() as usize,
    TS_HI = const percpu::CONTROL + Word::TsHi.offset() as usize,
    RING = const percpu::RING,
    SUB_SIZE = const TRACE_SUB_SIZE,
    COMMIT = const wire::SUB_COMMIT,
    COMMIT12 = const wire::commit_of(12),
    shadows = sym super::shadow::SHADOWS,
    entries_from = sym ENTRIES_FROM,
    entries_to = sym ENTRIES_TO,
    returns_to = sym RETURNS_TO,
    funcgraph_entry = sym super::events::funcgraph_entry::ID,
    funcgraph_exit = sym super::events::funcgraph_exit::ID,
);
