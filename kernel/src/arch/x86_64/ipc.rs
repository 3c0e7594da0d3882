//! The short way of a message between tasks, in one stretch of assembly: from the caller's ring 3 to the receiver's, and back.
//!
//! Its model is [`Port::begin_call`](crate::task::object::Port) and what belongs to it: both leave the same behind, and where this
//! finds anything unusual it has changed nothing and goes the long way (`takt_call_slow`). It is for one CPU on which nothing is
//! traced, no switch is due and interrupts have been off since `syscall`:
//!
//! * **Call**: the receiver waits to receive, and the caller has no equals. The receiver takes the caller's place in the run
//!   queue, or its own where it is more important.
//! * **Notification**: the receiver waits for it, and is more important. It preempts the caller, which has what a call goes back by in its
//!   frame.
//! * **Reply**: the caller is the only one, less important than the task itself, and has not come to wait yet: as after a fault.
//! * **Fault**: the supervisor waits to receive, and is more important. It preempts the task's thread, which says later on what else
//!   has to be said.
//! * **Reply and receive**: the caller is the only one who waits for the task, nothing has arrived, there is no time-out, and the
//!   caller is who runs next.
//!
//! Both threads wait in a call and without a time-out, so that nothing of them is on their stacks but what a call goes back by, and
//! it does not matter by which way they came. The message stays in its six registers.

use core::arch::global_asm;
use core::mem::offset_of;

use takt_abi::{Call, FaultKind, NOTIFICATIONS};
use takt_scheduler::{Links, PrioCounts, PrioQueue, RunQueue};

use super::frame::ExceptionFrame;
use super::percpu::{self, PerCpu};
use super::space;
use super::sse::keeps;
use crate::config::MAX_THREADS;
use crate::cpu_sched::CpuSched;
use crate::sync::{pi, served};
use crate::task::frame::Frame;
use crate::task::object::{GONE, Handles, MAX_PEERS, Port, Task};
use crate::thread::tcb::{self, Tcb, Wait};

/// Where something of a task is behind its space.
macro_rules! behind_space {
    ($($of:expr),+) => {
        0isize $(+ $of as isize)+ - offset_of!(Task, space) as isize
    };
}

/// Where something of this CPU's run queue is.
const fn of_run_queue(offset: usize) -> usize {
    let sched = offset_of!(PerCpu, sched) + offset_of!(CpuSched, rq);
    percpu::behind_gs(sched + offset)
}

/// Where this CPU's links of the run queue are.
const NEXT: usize = percpu::behind_gs(
    offset_of!(PerCpu, sched) + offset_of!(CpuSched, links) + Links::<MAX_THREADS, u32>::NEXT,
);

/// A bit for each exception that is a kind of fault.
const fn kinds() -> u32 {
    let (mut kinds, mut at) = (0, 0);
    while at < FaultKind::ALL.len() {
        let number = FaultKind::ALL[at] as u32;
        if number < 32 {
            kinds |= 1 << number;
        }
        at += 1;
    }
    kinds
}

const PORT: isize = behind_space!(offset_of!(Task, port));

global_asm!(
    ".section .text.hot.task, \"ax\"",
    // rdi = the running thread, r8 = its space; what a call goes back by is on its stack.
    ".macro TAKT_IPC_BEGIN",
    "mov rdi, gs:[{CURRENT}]",
    "mov rsp, [rdi + {STACK_TOP}]",
    "push gs:[{TASK_RSP}]",
    "push rcx",
    "push r11",
    "cmp byte ptr gs:[{PREEMPT}], {NO_RESCHED}",
    "jne takt_call_slow",
    "cmp dword ptr [takt_listeners], 0",
    "jne takt_call_slow",
    "mov r8, [rdi + {SPACE}]",
    ".endm",
    //
    // From the space in r8, which is in force, to the thread in r10, whose call gives rdx.
    ".macro TAKT_IPC_GO",
    keeps!("fxsave64 [r8 + {FPU}]"),
    "TAKT_IPC_ENTER",
    ".endm",
    //
    // The same where nothing of that space is kept.
    ".macro TAKT_IPC_ENTER",
    "xor eax, eax",
    "mov ds, eax",
    "mov es, eax",
    "lfs r9d, [takt_null]",
    "mov r8, [r10 + {SPACE}]",
    "mov rsi, [r8 + {FS}]",
    "wrfsbase rsi",
    keeps!("fxrstor64 [r8 + {FPU}]"),
    "mov gs:[{LIVE}], r8",
    "mov gs:[{ACTIVE}], r8",
    "mov cr3, r8",
    "mov rsp, [r10 + {STACK_TOP}]",
    // Nothing of the kernel goes by it from here on, and each entry loads its base.
    "lgs r10d, [takt_null]",
    "mov r11, [rsp - {FRAME} + {RFLAGS}]",
    "mov rcx, [rsp - {FRAME} + {RIP}]",
    "mov rsp, [rsp - {FRAME} + {RSP}]",
    "xor edi, edi",
    "xor r8d, r8d",
    "sysretq",
    ".endm",
    //
    // The running thread, of the number and priority in r11 and esi, waits to be served by the port in r9, and its thread in r10
    // inherits.
    ".macro TAKT_IPC_LEND",
    "mov [rdi + {WAIT_QUEUE}], r9",
    "mov [rdi + {BLOCKED_ON}], r9",
    "mov [r9 + {SOLE}], r11w",
    "mov [rdi + {WAIT_PRIO}], sil",
    "bts qword ptr [r10 + {INHERITS}], rsi",
    "mov byte ptr [r10 + rsi + {COUNTS}], 1",
    "mov r11b, {SOME}",
    "mov [r9 + {TOP}], r11w",
    "mov dword ptr [r9 + {OPEN}], 0",
    "mov [r9 + {CALLER}], rdi",
    ".endm",
    //
    // The run queue's first is the thread whose number is in ch, alone at its rank in rax.
    ".macro TAKT_IPC_FIRST",
    "bts qword ptr gs:[{LEVELS}], rax",
    "mov gs:[rax + {HEAD}], ch",
    "movzx ecx, ch",
    "shl eax, 8",
    "or eax, ecx",
    "mov gs:[{RUNNING}], ax",
    "mov gs:[{BEST}], ax",
    ".endm",
    //
    // The thread in r10, which waits, is made the running one; it is more important than all that are ready, by its rank in rax.
    ".macro TAKT_IPC_PREEMPT",
    "mov dword ptr [r10 + {WOKEN}], {READY}",
    "movzx ecx, word ptr [r10 + {CONTEXT}]", // its id is in ch
    "mov gs:[{PREEMPT}], cx",
    "mov gs:[{CURRENT}], r10",
    "TAKT_IPC_FIRST",
    ".endm",
    //
    // rsi = the handle.
    ".global takt_ipc_call",
    "takt_ipc_call:",
    "TAKT_IPC_BEGIN",
    "cmp rsi, {MAX_PEERS}",
    "jae takt_call_slow",
    "mov r9, [r8 + rsi * 8 + {TARGETS}]",
    "mov ecx, [r8 + rsi * 4 + {CALLS}]",
    "cmp ecx, [r9 + {OPEN}]",
    "jne takt_call_slow",
    "mov r10, [r9 + {THREAD}]",
    "cmp qword ptr [r10 + {RESUME}], offset takt_resume_call",
    "jne takt_call_slow",
    "cmp dword ptr [r10 + {WOKEN}], {WAITING_TO_RECEIVE}", // for that, and by no other way
    "jne takt_call_slow",
    "movzx r11d, word ptr [rdi + {TID}]", // and its priority
    "movzx ecx, r11b",
    "cmp gs:[rcx * {LINK} + {NEXT}], cl",
    "jne takt_call_slow",
    // The caller waits to be served, and the receiver inherits.
    "mov rdx, [r8 + rsi * 8 + {VALUES}]",
    "mov dword ptr [rdi + {WOKEN}], {WAITING_IN_QUEUE}",
    "mov qword ptr [rdi + {RESUME}], offset takt_resume_call",
    "movzx esi, byte ptr [rdi + {PRIO}]",
    "TAKT_IPC_LEND",
    // The receiver runs.
    "mov dword ptr [r10 + {WOKEN}], {READY}",
    "movzx ecx, word ptr [r10 + {CONTEXT}]", // its id is in ch
    "mov gs:[{PREEMPT}], cx",
    "mov gs:[{CURRENT}], r10",
    "movzx eax, byte ptr [r10 + {PRIO}]",
    "cmp eax, esi",
    "jb 3f",
    "mov [r10 + {PRIO}], sil",
    "mov gs:[rsi + {HEAD}], ch",
    "mov gs:[{RUNNING}], ch",
    "mov gs:[{BEST}], ch",
    "2:",
    "TAKT_IPC_GO",
    "3:", // it is more important
    "btr qword ptr gs:[{LEVELS}], rsi",
    "TAKT_IPC_FIRST",
    "jmp 2b",
    //
    // rsi = notifications, rdx = time-out.
    ".global takt_ipc_reply",
    "takt_ipc_reply:",
    "TAKT_IPC_BEGIN",
    "cmp rdx, -1",
    "jne takt_call_slow",
    "test rsi, {NO_NOTIFICATIONS}",
    "jnz takt_call_slow",
    "test [r8 + {OWN_BITS}], esi",
    "jnz takt_call_slow",
    "mov r10, [r8 + {OWN_CALLER}]",
    "cmp r10, {GONE}",
    "jbe takt_call_slow",
    "movzx r11d, word ptr [r10 + {TID}]", // and its priority
    "cmp [r8 + {OWN_SOLE}], r11w",
    "jne takt_call_slow",
    "cmp dword ptr [r10 + {WOKEN}], {WAITING_IN_QUEUE}",
    "jne takt_call_slow",
    "cmp qword ptr [r10 + {RESUME}], offset takt_resume_call",
    "jne takt_call_slow",
    "movzx ecx, byte ptr [rdi + {TID}]",
    "cmp gs:[rcx * {LINK} + {NEXT}], cl",
    "jne takt_call_slow",
    "movzx r9d, byte ptr [r10 + {PRIO}]",
    "movzx ecx, byte ptr [rdi + {PRIO}]",
    "btr qword ptr [rdi + {INHERITS}], r9", // not there while it has yet to learn of another priority of the caller's
    "jnc takt_call_slow",
    "cmp ecx, r9d",
    "jne 3f",
    "2:", // nobody waits to be served any more
    "mov byte ptr [rdi + r9 + {COUNTS}], 0",
    "mov [r8 + {OWN_MASK}], esi",
    "mov word ptr [r8 + {OWN_SOLE}], 0",
    "mov word ptr [r8 + {OWN_TOP}], 0",
    "inc dword ptr [{nr_ended}]",
    "mov ecx, [r8 + {OWN_LIFE}]",
    "mov [r8 + {OWN_OPEN}], ecx",
    "mov qword ptr [r8 + {OWN_CALLER}], 0",
    "mov dword ptr [rdi + {WOKEN}], {WAITING_TO_RECEIVE}",
    "mov qword ptr [rdi + {RESUME}], offset takt_resume_call",
    "mov cl, [rdi + {BASE}]",
    "mov [rdi + {PRIO}], cl",
    // The caller runs.
    "mov qword ptr [r10 + {WAIT_QUEUE}], 0",
    "mov qword ptr [r10 + {BLOCKED_ON}], 0",
    "mov dword ptr [r10 + {WOKEN}], {READY}",
    "movzx ecx, word ptr [r10 + {CONTEXT}]",
    "mov gs:[{PREEMPT}], cx",
    "mov gs:[{CURRENT}], r10",
    "mov gs:[r9 + {HEAD}], r11b",
    "mov gs:[{RUNNING}], r11w",
    "mov gs:[{BEST}], r11w",
    "xor edx, edx",
    "TAKT_IPC_GO",
    "3:", // the task is more important itself, or has yet to lose what it inherited
    "cmp cl, [rdi + {BASE}]",
    "jne 5f",
    "btr qword ptr gs:[{LEVELS}], rcx",
    "bsf rax, gs:[{LEVELS}]",
    "jz 6f",
    "7:",
    "cmp rax, r9",
    "jbe 4f",
    "bts qword ptr gs:[{LEVELS}], r9",
    "jmp 2b",
    "6:",
    "bsf rax, gs:[{LEVELS} + 8]",
    "lea rax, [rax + 64]",
    "jnz 7b",
    "bts qword ptr gs:[{LEVELS}], r9", // no one else is ready
    "jmp 2b",
    "4:", // another thread is next
    "bts qword ptr gs:[{LEVELS}], rcx",
    "5:",
    "bts qword ptr [rdi + {INHERITS}], r9",
    "mov eax, {REPLY_AND_RECEIVE}",
    "jmp takt_call_slow",
    //
    // rsi = the handle, rdx = notifications.
    ".global takt_ipc_notify",
    "takt_ipc_notify:",
    "TAKT_IPC_BEGIN",
    "cmp rsi, {MAX_PEERS}",
    "jae takt_call_slow",
    "test rdx, {NO_NOTIFICATIONS}",
    "jnz takt_call_slow",
    "mov r9, [r8 + rsi * 8 + {TARGETS}]",
    "mov ecx, [r8 + rsi * 4 + {NOTIFIES}]",
    "cmp ecx, [r9 + {OPEN}]",
    "jne takt_call_slow",
    "mov ecx, [r9 + {BITS}]",
    "or ecx, edx",
    "mov r11d, [r9 + {MASK}]",
    "test ecx, r11d",
    "jz takt_call_slow",
    "mov r10, [r9 + {THREAD}]",
    "cmp qword ptr [r10 + {RESUME}], offset takt_resume_call",
    "jne takt_call_slow",
    "cmp dword ptr [r10 + {WOKEN}], {WAITING_TO_RECEIVE}", // for that, and by no other way
    "jne takt_call_slow",
    "movzx eax, byte ptr [r10 + {PRIO}]",
    "cmp al, [rdi + {PRIO}]",
    "jae 2f",
    // It has those that it waits for.
    "mov edx, ecx",
    "and edx, r11d",
    "xor ecx, edx",
    "mov [r9 + {BITS}], ecx",
    "mov dword ptr [r9 + {OPEN}], 0",
    // The running thread is ready, and goes on as from any call that has succeeded.
    ".irp r, r15,r14,r13,r12,rbp,rbx",
    "push \\r",
    ".endr",
    "push 0",
    "push 0",
    "mov qword ptr [rdi + {RESUME}], offset takt_resume_call",
    // The other one runs, before all others.
    "TAKT_IPC_PREEMPT",
    ".irp r, ebx,ebp,r12d,r13d,r14d,r15d",
    "xor \\r, \\r",
    ".endr",
    "TAKT_IPC_GO",
    "2:",
    "mov eax, {NOTIFY}",
    "jmp takt_call_slow",
    //
    // A reply to one that is less important and has announced its wait, but does not wait yet, as after a fault.
    ".global takt_ipc_reply_only",
    "takt_ipc_reply_only:",
    "TAKT_IPC_BEGIN",
    "mov r10, [r8 + {OWN_CALLER}]",
    "cmp r10, {GONE}",
    "jbe takt_call_slow",
    "cmp dword ptr [r10 + {WOKEN}], {ANNOUNCED}",
    "jne takt_call_slow",
    "movzx r11d, word ptr [r10 + {TID}]", // and its priority
    "cmp [r8 + {OWN_SOLE}], r11w",
    "jne takt_call_slow",
    "mov cl, [rdi + {BASE}]",
    "cmp cl, [rdi + {PRIO}]",
    "jne takt_call_slow",
    "movzx r9d, byte ptr [r10 + {PRIO}]",
    "btr qword ptr [rdi + {INHERITS}], r9", // not there while it has yet to learn of another priority of the caller's
    "jnc takt_call_slow",
    "mov byte ptr [rdi + r9 + {COUNTS}], 0",
    "mov word ptr [r8 + {OWN_SOLE}], 0",
    "mov word ptr [r8 + {OWN_TOP}], 0",
    "inc dword ptr [{nr_ended}]",
    "mov qword ptr [r8 + {OWN_CALLER}], 0",
    "mov qword ptr [r10 + {WAIT_QUEUE}], 0",
    "mov qword ptr [r10 + {BLOCKED_ON}], 0",
    "mov dword ptr [r10 + {WOKEN}], {READY}",
    "mov rcx, [r10 + {STACK_TOP}]",
    "mov qword ptr [rcx - {FRAME} + {STATUS}], 0",
    "mov qword ptr [rcx - {FRAME} + {VALUE}], 0",
    "mov [rcx - {FRAME} + {WORDS}], rbx",
    "mov [rcx - {FRAME} + {WORDS} + 8], rbp",
    "mov [rcx - {FRAME} + {WORDS} + 16], r12",
    "mov [rcx - {FRAME} + {WORDS} + 24], r13",
    "mov [rcx - {FRAME} + {WORDS} + 32], r14",
    "mov [rcx - {FRAME} + {WORDS} + 40], r15",
    ".irp r, eax,edx,esi,edi,r8d,r9d,r10d",
    "xor \\r, \\r",
    ".endr",
    "pop r11",
    "pop rcx",
    "pop rsp",
    "sysretq",
    //
    // A task's exception, with its frame at rsp and the address of a page fault in rsi: a message to the supervisor, if that is more
    // important. The thread is ready, and goes on when it is next. Whoever is pending comes in between: to it this is the task's
    // thread in the kernel. What the task had in the FPU is not kept, since it does not go on.
    ".global takt_ipc_fault",
    "takt_ipc_fault:",
    keeps!("ldmxcsr [rip + takt_mxcsr]"),
    "sti",
    // One instruction at least, or nothing comes in between.
    "mov [rsp + {ADDRESS}], rsi",
    "cli",
    "mov rdi, gs:[{CURRENT}]",
    "cmp byte ptr gs:[{PREEMPT}], {NO_RESCHED}",
    "jne takt_task_fault",
    "cmp dword ptr [takt_listeners], 0",
    "jne takt_task_fault",
    "mov r8, [rdi + {SPACE}]",
    "cmp r8, gs:[{LIVE}]", // else the FPU has another's by now
    "jne takt_task_fault",
    "mov r9, [r8 + {SUPERVISOR}]",
    "cmp dword ptr [r9 + {OPEN}], 0",
    "je takt_task_fault",
    "mov r10, [r9 + {THREAD}]",
    "cmp qword ptr [r10 + {RESUME}], offset takt_resume_call",
    "jne takt_task_fault",
    "cmp dword ptr [r10 + {WOKEN}], {WAITING_TO_RECEIVE}", // for that, and by no other way
    "jne takt_task_fault",
    "movzx esi, byte ptr [rdi + {PRIO}]",
    "movzx eax, byte ptr [r10 + {PRIO}]",
    "cmp eax, esi",
    "jae takt_task_fault",
    "mov ebx, [rsp + {VECTOR}]",
    "mov edx, {KINDS}",
    "bt edx, ebx",
    "jnc takt_task_fault",
    // The task is dead, and its thread has announced that it waits.
    "mov dword ptr [r8 + {OWN_LIFE}], 0",
    "mov dword ptr [rdi + {WOKEN}], {ANNOUNCED}",
    "mov qword ptr [rdi + {RESUME}], offset takt_resume_fault",
    "movzx r11d, word ptr [rdi + {TID}]", // and its priority
    "TAKT_IPC_LEND",
    // The supervisor runs, before all others.
    "TAKT_IPC_PREEMPT",
    "mov rdx, [r8 + {FAULT_VALUE}]",
    "mov rbp, [rsp + {EXCEPTION_RIP}]",
    "xor r12d, r12d",
    "cmp ebx, {PAGE_FAULT}",
    "cmove r12, [rsp + {ADDRESS}]",
    "mov r13, [rsp + {CODE}]",
    "mov r14, [rsp + {EXCEPTION_RSP}]",
    "mov r15d, [r8 + {GENERATION}]",
    "TAKT_IPC_ENTER",
    ".text",
    CURRENT = const percpu::CURRENT,
    PREEMPT = const percpu::PREEMPT,
    NO_RESCHED = const percpu::NO_RESCHED as i8,
    TASK_RSP = const percpu::TASK_RSP,
    ACTIVE = const percpu::ACTIVE,
    LIVE = const percpu::LIVE,
    LEVELS = const of_run_queue(RunQueue::QUEUE + PrioQueue::LEVELS),
    HEAD = const of_run_queue(RunQueue::QUEUE + PrioQueue::HEAD),
    RUNNING = const of_run_queue(RunQueue::RUNNING),
    BEST = const of_run_queue(RunQueue::BEST),
    NEXT = const NEXT,
    LINK = const Links::<MAX_THREADS, u32>::STRIDE,
    nr_ended = sym pi::NR_ENDED,
    STACK_TOP = const offset_of!(Tcb, stack_top),
    RESUME = const offset_of!(Tcb, resume),
    SPACE = const tcb::SPACE,
    WOKEN = const offset_of!(Tcb, woken),
    WAITING_IN_QUEUE = const tcb::waiting(Wait::Mutex),
    WAITING_TO_RECEIVE = const tcb::waiting(Wait::Message),
    READY = const tcb::READY,
    CONTEXT = const offset_of!(Tcb, preempt),
    TID = const offset_of!(Tcb, tid),
    PRIO = const offset_of!(Tcb, prio),
    BASE = const offset_of!(Tcb, base),
    WAIT_QUEUE = const offset_of!(Tcb, wait_queue),
    WAIT_PRIO = const offset_of!(Tcb, wait_prio),
    BLOCKED_ON = const offset_of!(Tcb, blocked_on),
    INHERITS = const offset_of!(Tcb, inherits) + PrioCounts::LEVELS,
    COUNTS = const offset_of!(Tcb, inherits) + PrioCounts::COUNTS,
    MAX_PEERS = const MAX_PEERS,
    TARGETS = const behind_space!(offset_of!(Task, handles), offset_of!(Handles, targets)),
    VALUES = const behind_space!(offset_of!(Task, handles), offset_of!(Handles, values)),
    CALLS = const behind_space!(offset_of!(Task, handles), offset_of!(Handles, calls)),
    NOTIFIES = const behind_space!(offset_of!(Task, handles), offset_of!(Handles, notifies)),
    SOLE = const served::SOLE,
    TOP = const served::TOP,
    SOME = const served::SOME,
    OPEN = const offset_of!(Port, open),
    MASK = const offset_of!(Port, mask),
    BITS = const offset_of!(Port, bits),
    THREAD = const offset_of!(Port, thread),
    CALLER = const offset_of!(Port, caller),
    OWN_SOLE = const PORT + served::SOLE as isize,
    OWN_TOP = const PORT + served::TOP as isize,
    OWN_OPEN = const PORT + offset_of!(Port, open) as isize,
    OWN_LIFE = const PORT + offset_of!(Port, life) as isize,
    OWN_MASK = const PORT + offset_of!(Port, mask) as isize,
    OWN_BITS = const PORT + offset_of!(Port, bits) as isize,
    OWN_CALLER = const PORT + offset_of!(Port, caller) as isize,
    GONE = const GONE,
    NO_NOTIFICATIONS = const !(NOTIFICATIONS as i32),
    REPLY_AND_RECEIVE = const Call::ReplyAndReceive as u8,
    NOTIFY = const Call::Notify as u8,
    ANNOUNCED = const tcb::announced(Wait::Mutex),
    SUPERVISOR = const behind_space!(offset_of!(Task, supervisor)),
    FAULT_VALUE = const behind_space!(offset_of!(Task, fault_value)),
    GENERATION = const behind_space!(offset_of!(Task, generation)),
    VECTOR = const offset_of!(ExceptionFrame, vector),
    CODE = const offset_of!(ExceptionFrame, code),
    EXCEPTION_RIP = const offset_of!(ExceptionFrame, rip),
    EXCEPTION_RSP = const offset_of!(ExceptionFrame, rsp),
    ADDRESS = const offset_of!(ExceptionFrame, ss),
    PAGE_FAULT = const FaultKind::PageFault as u8,
    KINDS = const kinds(),
    FPU = const space::FPU,
    FS = const space::FS,
    FRAME = const size_of::<Frame>(),
    STATUS = const offset_of!(Frame, status),
    VALUE = const offset_of!(Frame, value),
    WORDS = const offset_of!(Frame, words),
    RFLAGS = const offset_of!(Frame, rflags),
    RIP = const offset_of!(Frame, rip),
    RSP = const offset_of!(Frame, rsp),
);

const _: () = assert!(
    offset_of!(Port, served) == 0,
    "a mutex is where its port is"
);
const _: () = assert!(
    offset_of!(Tcb, prio) == offset_of!(Tcb, tid) + 1,
    "both by one load"
);
