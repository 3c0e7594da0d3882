//! What the entry of a traced function calls.
//!
//! At a function's entry the registers rax, r10, r11 and the flags are free, all others may hold arguments. The stack
//! has the address behind the call (the function's, plus 5), and above it the address that the function returns to, in
//! its caller.
//!
//! **The function tracer** has thunks of its own, without any call, so that nothing can recur in them. A record is 8
//! bytes: time stamp, and a word with the function's and its caller's 64-byte blocks, 12 bits each. It has no room for
//! the context, so it means that of the last record of 12 bytes, which the CPU's block remembers; where the context
//! differs, that longer record is written. `LAST` is invalidated whenever a sub-buffer is opened, so a reader may begin
//! at any of them.
//!
//! `pos` is loaded before the context is compared, and exchanged afterwards: had an interrupt written anything in
//! between, the exchange would fail. For the longer record `LAST` is set before the exchange, and invalidated where
//! that fails. An interrupt in between has another context (a hardirq), and so has another thread; an NMI's own first
//! steps, which have not, are not traced.

use core::arch::global_asm;
use core::mem::offset_of;

use takt_tracer::ring::Word;
use takt_tracer::wire;

use super::slow::slow;
use super::state::{LEFT_OUT, PIDS, WHO_RUNS};
use super::{commands, events, graph, hooks};
use crate::arch::percpu::{self, PerCpu};
use crate::arch::sse::keeps;
use crate::config::TRACE_SUB_SIZE;

unsafe extern "C" {
    fn takt_function_trace();
    fn takt_function_trace_pid();
    fn takt_function_trace_others();
    fn takt_function_ops();
    fn takt_function_commands();
}

/// The function tracer's thunk.
pub(super) fn trace() -> usize {
    takt_function_trace as *const () as usize
}

/// The function tracer's thunk, with a look at the list of threads before.
pub(super) fn trace_pid() -> usize {
    takt_function_trace_pid as *const () as usize
}

/// The function tracer's thunk, with a look before at who is left out.
pub(super) fn trace_others() -> usize {
    takt_function_trace_others as *const () as usize
}

/// The thunk for everything else: hooks, and several users of one function.
pub(super) fn ops() -> usize {
    takt_function_ops as *const () as usize
}

/// The thunk of functions with commands.
pub(super) fn commands() -> usize {
    takt_function_commands as *const () as usize
}

global_asm!(
    // Keeps what may hold arguments. 16 bytes are a multiple of the stack's alignment at calls.
    ".macro TAKT_KEEP_ARGUMENTS",
    ".irp r, rdi,rsi,rdx,rcx,r8,r9",
    "push \\r",
    ".endr",
    "sub rsp, 128",
    keeps!(".irp n, 0,1,2,3,4,5,6,7", "movups [rsp + 16 * \\n], xmm\\n", ".endr"),
    ".endm",
    ".macro TAKT_RESTORE_ARGUMENTS",
    keeps!(".irp n, 0,1,2,3,4,5,6,7", "movups xmm\\n, [rsp + 16 * \\n]", ".endr"),
    "add rsp, 128",
    ".irp r, r9,r8,rcx,rdx,rsi,rdi",
    "pop \\r",
    ".endr",
    ".endm",
    // Calls a Rust function with the traced function's address and the place of its return address.
    ".macro TAKT_CALL_WITH_IPS function",
    "mov r11d, offset \\function",
    "jmp takt_function_call",
    ".endm",
    //
    ".section .text.notrace.thunk, \"ax\"",
    ".balign 64",
    ".global takt_function_trace_pid",
    "takt_function_trace_pid:",
    "movzx r11d, byte ptr gs:[{TID}]",
    "bt dword ptr [{pids}], r11d",
    "jc takt_function_trace",
    "ret",
    ".balign 64",
    ".global takt_function_trace_others",
    "takt_function_trace_others:",
    "mov r11d, gs:[{CONTEXT}]",
    "and r11d, {WHO_RUNS}",
    "cmp r11d, [{left_out}]",
    "jne takt_function_trace",
    "ret",
    ".balign 64",
    ".global takt_function_trace",
    "takt_function_trace:",
    "push rdx",
    "mov r10, gs:[{POS}]",
    "pushfq",
    "pop r11",
    "and r11d, 0x200", // interrupts are on
    "or r11d, gs:[{CONTEXT}]",
    "cmp r11d, gs:[{LAST}]",
    "jne 5f",
    "rdtsc",
    "cmp edx, gs:[{TS_HI}]",
    "jne 8f",
    "mov r11d, eax",
    "lea rdx, [r10 + 8]",
    "cmp rdx, gs:[{LIMIT}]",
    "ja 8f",
    "mov rax, r10",
    "cmpxchg gs:[{POS}], rdx",
    "jne 8f",
    // The upper half of rax counts rounds, so addresses are computed with 32 bits.
    "mov gs:[eax + {RING}], r11d",
    // The blocks: the image begins at a multiple of 4096 of them.
    "mov edx, [rsp + 8]",
    "mov r10d, [rsp + 16]",
    "and edx, 0x3ffc0",
    "dec r10d", // the call, not what is behind it, which may be another function
    "shl r10d, 14",
    "and r10d, 0xfff00000",
    "lea edx, [r10 + 4 * rdx + {function}]",
    "mov gs:[eax + {RING} + 4], edx",
    "and eax, -{SUB_SIZE}",
    "add qword ptr gs:[rax + {RING} + {COMMIT}], {COMMIT8}",
    "pop rdx",
    "ret",
    //
    // Another context: r11d = what is new.
    "5:",
    "push rcx",
    "mov ecx, r11d",
    "rdtsc",
    "cmp edx, gs:[{TS_HI}]",
    "jne 7f",
    "lea rdx, [r10 + 12]",
    "cmp rdx, gs:[{LIMIT}]",
    "ja 7f",
    "mov gs:[{LAST}], ecx",
    "mov r11d, eax",
    "mov rax, r10",
    "cmpxchg gs:[{POS}], rdx",
    "jne 7f",
    "mov gs:[eax + {RING}], r11d",
    "movzx edx, cx",
    "xor ecx, edx",
    "shl edx, 13", // from bit 9 to the place in a record
    "lea edx, [rdx + rcx + {function_context}]",
    "mov gs:[eax + {RING} + 4], edx",
    "mov edx, [rsp + 16]",
    "mov r10d, [rsp + 24]",
    "shr edx, 6",
    "and edx, 0xfff",
    "dec r10d",
    "and r10d, 0x3ffc0",
    "shl r10d, 6",
    "or edx, r10d",
    "mov gs:[eax + {RING} + 8], edx",
    "and eax, -{SUB_SIZE}",
    "add qword ptr gs:[rax + {RING} + {COMMIT}], {COMMIT12}",
    "pop rcx",
    "pop rdx",
    "ret",
    // Tracing is off, the sub-buffer is full, or somebody else was faster.
    "7:",
    "pop rcx",
    "8:",
    "pop rdx",
    "mov r11d, offset {slow}",
    "takt_function_call:",
    "TAKT_KEEP_ARGUMENTS",
    "mov edi, [rsp + 128 + 48]",
    "sub edi, 5",
    "lea rsi, [rsp + 128 + 48 + 8]",
    "call r11",
    "TAKT_RESTORE_ARGUMENTS",
    "ret",
    //
    ".global takt_function_ops",
    "takt_function_ops:",
    "TAKT_CALL_WITH_IPS {ops}",
    ".global takt_function_commands",
    "takt_function_commands:",
    "TAKT_CALL_WITH_IPS {commands}",
    // What the function graph's own thunks leave over (see `graph_thunk`): an entry, as it was.
    ".global takt_function_graph_slow",
    "takt_function_graph_slow:",
    "TAKT_CALL_WITH_IPS {graph_entry}",
    //
    // A hooked function has returned; at the second of the two the stack pointer is where its return address was, which
    // gets the right one. Kept is what may hold its result, and what a function that is `extern "win64"` has kept.
    ".global takt_graph_return_timed",
    "takt_graph_return_timed:",
    "sub rsp, 8",
    ".global takt_graph_return_slow",
    "takt_graph_return_slow:",
    ".irp r, rax,rdx,rcx,r8,r9,rsi,rdi",
    "push \\r",
    ".endr",
    "sub rsp, 64",
    keeps!(".irp n, 0,1,2,3", "movups [rsp + 16 * \\n], xmm\\n", ".endr"),
    "lea rdi, [rsp + 64 + 56]",
    "call {graph_return}",
    "mov [rsp + 64 + 56], rax",
    keeps!(".irp n, 0,1,2,3", "movups xmm\\n, [rsp + 16 * \\n]", ".endr"),
    "add rsp, 64",
    ".irp r, rdi,rsi,r9,r8,rcx,rdx,rax",
    "pop \\r",
    ".endr",
    "ret",
    ".text",
    TID = const percpu::CURRENT_TID,
    CONTEXT = const percpu::CONTEXT,
    LAST = const percpu::behind_gs(offset_of!(PerCpu, function_context)),
    POS = const percpu::CONTROL + Word::Pos.offset() as usize,
    LIMIT = const percpu::CONTROL + Word::Limit.offset() as usize,
    TS_HI = const percpu::CONTROL + Word::TsHi.offset() as usize,
    RING = const percpu::RING,
    SUB_SIZE = const TRACE_SUB_SIZE,
    COMMIT = const wire::SUB_COMMIT,
    COMMIT8 = const wire::commit_of(8),
    COMMIT12 = const wire::commit_of(12),
    WHO_RUNS = const WHO_RUNS,
    pids = sym PIDS,
    left_out = sym LEFT_OUT,
    function = sym events::function::ID,
    function_context = sym events::function_context::ID,
    slow = sym slow,
    ops = sym hooks::dispatch,
    commands = sym commands::dispatch,
    graph_entry = sym graph::graph_entry,
    graph_return = sym graph::graph_return,
);
