//! Calls of tasks and the way to them, in assembly.
//!
//! A call comes in on its CPU's own stub: neither `gs` nor any register is the kernel's, so the stub knows by its place
//! which CPU it is. It goes on on the thread's stack, from its top on, as a thread of the kernel with interrupts on.
//! What it leaves there is a [`Frame`]. Source: Intel SDM vol. 2, SYSCALL and SYSRET.
//!
//! The way back loads the address space if another is in force, and clears what the kernel had in registers.

use core::arch::global_asm;
use core::mem::offset_of;

use super::percpu;
use super::ring3::STUB;
use super::space;
use super::sse::keeps;
use crate::config::MAX_CPUS;
use crate::task::calls::{self, Frame};
use crate::thread::tcb::{self, Tcb};

global_asm!(
    ".section .text.hot.task, \"ax\"",
    ".balign {STUB}",
    ".global takt_call_stubs",
    "takt_call_stubs:",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    ".if \\n < {MAX_CPUS}",
    ".balign {STUB}",
    ".set takt_task_rsp_\\n, takt_percpu + {SIZE} * \\n + {TASK_RSP}",
    ".set takt_gs_\\n, takt_percpu + {SIZE} * \\n",
    "mov [takt_task_rsp_\\n], rsp",
    "mov esp, offset takt_gs_\\n",
    "wrgsbase rsp",
    "jmp takt_call",
    ".endif",
    ".endr",
    //
    ".balign 16",
    "takt_call:",
    "test rax, rax", // nothing to do, and nothing was changed
    "jz takt_call_null",
    "mov rsp, gs:[{CURRENT}]",
    "mov rsp, [rsp + {STACK_TOP}]",
    "push gs:[{TASK_RSP}]",
    "push rcx",
    "push r11",
    "push r15",
    "push r14",
    "push r13",
    "push r12",
    "push rbp",
    "push rbx",
    "sub rsp, 8",
    keeps!("stmxcsr [rsp]", "ldmxcsr [rip + takt_mxcsr]"),
    "sti",
    "mov rdi, rsp",
    "mov rcx, rax",
    "xor ebp, ebp",
    "call {call}",
    "cli",
    "mov rcx, gs:[{CURRENT}]",
    "mov rcx, [rcx + {SPACE}]",
    "lea r11, [rip + takt_call_return]",
    "cmp rcx, gs:[{ACTIVE}]",
    "jne takt_space_enter",
    "takt_call_return:",
    keeps!(
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "xorps xmm\\n, xmm\\n",
        ".endr",
        "ldmxcsr [rsp]",
    ),
    "add rsp, 8",
    "pop rbx",
    "pop rbp",
    "pop r12",
    "pop r13",
    "pop r14",
    "pop r15",
    "pop r11",
    "pop rcx",
    ".irp r, esi,edi,r8d,r9d,r10d",
    "xor \\r, \\r",
    ".endr",
    "pop rsp",
    "sysretq",
    "takt_call_null:",
    "mov rsp, gs:[{TASK_RSP}]",
    "sysretq",
    //
    // Puts the space in rcx into force, if there is one, and goes on at r11. Changes rsi and r8 as well. What a task has in the
    // selectors of data is not kept: loading one clears its base, so the bases come behind.
    ".global takt_space_enter",
    "takt_space_enter:",
    "test rcx, rcx",
    "jz 3f",
    "mov rsi, gs:[{ACTIVE}]",
    "test rsi, rsi",
    "jz 2f",
    keeps!("fxsave64 [rsi + {FPU}]"),
    "rdfsbase r8",
    "mov [rsi + {FS}], r8",
    "2:",
    "xor r8d, r8d",
    "mov ds, r8d",
    "mov es, r8d",
    "mov fs, r8d",
    "rdgsbase rsi",
    "mov gs, r8d",
    "wrgsbase rsi",
    "mov r8, [rcx + {FS}]",
    "wrfsbase r8",
    keeps!("fxrstor64 [rcx + {FPU}]"),
    "mov gs:[{ACTIVE}], rcx",
    "mov rsi, [rcx + {CR3}]",
    "mov cr3, rsi",
    "3:",
    "jmp r11",
    //
    // rdi = where the task begins, rsi = its stack, rdx = its argument; interrupts off.
    ".global takt_enter_task",
    "takt_enter_task:",
    "mov rax, gs:[{CURRENT}]",
    "mov rsp, [rax + {STACK_TOP}]",
    "push rsi",
    "push 0x202",
    "push rdi",
    "mov rcx, [rax + {SPACE}]",
    "lea r11, [rip + 2f]",
    "cmp rcx, gs:[{ACTIVE}]",
    "jne takt_space_enter",
    "2:",
    "mov rdi, rdx",
    ".irp r, eax,ebx,edx,esi,ebp,r8d,r9d,r10d,r12d,r13d,r14d,r15d",
    "xor \\r, \\r",
    ".endr",
    keeps!(
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "xorps xmm\\n, xmm\\n",
        ".endr",
        "ldmxcsr [rip + takt_mxcsr]",
    ),
    "pop rcx",
    "pop r11",
    "pop rsp",
    "sysretq",
    //
    // A task's exception, on its thread's stack: rdi = the frame, rsi = the address of a page fault.
    ".global takt_task_fault",
    "takt_task_fault:",
    "jmp {fault}",
    //
    ".section .rodata.takt_mxcsr, \"a\"",
    ".balign 4",
    ".global takt_mxcsr",
    "takt_mxcsr: .long {MXCSR}",
    ".text",
    STUB = const STUB,
    MAX_CPUS = const MAX_CPUS,
    SIZE = const percpu::SIZE,
    TASK_RSP = const percpu::TASK_RSP,
    CURRENT = const percpu::CURRENT,
    ACTIVE = const percpu::ACTIVE,
    STACK_TOP = const offset_of!(Tcb, stack_top),
    SPACE = const tcb::SPACE,
    FPU = const space::FPU,
    FS = const space::FS,
    CR3 = const space::CR3,
    MXCSR = const tcb::MXCSR,
    call = sym calls::call,
    fault = sym calls::fault,
);

const _: () = assert!(size_of::<Frame>() == 10 * 8 && offset_of!(Frame, words) == 8);
const _: () = assert!(MAX_CPUS <= 16, "the stubs");
