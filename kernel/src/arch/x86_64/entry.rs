//! Interrupt and exception entry, in assembly.
//!
//! **Interrupts** run on IST1, which points to the end of the running thread's [`TrapFrame`]: the stub stores the
//! caller-saved registers below the CPU's own frame, moves to the interrupt stack and calls Rust. Storing below `rsp`
//! is safe here: the frame belongs to this interrupt alone, interrupts are off, and NMI and exceptions have stacks of
//! their own. The timer's third instruction is `rdtsc`: that is the interrupt's time stamp.
//!
//! Leaving: the preempt count drops by one hardirq; if it becomes zero (no one forbids it and a reschedule is due) the
//! next thread is chosen. Only then are the callee-saved registers stored.
//!
//! Of the SSE registers the stub stores two; all of them and MXCSR where it has come upon code that may use more (see
//! [`super::sse`]).
//!
//! The idle thread that waits has no state worth keeping: the timer's interrupt that finds it at that one place stores
//! nothing, and the idle thread begins anew the next time.
//!
//! **Exceptions** run on stacks of their own (IST2 to IST5) with all registers pushed.
//!
//! With feature `tasks` what is interrupted may be a task in ring 3, which has whatever it likes in `gs`'s base, in DF, AC and
//! MXCSR, and in `rip`: so each entry loads the base, from the running thread's block or from above the exception's frame,
//! and none concludes anything from a `rip` of ring 3. All SSE registers of a task are kept. A task's exception goes on on its
//! thread's own stack, in the kernel.
//!
//! Source: Intel SDM vol. 3A, 6.12 and 6.14.

use core::arch::global_asm;
use core::mem::offset_of;

use super::frame::{ExceptionFrame, TrapFrame};
use super::percpu;
use super::place::{TIMED, recorded_place_text};
use super::proof::{handles, resumed, resumes, told};
use super::sse::{keeps, mxcsr, where_uses_more};
use crate::irq;
use crate::thread::tcb::{self, Tcb};

macro_rules! frame {
    ($field:ident) => {
        offset_of!(TrapFrame, $field)
    };
}

/// Instructions of images with tasks.
#[cfg(feature = "tasks")]
macro_rules! tasks {
    ($($instruction:expr),+ $(,)?) => {
        concat!($($instruction, "\n",)+)
    };
}

/// Bytes at the top of a task's stack in the kernel that an exception leaves to messages.
#[cfg(feature = "tasks")]
const TASK_FRAME: usize = size_of::<crate::task::frame::Frame>();
#[cfg(not(feature = "tasks"))]
const TASK_FRAME: usize = 0;

/// Elsewhere they are a comment, in which the operands stand that are theirs alone.
#[cfg(not(feature = "tasks"))]
macro_rules! tasks {
    ($($instruction:expr),+ $(,)?) => {
        concat!("/* ", $($instruction, " ",)+ "*/")
    };
}

global_asm!(
    // `clac`, which `ring3` makes a NOP on a CPU that has none.
    tasks!(
        ".pushsection .rodata.takt_clac, \"a\"",
        "takt_clac_start:",
        ".popsection",
        ".macro TAKT_CLAC",
        "777: .byte 0x0f, 0x01, 0xca",
        ".pushsection .rodata.takt_clac, \"a\"",
        ".long 777b",
        ".popsection",
        ".endm",
    ),
    // Stores the registers that Rust may clobber, except rax, rcx, rdx, which the stub stores itself, two of them
    // before its rdtsc. On entry rsp is at the frame's rip; afterwards \at = time stamp, rsp = interrupt stack.
    ".macro TAKT_IRQ_SAVE at",
    "mov [rsp - {RIP} + {RSI}], rsi",
    "mov [rsp - {RIP} + {RDI}], rdi",
    tasks!(
        "mov rsi, [rsp - {RIP} + {END} + {GS}]",
        "wrgsbase rsi",
        "cld",
        "TAKT_CLAC",
    ),
    "mov [rsp - {RIP} + {R8}], r8",
    "mov [rsp - {RIP} + {R9}], r9",
    "mov [rsp - {RIP} + {R10}], r10",
    "mov [rsp - {RIP} + {R11}], r11",
    "movaps [rsp - {RIP}], xmm0",
    "movaps [rsp - {RIP} + 16], xmm1",
    tasks!("test byte ptr [rsp + 8], 3", "jnz 9f"),
    where_uses_more!("cmp qword ptr [rsp]"),
    "jb 9f",
    "8:",
    "shl rdx, 32",
    "lea \\at, [rax + rdx]",
    "add byte ptr gs:[{PREEMPT}], {HARDIRQ}",
    "mov rsp, gs:[{IRQ_STACK_TOP}]",
    ".pushsection .text.hot.irq_all, \"ax\"",
    "9:",
    "lea r11, [rip + 8b]",
    "jmp takt_irq_save_all",
    ".popsection",
    ".endm",
    //
    ".section .text.hot.irq, \"ax\"",
    ".global takt_irq_timer",
    ".balign {ALIGN}",
    "takt_irq_timer:",
    "mov [rsp - {RIP} + {RAX}], rax",
    "mov [rsp - {RIP} + {RDX}], rdx",
    "rdtsc",
    "cmp qword ptr [rsp], offset takt_idle_waiting",
    "je takt_irq_timer_idle",
    tasks!("takt_irq_timer_task:"),
    "mov [rsp - {RIP} + {RCX}], rcx",
    "TAKT_IRQ_SAVE rdi",
    "call {timer_interrupt}",
    // falls through
    "takt_irq_exit:",
    "test rax, rax", // the next thread, or 0 for the same one
    "jz takt_irq_return",
    "takt_irq_switch:", // rax = the next thread, rdx = the one that is left
    "mov [rdx - {END} + {RBX}], rbx",
    "mov [rdx - {END} + {RBP}], rbp",
    "mov [rdx - {END} + {R12}], r12",
    "mov [rdx - {END} + {R13}], r13",
    "mov [rdx - {END} + {R14}], r14",
    "mov [rdx - {END} + {R15}], r15",
    "mov qword ptr [rdx + {RESUME}], offset takt_resume_preempted",
    resumes!("jmp [rax + {RESUME}]"),
    //
    ".global takt_resume_preempted",
    "takt_resume_preempted:", // rax = the thread
    resumed!(""),
    told!("", "23"),
    // The kernel needs no task's space.
    tasks!(
        "test byte ptr [rax - {END} + {RIP} + 8], 3",
        "jnz takt_resume_task",
        ".global takt_resume_preempted_rest",
        "takt_resume_preempted_rest:",
    ),
    "mov rbx, [rax - {END} + {RBX}]",
    "mov rbp, [rax - {END} + {RBP}]",
    "mov r12, [rax - {END} + {R12}]",
    "mov r13, [rax - {END} + {R13}]",
    "mov r14, [rax - {END} + {R14}]",
    "mov r15, [rax - {END} + {R15}]",
    // falls through: CURRENT already names this thread
    //
    // Diverted while a tracer wants to hear of it (see `divert`): a NOP for that would cost each return.
    ".global takt_irq_return",
    "takt_irq_return:",
    "mov rsp, gs:[{CURRENT}]", // the frame's end
    ".global takt_irq_return_rest",
    "takt_irq_return_rest:",
    "movaps xmm0, [rsp - {END}]",
    "movaps xmm1, [rsp - {END} + 16]",
    tasks!("test byte ptr [rsp - {END} + {RIP} + 8], 3", "jnz takt_irq_return_all"),
    where_uses_more!("cmp qword ptr [rsp - {END} + {RIP}]"),
    "jb takt_irq_return_all",
    "takt_irq_return_general:",
    "mov r11, [rsp - {END} + {R11}]",
    "mov r10, [rsp - {END} + {R10}]",
    "mov r9, [rsp - {END} + {R9}]",
    "mov r8, [rsp - {END} + {R8}]",
    "mov rdi, [rsp - {END} + {RDI}]",
    "mov rsi, [rsp - {END} + {RSI}]",
    "mov rcx, [rsp - {END} + {RCX}]",
    "mov rdx, [rsp - {END} + {RDX}]",
    "mov rax, [rsp - {END} + {RAX}]",
    "sub rsp, {END} - {RIP}",
    "iretq",
    //
    // The interrupted code may use more: the other SSE registers, and MXCSR.
    "takt_irq_save_all:", // r11 = where to go on
    keeps!(
        ".irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "movaps [rsp - {RIP} + 16 * \\n], xmm\\n",
        ".endr",
        "stmxcsr [rsp - {RIP} + {END} + {MXCSR}]",
        tasks!("ldmxcsr [rip + takt_mxcsr]"),
    ),
    "jmp r11",
    "takt_irq_return_all:",
    keeps!(
        ".irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "movaps xmm\\n, [rsp - {END} + 16 * \\n]",
        ".endr",
        "ldmxcsr [rsp + {MXCSR}]",
    ),
    "jmp takt_irq_return_general",
    //
    // The timer's interrupt that ends a halt before the deadline does nothing else. Found anywhere but there it is the
    // timer's: its deadline was not reached, so that the handler arms it again.
    ".global takt_irq_early_timer",
    ".balign 16",
    "takt_irq_early_timer:",
    "cmp qword ptr [rsp], offset takt_early_halted",
    "jne takt_irq_timer",
    tasks!("test byte ptr [rsp + 8], 3", "jnz takt_irq_timer"),
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
    // How the idle thread waits: in a halt, or by going round at one instruction until the timer's interrupt comes, which
    // ends either. Any other interrupt comes back to the same place: out of the halt, or to the rest of the rounds. That
    // is why they are counted: the timer's interrupt may have come elsewhere meanwhile.
    ".global takt_idle_halt",
    "takt_idle_halt:",
    "mov ecx, 1",
    "sti",
    "hlt",
    "takt_idle_waiting:",
    "loop takt_idle_waiting",
    "ret",
    ".global takt_idle_spin",
    "takt_idle_spin:", // rdi = rounds
    "mov rcx, rdi",
    "sti",
    "jmp takt_idle_waiting",
    //
    ".global takt_irq_kick",
    ".balign {ALIGN}",
    "takt_irq_kick:",
    "mov [rsp - {RIP} + {RAX}], rax",
    "mov [rsp - {RIP} + {RDX}], rdx",
    "rdtsc",
    "mov [rsp - {RIP} + {RCX}], rcx",
    "TAKT_IRQ_SAVE rdi",
    "call {kick_interrupt}",
    "jmp takt_irq_exit",
    //
    // The timer found the idle thread waiting: it has no state worth keeping, so nothing is stored.
    ".balign {LABEL_ALIGN}",
    "takt_irq_timer_idle:",
    tasks!("test byte ptr [rsp + 8], 3", "jnz takt_irq_timer_task"),
    "shl rdx, 32",
    "lea rdi, [rax + rdx]",
    "add byte ptr gs:[{PREEMPT}], {HARDIRQ}",
    "mov rsp, gs:[{IRQ_STACK_TOP}]",
    "call {timer_interrupt_idle}",
    "ud2",
    ".global takt_resume_idle",
    ".balign {LABEL_ALIGN}",
    "takt_resume_idle:", // rax = the idle thread
    mxcsr!(
        [resumed!("mov rsp, [rax + {STACK_TOP}]"), "ldmxcsr [rax + {MXCSR}]"],
        without: [".byte 0x3e, 0x3e, 0x3e, 0x3e, 0x48, 0x8b, 0xa0", ".long {STACK_TOP}"]
    ),
    "xor ebp, ebp",
    "call {idle}",
    "ud2",
    //
    // Device interrupts: three-instruction stubs, one per vector, 16 bytes apart; the last is that of all
    // unexpected vectors. Each loads the address of its slot in the table of handlers.
    ".global takt_irq_stubs",
    ".balign 16",
    "takt_irq_stubs:",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32",
    ".balign 16",
    "mov [rsp - {RIP} + {RCX}], rcx",
    "mov ecx, offset {handlers} + {SLOT_SIZE} * \\n",
    "jmp takt_irq_device",
    ".endr",
    //
    ".balign {ALIGN}",
    ".global takt_irq_device",
    "takt_irq_device:",
    "mov [rsp - {RIP} + {RAX}], rax",
    "mov [rsp - {RIP} + {RDX}], rdx",
    "rdtsc",
    "TAKT_IRQ_SAVE rsi",
    "inc qword ptr gs:[{NR_IRQS}]",
    // A place as `recorded_place!` makes them, with the time stamp; the hook finds the slot in rcx.
    ".if {TRACE}",
    recorded_place_text!("{hook}", "push rsi", "takt_irq_device_recorded"),
    "takt_irq_device_handle:",
    ".if {ASSERTS}",
    "jmp takt_irq_device_traced",
    ".endif",
    // A static branch as `static_branch!` makes them.
    "4: .byte 0xa9",
    ".long takt_irq_device_traced - . - 4",
    ".pushsection .takt.jump_table, \"a\", @progbits",
    ".long 4b",
    ".short {irq_handler_exit}",
    ".popsection",
    ".endif",
    // In this order: `register` stores the argument first, perhaps on another CPU.
    ".if {MAX_CPUS} > 1",
    "mov rax, [rcx + {SLOT_HANDLER}]",
    "mov rdi, [rcx + {SLOT_ARGUMENT}]",
    handles!("call rax"),
    ".else",
    "mov rdi, [rcx + {SLOT_ARGUMENT}]",
    handles!("call [rcx + {SLOT_HANDLER}]"),
    ".endif",
    "takt_irq_device_end:",
    "mov dword ptr [__lapic_page + 0xb0], 0",
    "sub byte ptr gs:[{PREEMPT}], {HARDIRQ}",
    "jnz takt_irq_return",
    "call {irq_schedule}",
    "test rax, rax",
    "jnz takt_irq_switch",
    "jmp takt_irq_return",
    ".if {TRACE}",
    "takt_irq_device_recorded:",
    "push rcx",
    "push rsi",
    "mov rdi, rcx",
    "call {device_irq_recorded}",
    "pop rsi",
    "pop rcx",
    "jmp takt_irq_device_handle",
    "takt_irq_device_traced:",
    "mov rdi, rcx",
    "call {traced_device_interrupt}",
    "jmp takt_irq_device_end",
    ".endif",
    //
    // The spurious vector: nothing was delivered, nothing is acknowledged.
    ".global takt_irq_spurious",
    "takt_irq_spurious:",
    tasks!(
        "mov [rsp - {RIP} + {RSI}], rsi",
        "mov rsi, [rsp - {RIP} + {END} + {GS}]",
        "wrgsbase rsi",
        "mov rsi, [rsp - {RIP} + {RSI}]",
    ),
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
    tasks!(
        "mov rax, [rsp + {EXCEPTION_END}]",
        "wrgsbase rax",
        "cld",
        "TAKT_CLAC",
        "test byte ptr [rsp + {EXCEPTION_CS}], 3",
        "jnz takt_exc_task",
        "takt_exc_kernel:",
    ),
    "mov rdi, rsp",
    "sub rsp, 512",
    "clts", // else #NM would be raised here again, for ever
    keeps!("fxsave64 [rsp]", tasks!("ldmxcsr [rip + takt_mxcsr]")),
    "cld",
    "call {exception}",
    keeps!("fxrstor64 [rsp]"),
    "add rsp, 512",
    ".irp r, r15,r14,r13,r12,r11,r10,r9,r8,rbp,rdi,rsi,rdx,rcx,rbx,rax",
    "pop \\r",
    ".endr",
    "add rsp, 16",
    "iretq",
    // What a task has raised itself goes on in its thread, on that thread's stack. NMI, double fault and machine check are not
    // its doing.
    tasks!(
        "takt_exc_task:",
        "mov ecx, [rsp + {EXCEPTION_VECTOR}]",
        "mov edx, 0x40104",
        "bt edx, ecx",
        "jc takt_exc_kernel",
        "mov rax, gs:[{CURRENT}]",
        "mov rdi, [rax + {STACK_TOP}]",
        "sub rdi, {EXCEPTION_END} + {TASK_FRAME}",
        "mov rsi, rsp",
        "mov ecx, {EXCEPTION_END} / 8",
        "mov rsp, rdi",
        "rep movsq",
        "mov rsi, cr2", // takes the place of ss, which is the same for all tasks
        "jmp takt_ipc_fault",
        ".pushsection .rodata.takt_clac, \"a\"",
        "takt_clac_end:",
        ".popsection",
    ),
    //
    // First instructions of a new thread: rax = its control block, interrupts off.
    ".section .text.hot.start, \"ax\"",
    ".global takt_resume_new",
    ".balign {LABEL_ALIGN}",
    "takt_resume_new:",
    mxcsr!(
        [resumed!("mov rsp, [rax + {RSP}]"), "ldmxcsr [rax + {MXCSR}]"],
        without: [".byte 0x3e, 0x48, 0x8b, 0xa0", ".long {RSP}"]
    ),
    "xor ebp, ebp",
    "mov rdi, [rax + {ARG}]",
    "mov rsi, [rax + {ENTRY}]",
    "call {thread_main}",
    "ud2",
    ".text",
    // Who calls a function is recorded as a block of code: none has two callers.
    ALIGN = const if cfg!(feature = "function") { 64 } else { 16 },
    LABEL_ALIGN = const if cfg!(feature = "function") { 64 } else { 1 },
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
    END = const size_of::<TrapFrame>(),
    MXCSR = const offset_of!(Tcb, mxcsr),
    GS = const tcb::GS,
    EXCEPTION_END = const size_of::<ExceptionFrame>(),
    TASK_FRAME = const TASK_FRAME,
    EXCEPTION_VECTOR = const offset_of!(ExceptionFrame, vector),
    EXCEPTION_CS = const offset_of!(ExceptionFrame, cs),
    RESUME = const offset_of!(Tcb, resume),
    STACK_TOP = const offset_of!(Tcb, stack_top),
    RSP = const offset_of!(Tcb, rsp),
    ENTRY = const offset_of!(Tcb, exchange),
    ARG = const offset_of!(Tcb, exchange2),
    PREEMPT = const percpu::PREEMPT,
    HARDIRQ = const percpu::HARDIRQ,
    IRQ_STACK_TOP = const percpu::IRQ_STACK_TOP,
    CURRENT = const percpu::CURRENT,
    NR_IRQS = const percpu::behind_gs(offset_of!(percpu::PerCpu, nr_irqs)),
    idle = sym crate::idle::idle,
    NR_UNEXPECTED = const percpu::behind_gs(offset_of!(percpu::PerCpu, nr_unexpected)),
    SLOT_SIZE = const irq::SLOT_SIZE,
    SLOT_HANDLER = const irq::SLOT_HANDLER,
    SLOT_ARGUMENT = const irq::SLOT_ARGUMENT,
    MAX_CPUS = const crate::config::MAX_CPUS,
    TRACE = const crate::parts::TRACE as u8,
    ASSERTS = const cfg!(feature = "asserts") as u8,
    handlers = sym irq::HANDLERS,
    key = sym crate::probe::places::IRQ_ENTRY,
    timed = sym TIMED,
    hook = sym crate::trace::hooks::device_irq_entered,
    device_irq_recorded = sym irq::device_irq_recorded,
    irq_handler_exit = sym crate::probe::events::irq_handler_exit::ID,
    traced_device_interrupt = sym irq::traced_device_interrupt,
    irq_schedule = sym crate::switch::irq_schedule,
    timer_interrupt_idle = sym crate::expiry::timer_interrupt_idle,
    timer_interrupt = sym crate::expiry::timer_interrupt,
    kick_interrupt = sym crate::expiry::kick_interrupt,
    exception = sym super::exceptions::exception,
    thread_main = sym crate::thread::exit::thread_main,
);

// The stubs of all device vectors, and the last one.
const _: () = assert!(super::interrupts::NR_DEVICE_VECTORS == 32);
