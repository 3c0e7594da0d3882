//! Interrupt and exception entry, in assembly.
//!
//! **Interrupts** run on IST1, which points into the running thread's [`TrapFrame`]: the stub stores the
//! caller-saved registers below the CPU's own frame, moves to the interrupt stack and calls Rust. Storing below `rsp`
//! is safe here: the frame belongs to this interrupt alone, interrupts are off, and NMI and exceptions have stacks of
//! their own. The third instruction is `rdtsc`: that is the interrupt's time stamp.
//!
//! Leaving: the handler itself drops the preempt count by one hardirq; if it becomes zero (no one forbids it and a
//! reschedule is due) it names the next thread. Only then are the callee-saved registers stored.
//!
//! The idle thread in its halt has no state worth keeping: an interrupt that finds `halted` set stores nothing, and the
//! idle thread begins anew the next time.
//!
//! **Exceptions** run on stacks of their own (IST2 to IST5) with all registers pushed.
//!
//! Source: Intel SDM vol. 3A, 6.12 and 6.14.

use core::arch::global_asm;
use core::mem::offset_of;

use super::frame::TrapFrame;
use super::percpu;
use crate::thread::tcb::Tcb;

macro_rules! frame {
    ($field:ident) => {
        offset_of!(TrapFrame, $field)
    };
}

global_asm!(
    // Stores the registers that Rust may clobber, except rax, rdx (stored by the stub before its rdtsc).
    // On entry rsp is at the frame's rip; afterwards rdi = time stamp, rsp = interrupt stack.
    ".macro TAKT_IRQ_SAVE",
    "mov [rsp - {RIP} + {RCX}], rcx",
    "mov [rsp - {RIP} + {RSI}], rsi",
    "mov [rsp - {RIP} + {RDI}], rdi",
    "mov [rsp - {RIP} + {R8}], r8",
    "mov [rsp - {RIP} + {R9}], r9",
    "mov [rsp - {RIP} + {R10}], r10",
    "mov [rsp - {RIP} + {R11}], r11",
    ".set i, 0",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movaps [rsp - {RIP} + 16 * \\n], xmm\\n",
    ".endr",
    "shl rdx, 32",
    "lea rdi, [rax + rdx]",
    "add byte ptr gs:[{PREEMPT}], {HARDIRQ}",
    "mov rsp, gs:[{IRQ_STACK_TOP}]",
    ".endm",
    //
    ".section .text.hot.irq, \"ax\"",
    ".global takt_irq_timer",
    ".balign 16",
    "takt_irq_timer:",
    "mov [rsp - {RIP} + {RAX}], rax",
    "mov [rsp - {RIP} + {RDX}], rdx",
    "rdtsc",
    "cmp byte ptr gs:[{HALTED}], 0",
    "jne takt_irq_timer_idle",
    "TAKT_IRQ_SAVE",
    "call {timer_interrupt}",
    // falls through
    "takt_irq_exit:",
    "test rax, rax", // the next thread, or 0 for the same one
    "jnz 3f",
    "takt_irq_return:",
    "mov rsp, gs:[{CURRENT}]",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movaps xmm\\n, [rsp + 16 * \\n]",
    ".endr",
    "mov r11, [rsp + {R11}]",
    "mov r10, [rsp + {R10}]",
    "mov r9, [rsp + {R9}]",
    "mov r8, [rsp + {R8}]",
    "mov rdi, [rsp + {RDI}]",
    "mov rsi, [rsp + {RSI}]",
    "mov rcx, [rsp + {RCX}]",
    "mov rdx, [rsp + {RDX}]",
    "mov rax, [rsp + {RAX}]",
    "add rsp, {RIP}",
    "iretq",
    "3:",
    "mov rsi, rax",
    "mov [rdx + {RBX}], rbx",
    "mov [rdx + {RBP}], rbp",
    "mov [rdx + {R12}], r12",
    "mov [rdx + {R13}], r13",
    "mov [rdx + {R14}], r14",
    "mov [rdx + {R15}], r15",
    "stmxcsr [rdx + {MXCSR}]",
    "mov qword ptr [rdx + {RESUME}], offset takt_resume_preempted",
    "jmp [rsi + {RESUME}]",
    //
    ".global takt_resume_preempted",
    "takt_resume_preempted:", // rsi = the thread
    "mov rbx, [rsi + {RBX}]",
    "mov rbp, [rsi + {RBP}]",
    "mov r12, [rsi + {R12}]",
    "mov r13, [rsi + {R13}]",
    "mov r14, [rsi + {R14}]",
    "mov r15, [rsi + {R15}]",
    "ldmxcsr [rsi + {MXCSR}]",
    "jmp takt_irq_return", // CURRENT already names this thread
    //
    // The timer's interrupt that ends a halt before the deadline does nothing else. Found anywhere but there it is the
    // timer's: its deadline was not reached, so that the handler arms it again.
    ".global takt_irq_early_timer",
    ".balign 16",
    "takt_irq_early_timer:",
    "cmp qword ptr [rsp], offset takt_early_halted",
    "jne takt_irq_timer",
    "mov dword ptr [__lapic_page + 0xb0], 0",
    "iretq",
    ".global takt_halt_early",
    "takt_halt_early:",
    "sti",
    "hlt",
    "takt_early_halted:",
    "cli",
    "ret",
    //
    ".global takt_irq_kick",
    ".balign 16",
    "takt_irq_kick:",
    "mov [rsp - {RIP} + {RAX}], rax",
    "mov [rsp - {RIP} + {RDX}], rdx",
    "rdtsc",
    "TAKT_IRQ_SAVE",
    "mov byte ptr gs:[{HALTED}], 0", // should it have found the idle thread halted: all was saved
    "call {kick_interrupt}",
    "jmp takt_irq_exit",
    //
    // The timer found the idle thread halted: it has no state worth keeping, so nothing is stored.
    "takt_irq_timer_idle:",
    "shl rdx, 32",
    "lea rdi, [rax + rdx]",
    "add byte ptr gs:[{PREEMPT}], {HARDIRQ}",
    "mov rsp, gs:[{IRQ_STACK_TOP}]",
    "mov byte ptr gs:[{HALTED}], 0",
    "call {timer_interrupt_idle}",
    "ud2",
    ".global takt_resume_idle",
    "takt_resume_idle:", // rsi = the idle thread
    "mov rsp, [rsi + {STACK_TOP}]",
    "xor ebp, ebp",
    "call {idle}",
    "ud2",
    //
    // Device interrupts: two-instruction stubs, one per vector from 32 up, 8 bytes apart.
    ".global takt_irq_stubs",
    ".balign 8",
    "takt_irq_stubs:",
    ".set vector, 32",
    ".rept {NR_STUBS}",
    ".balign 8",
    "push vector",
    "jmp takt_irq_common",
    ".set vector, vector + 1",
    ".endr",
    ".global takt_irq_unexpected",
    ".balign 8",
    "takt_irq_unexpected:",
    "push 0",
    "takt_irq_common:",
    "add rsp, 8", // back to the frame's rip; the vector's slot lies below it
    "mov [rsp - {RIP} + {RAX}], rax",
    "mov [rsp - {RIP} + {RDX}], rdx",
    "rdtsc",
    "TAKT_IRQ_SAVE",
    "mov byte ptr gs:[{HALTED}], 0",
    "mov rsi, gs:[{CURRENT}]",
    "mov rsi, [rsi + {VECTOR}]",
    "call {device_interrupt}",
    "jmp takt_irq_exit",
    //
    // The spurious vector: nothing was delivered, nothing is acknowledged.
    ".global takt_irq_spurious",
    "takt_irq_spurious:",
    "inc qword ptr gs:[{NR_UNEXPECTED}]",
    "iretq",
    //
    // Exceptions. Those marked 1 push an error code themselves.
    ".section .text.exceptions, \"ax\"",
    ".macro TAKT_EXC vector, has_code",
    ".balign 16",
    ".if \\has_code == 0",
    "push 0",
    ".endif",
    "push \\vector",
    "jmp takt_exc_common",
    ".endm",
    ".global takt_exc_stubs",
    ".balign 16",
    "takt_exc_stubs:",
    ".irp v, 0,1,2,3,4,5,6,7",
    "TAKT_EXC \\v, 0",
    ".endr",
    "TAKT_EXC 8, 1",
    "TAKT_EXC 9, 0",
    ".irp v, 10,11,12,13,14",
    "TAKT_EXC \\v, 1",
    ".endr",
    "TAKT_EXC 15, 0",
    "TAKT_EXC 16, 0",
    "TAKT_EXC 17, 1",
    ".irp v, 18,19,20",
    "TAKT_EXC \\v, 0",
    ".endr",
    "TAKT_EXC 21, 1",
    ".irp v, 22,23,24,25,26,27,28",
    "TAKT_EXC \\v, 0",
    ".endr",
    "TAKT_EXC 29, 1",
    "TAKT_EXC 30, 1",
    "TAKT_EXC 31, 0",
    "takt_exc_common:",
    ".irp r, rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14,r15",
    "push \\r",
    ".endr",
    "mov rdi, rsp",
    "sub rsp, 512",
    "clts", // else #NM would be raised here again, for ever
    "fxsave64 [rsp]",
    "cld",
    "call {exception}",
    "fxrstor64 [rsp]",
    "add rsp, 512",
    ".irp r, r15,r14,r13,r12,r11,r10,r9,r8,rbp,rdi,rsi,rdx,rcx,rbx,rax",
    "pop \\r",
    ".endr",
    "add rsp, 16",
    "iretq",
    //
    // First instructions of a new thread: rsi = its control block, interrupts off.
    ".section .text.hot.start, \"ax\"",
    ".global takt_resume_new",
    "takt_resume_new:",
    "mov rsp, [rsi + {RSP}]",
    "ldmxcsr [rsi + {MXCSR}]",
    "xor ebp, ebp",
    "mov rdi, [rsi + {ENTRY}]",
    "mov rsi, [rsi + {ARG}]",
    "call {thread_main}",
    "ud2",
    ".text",
    RIP = const frame!(rip),
    RAX = const frame!(rax),
    RBX = const frame!(rbx),
    RCX = const frame!(rcx),
    RDX = const frame!(rdx),
    RSI = const frame!(rsi),
    RDI = const frame!(rdi),
    RBP = const frame!(rbp),
    R8 = const frame!(r8),
    R9 = const frame!(r9),
    R10 = const frame!(r10),
    R11 = const frame!(r11),
    R12 = const frame!(r12),
    R13 = const frame!(r13),
    R14 = const frame!(r14),
    R15 = const frame!(r15),
    MXCSR = const frame!(mxcsr),
    VECTOR = const frame!(vector),
    RESUME = const offset_of!(Tcb, resume),
    STACK_TOP = const offset_of!(Tcb, stack_top),
    RSP = const offset_of!(Tcb, rsp),
    // A thread that has not run keeps its entry and argument where its registers will rest.
    ENTRY = const frame!(rdi),
    ARG = const frame!(rsi),
    PREEMPT = const percpu::PREEMPT,
    HARDIRQ = const percpu::HARDIRQ,
    IRQ_STACK_TOP = const percpu::IRQ_STACK_TOP,
    CURRENT = const percpu::CURRENT,
    HALTED = const offset_of!(percpu::PerCpu, halted),
    idle = sym crate::boot::idle,
    NR_UNEXPECTED = const offset_of!(percpu::PerCpu, nr_unexpected),
    NR_STUBS = const super::interrupts::NR_DEVICE_VECTORS,
    timer_interrupt_idle = sym crate::time::timer_interrupt_idle,
    timer_interrupt = sym crate::time::timer_interrupt,
    kick_interrupt = sym crate::smp::kick_interrupt,
    device_interrupt = sym crate::irq::device_interrupt,
    exception = sym super::exceptions::exception,
    thread_main = sym crate::thread::thread_main,
);

// The frame is the first part of the control block: `CURRENT` points to both.
const _: () = assert!(offset_of!(Tcb, frame) == 0);
