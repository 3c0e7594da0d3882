//! Calls of tasks and the way to them, in assembly.
//!
//! A call comes in on its CPU's own stub: neither `gs` nor any register is the kernel's, so the stub knows by its place
//! which CPU it is. It goes on on the thread's stack, from its top on, as a thread of the kernel with interrupts on.
//! What it leaves there is a [`Frame`]. Source: Intel SDM vol. 2, SYSCALL and SYSRET.
//!
//! What the task has in the FPU waits in its space from the beginning of the call to the end: so a thread that waits in a call has
//! nothing of it in the CPU. The way back loads the address space if another is in force, and clears what the kernel had in registers.

use core::arch::global_asm;
use core::mem::offset_of;

use takt_abi::Call;

use super::frame::ExceptionFrame;
use super::percpu;
use super::place::place_text;
use super::proof::{resumed, resumes};
use super::ring3::STUB;
use super::space;
use super::sse::keeps;
use crate::config::MAX_CPUS;
use crate::task::calls;
use crate::task::frame::Frame;
use crate::task::gate::{Gate, IoApic};
use crate::task::object::Task;
use crate::thread::tcb::{self, Tcb};

/// Where a task's gate is behind its space.
const GATE: isize = offset_of!(Task, gate) as isize - offset_of!(Task, space) as isize;

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
    "cmp rax, {REPLY_AND_RECEIVE}",
    "je takt_ipc_reply",
    "cmp rax, {CALL}",
    "je takt_ipc_call",
    "cmp rax, {NOTIFY}",
    "je takt_ipc_notify",
    "cmp rax, {REPLY}",
    "je takt_ipc_reply_only",
    "test rax, rax", // nothing to do, and nothing was changed
    "jz takt_call_null",
    "cmp rax, {ACKNOWLEDGE}",
    "je takt_acknowledge",
    "takt_call_rest:",
    "mov rsp, gs:[{CURRENT}]",
    "mov rsp, [rsp + {STACK_TOP}]",
    "push gs:[{TASK_RSP}]",
    "push rcx",
    "push r11",
    ".global takt_call_slow",
    "takt_call_slow:",
    "push r15",
    "push r14",
    "push r13",
    "push r12",
    "push rbp",
    "push rbx",
    "sub rsp, {WORDS}",
    // What the task has in the FPU waits in its space.
    "mov r8, gs:[{CURRENT}]",
    "mov r8, [r8 + {SPACE}]",
    keeps!("fxsave64 [r8 + {FPU}]"),
    "rdfsbase rcx",
    "mov [r8 + {FS}], rcx",
    "mov qword ptr gs:[{LIVE}], 0",
    keeps!("ldmxcsr [rip + takt_mxcsr]"),
    "sti",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rax",
    "xor ebp, ebp",
    "call {call}",
    "test rax, rax", // the next thread, or 0 for the same one
    "jnz takt_call_switch",
    "cli",
    "takt_call_leave:",
    "mov rcx, gs:[{CURRENT}]",
    "mov rcx, [rcx + {SPACE}]",
    "lea r11, [rip + takt_call_pop]",
    "cmp rcx, gs:[{ACTIVE}]",
    "jne takt_space_enter",
    keeps!("fxrstor64 [rcx + {FPU}]"),
    "mov gs:[{LIVE}], rcx",
    "takt_call_pop:",
    "add rsp, 8",
    "pop rax",
    "pop rdx",
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
    "takt_call_switch:", // rdx = the thread that is left
    "mov qword ptr [rdx + {RESUME}], offset takt_resume_call",
    resumes!("jmp [rax + {RESUME}]"),
    // A thread that waits in a call goes on: rax = its control block. Whoever is pending comes in between: the switch and the way
    // back are two stretches.
    ".global takt_resume_call",
    ".balign {LABEL_ALIGN}",
    "takt_resume_call:",
    resumed!(""),
    "mov rsp, [rax + {STACK_TOP}]",
    "sub rsp, {FRAME}",
    place_text!("irq_enabling", "push -1"),
    "sti",
    "nop",
    "cli",
    "jmp takt_call_leave",
    "takt_call_null:",
    "mov rsp, gs:[{TASK_RSP}]",
    "sysretq",
    // The first of its interrupts comes again, whose notification is rsi. Where more is to be done, nothing is done here.
    "takt_acknowledge:",
    "cmp dword ptr [takt_listeners], 0", // with several CPUs that is so
    "jne takt_call_rest",
    "mov rdi, gs:[{CURRENT}]",
    "mov r8, [rdi + {SPACE}]",
    "mov edi, [r8 + {NOTIFICATION}]",
    "cmp rdi, rsi",
    "jne takt_call_rest",
    "mov rdi, [r8 + {IO_APIC}]",
    "mov eax, [r8 + {REGISTER}]",
    "mov [rdi], eax",
    "mov eax, [r8 + {UNMASKED}]",
    "mov [rdi + {DATA}], eax",
    ".irp r, eax,edx,edi,r8d",
    "xor \\r, \\r",
    ".endr",
    "mov rsp, gs:[{TASK_RSP}]",
    "sysretq",
    //
    // Puts the space in rcx into force and goes on at r11; the FPU does not have what is its. Changes rsi and r8 as well. What a
    // task has in the selectors of data is not kept: loading one clears its base, so the bases come behind.
    ".global takt_space_enter",
    "takt_space_enter:",
    "mov rsi, gs:[{LIVE}]",
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
    "mov gs:[{LIVE}], rcx",
    "cmp rcx, gs:[{ACTIVE}]",
    "je 3f",
    "mov gs:[{ACTIVE}], rcx",
    "mov rsi, [rcx + {CR3}]",
    "mov cr3, rsi",
    "3:",
    "jmp r11",
    //
    // A task that was preempted in ring 3 goes on: rax = its thread.
    ".global takt_resume_task",
    "takt_resume_task:",
    "mov rcx, [rax + {SPACE}]",
    "lea r11, [rip + takt_resume_preempted_rest]",
    "cmp rcx, gs:[{LIVE}]",
    "jne takt_space_enter",
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
    // The message's words: what the kernel had there is not for the task, whoever answers its first call.
    ".rept 6",
    "push 0",
    ".endr",
    "add rsp, 48",
    "mov rcx, [rax + {SPACE}]",
    "lea r11, [rip + 2f]",
    "jmp takt_space_enter",
    "2:",
    "mov rdi, rdx",
    ".irp r, eax,ebx,edx,esi,ebp,r8d,r9d,r10d,r12d,r13d,r14d,r15d",
    "xor \\r, \\r",
    ".endr",
    "pop rcx",
    "pop r11",
    "pop rsp",
    "sysretq",
    //
    // A task's exception, on its thread's stack: the frame is at rsp, with the address of a page fault in the place of ss.
    ".global takt_task_fault",
    "takt_task_fault:",
    keeps!("ldmxcsr [rip + takt_mxcsr]"),
    "mov rdi, rsp",
    "xor ebp, ebp",
    "call {fault}",
    "ud2",
    // The thread goes on whose supervisor was told of its fault: rax = its control block.
    ".global takt_resume_fault",
    ".balign {LABEL_ALIGN}",
    "takt_resume_fault:",
    resumed!(""),
    "mov rsp, [rax + {STACK_TOP}]",
    "sub rsp, {FRAME} + {EXCEPTION_END}",
    keeps!("ldmxcsr [rip + takt_mxcsr]"),
    place_text!("irq_enabling", "push -1"),
    "sti",
    "mov rdi, rsp",
    "xor ebp, ebp",
    "call {fault_told}",
    "ud2",
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
    LIVE = const percpu::LIVE,
    STACK_TOP = const offset_of!(Tcb, stack_top),
    SPACE = const tcb::SPACE,
    FPU = const space::FPU,
    FS = const space::FS,
    CR3 = const space::CR3,
    RESUME = const offset_of!(Tcb, resume),
    FRAME = const size_of::<Frame>(),
    WORDS = const offset_of!(Frame, words),
    LABEL_ALIGN = const if cfg!(feature = "function") { 64 } else { 1 },
    key = sym crate::probe::places::IRQ_ON,
    CALL = const Call::Call as u8,
    ACKNOWLEDGE = const Call::Acknowledge as u8,
    NOTIFICATION = const GATE + offset_of!(Gate, notification) as isize,
    REGISTER = const GATE + offset_of!(Gate, register) as isize,
    UNMASKED = const GATE + offset_of!(Gate, unmasked) as isize,
    IO_APIC = const GATE + offset_of!(Gate, io_apic) as isize,
    DATA = const offset_of!(IoApic, data),
    NOTIFY = const Call::Notify as u8,
    REPLY = const Call::Reply as u8,
    REPLY_AND_RECEIVE = const Call::ReplyAndReceive as u8,
    MXCSR = const tcb::MXCSR,
    call = sym calls::call,
    EXCEPTION_END = const size_of::<ExceptionFrame>(),
    fault = sym calls::fault,
    fault_told = sym calls::fault_told,
);

const _: () = assert!(size_of::<Frame>() == 12 * 8 && offset_of!(Frame, words) == 3 * 8);
const _: () = assert!(MAX_CPUS <= 16, "the stubs");
