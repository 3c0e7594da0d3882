//! The kernel's events: when exactly each is emitted, and with what.
//!
//! ```text
//!  timer expires ─> irq_handler_entry ─> timer_expire ─> sched_waking ─> sched_wakeup ─> irq_handler_exit
//!                                                                                             │
//!                                            the woken thread runs <── sched_switch <─────────┘
//! ```
use takt_tracer::{event, event_class};

event_class! {
    /// From one thread to another. What is of the next thread lies as in its control block, and what is at the end of a
    /// word need not be cut off: each saves instructions. So it is in the classes below.
    pub class Switch = "sched_switch", core24(0x80) {
        next: 8 tid, next_prio: 7 prio, prev_state: 2 enum("0=R,1=S,2=T,3=X"), prev_prio: 7 prio,
    }
    print "prev_comm={current:comm} prev_pid={current:pid} prev_prio={prev_prio} prev_state={prev_state} ==> next_comm={next:comm} next_pid={next:pid} next_prio={next_prio}";
}
event_class! {
    /// A thread that is woken.
    pub class Wakeup = "sched_wakeup_template", core8 { tid: 8 tid, prio: 8 prio, target_cpu: 24 u }
    print "comm={tid:comm} pid={tid:pid} prio={prio} target_cpu={target_cpu:03}";
}
event_class! {
    /// A thread that begins.
    pub class Create = "thread_create", core8 { tid: 8 tid, prio: 8 prio, cpu: 24 u }
    print "comm={tid:comm} pid={tid:pid} prio={prio} cpu={cpu}";
}
event_class! {
    /// A thread and its name, which the decoder remembers.
    pub class Name = "thread_name", core8 { tid: 8 tid, comm: * str }
    print "pid={tid:pid} comm={comm}";
}
event_class! {
    /// A thread.
    pub class OneThread = "thread", core8 { tid: 8 tid }
    print "comm={tid:comm} pid={tid:pid}";
}
event_class! {
    /// A change of priority.
    pub class Prio = "prio_change", core8 { tid: 8 tid, oldprio: 8 prio, base: 8 prio, newprio: 16 prio }
    print "comm={tid:comm} pid={tid:pid} oldprio={oldprio} newprio={newprio} base={base}";
}
event_class! {
    /// An interrupt vector.
    pub class Vector = "irq_vector", core8 { vector: 8 irq }
    print "irq={vector}";
}
event_class! {
    /// A timer and its deadline.
    pub class TimerDeadline = "timer_deadline", near { timer: 11 u, expires: 64 cycles }
    print "timer={timer} expires={expires}";
}
event_class! {
    /// A timer.
    pub class OneTimer = "timer", core8 { timer: 32 u }
    print "timer={timer}";
}
event_class! {
    /// A place in the code.
    pub class Place = "place", core8 { caller: 32 sym }
    print "caller={caller}";
}
event_class! {
    /// A mutex that is held by someone else.
    pub class Contended = "mutex_contended", core8 { owner: 8 tid, prio: 32 prio, mutex: 32 sym }
    print "mutex={mutex} owner={owner:comm}:{owner:pid} inherits_prio={prio}";
}
event_class! {
    /// A mutex.
    pub class OneMutex = "mutex", core8 { mutex: 32 sym }
    print "mutex={mutex}";
}
event_class! {
    /// A text, shown as ftrace shows what was written to `trace_marker`: behind the name of the function in Linux that
    /// took it.
    pub class Print = "print", core8 { buf: * str }
    print "tracing_mark_write: {buf}";
}

#[cfg(feature = "tasks")]
event_class! {
    /// A task that was stopped, with all that is known: the registers are r15 to r8, rbp, rdi, rsi, rdx, rcx, rbx, rax.
    pub class TaskFault = "task_fault", core8 {
        task: 8 tid,
        kind: 8 enum("0=#DE,1=#DB,3=#BP,4=#OF,5=#BR,6=#UD,7=#NM,10=#TS,11=#NP,12=#SS,13=#GP,14=#PF,16=#MF,17=#AC,19=#XM,21=#CP,32=illegal call,33=panic,34=other,35=killed,36=budget,37=watchdog"),
        code: 24 x, rip: 64 x, address: 64 x, rsp: 64 x, registers: [64] x,
    }
    print "comm={task:comm} pid={task:pid} kind={kind} code={code} rip={rip} address={address} rsp={rsp} registers={registers}";
}
#[cfg(feature = "tasks")]
event_class! {
    /// Calls in a task that was stopped, the innermost first: the address of each one's last byte.
    pub class TaskCallers = "task_callers", core8 { task: 8 tid, callers: [64] x }
    print "comm={task:comm} pid={task:pid} callers={callers}";
}
#[cfg(feature = "tasks")]
event_class! {
    /// A message to a task, or the reply to it.
    pub class Ipc = "ipc", core8 { task: 8 tid }
    print "comm={task:comm} pid={task:pid}";
}
#[cfg(feature = "tasks")]
event_class! {
    /// A call of a task, with its two arguments; 255 stands for all numbers from there on.
    pub class Syscall = "syscall", core8 {
        call: 8 enum("0=null,1=yield,2=time,3=sleep_until,4=call,5=receive,6=reply,7=reply_and_receive,8=notify,9=log,10=exit,11=renew,12=panic,13=timerlat_open,14=timerlat_wait,15=timerlat_close,16=call_until,17=acknowledge,18=feed,19=log_frame,20=call_lending,21=lease_read,22=lease_write,23=lease_info,24=trace,25=take,26=give"),
        rsi: 64 x, rdx: 64 x,
    }
    print "call={call} rsi={rsi} rdx={rdx}";
}
#[cfg(feature = "tasks")]
event_class! {
    /// What a call has come to: the error's number or 0, and the value.
    pub class SyscallResult = "syscall_result", core8 {
        call: 8 enum("0=null,1=yield,2=time,3=sleep_until,4=call,5=receive,6=reply,7=reply_and_receive,8=notify,9=log,10=exit,11=renew,12=panic,13=timerlat_open,14=timerlat_wait,15=timerlat_close,16=call_until,17=acknowledge,18=feed,19=log_frame,20=call_lending,21=lease_read,22=lease_write,23=lease_info,24=trace,25=take,26=give"),
        error: 32 enum("0=0,1=NoHandle,2=NoRight,3=Stale,4=Dead,5=NotReplied,6=NothingToReply,7=TimedOut,8=BadAddress,9=Deadlock,10=InvalidArgument,11=Busy,12=NotPermitted,13=OutOfResources,14=BudgetSpent,15=NoLease,16=Revoked,17=Overflow"),
        value: 64 x,
    }
    print "call={call} error={error} value={value}";
}
#[cfg(feature = "tasks")]
event_class! {
    /// A task whose budget is used up, and by whom: itself, or who serves it.
    pub class Overrun = "budget_overrun", core8 { task: 8 tid, what: 24 enum("0=throttled,1=stopped,2=call ended") }
    print "comm={task:comm} pid={task:pid} what={what}";
}
#[cfg(feature = "tasks")]
event! {
    /// Emitted when a task has used its budget, before anything comes of that. The record's thread is the one that has.
    pub budget_overrun: Overrun = core "task:budget_overrun";
}
#[cfg(feature = "tasks")]
event! {
    /// Emitted when a throttled task may go on, since its period begins anew.
    pub budget_refill: Ipc = core "task:budget_refill";
}
#[cfg(feature = "tasks")]
event! {
    /// Emitted when a task was stopped, before its supervisor is told.
    pub task_fault: TaskFault = core "task:task_fault";
}
#[cfg(feature = "tasks")]
event! {
    /// Emitted behind [`task_fault`].
    pub task_callers: TaskCallers = core "task:task_callers";
}
#[cfg(feature = "tasks")]
event! {
    /// Emitted when a task has called, before anything is done. While this event or [`syscall_exit`] is on all calls go the long way.
    pub syscall_entry: Syscall = core "task:syscall_entry";
}
#[cfg(feature = "tasks")]
event! {
    /// Emitted when a call is done, before the task goes on. One that began while both events were off has none, and neither has
    /// one that ends the task.
    pub syscall_exit: SyscallResult = core "task:syscall_exit";
}
#[cfg(feature = "tasks")]
event! {
    /// Emitted by the caller before the task is told that there is a message.
    pub ipc_call: Ipc = core "task:ipc_call";
}
#[cfg(feature = "tasks")]
event! {
    /// Emitted by the task before the caller goes on.
    pub ipc_reply: Ipc = core "task:ipc_reply";
}
event! {
    /// Emitted with interrupts off, before the registers change; the record's thread is the one that is left.
    pub sched_switch: Switch = core "sched:sched_switch";
}
event! {
    /// Emitted when a wake-up begins, before the thread is put into its run queue.
    pub sched_waking: Wakeup = core "sched:sched_waking";
}
event! {
    /// Emitted right before the thread is put into its run queue.
    pub sched_wakeup: Wakeup = core "sched:sched_wakeup";
}
event! {
    /// Emitted before `thread_create`, and for each thread that exists when recording starts.
    pub thread_name: Name = core "sched:thread_name";
}
event! {
    /// Emitted when a thread is created, before it can be started.
    pub thread_create: Create = core "sched:thread_create";
}
event! {
    /// Emitted by the thread that ends, before its last switch.
    pub thread_exit: OneThread = core "sched:thread_exit";
}
event! {
    /// Emitted before an effective priority changes, by request or by inheritance.
    pub prio_change: Prio = core "sched:prio_change";
}
event! {
    /// Emitted after the interrupt was counted, before its handler; the entry's own time stamp is earlier.
    pub irq_handler_entry: Vector = core "irq:irq_handler_entry" print "irq={vector} name={vector:name}";
}
event! {
    /// Emitted when a device's interrupt gets a handler, and for each that has one when recording starts. The decoder
    /// remembers the name.
    pub irq_name = core8 "irq:irq_name" { vector: 8 u, name: * str }
    print "irq={vector} name={name}";
}
event! {
    /// Emitted after the handler, before the decision whether to switch.
    pub irq_handler_exit: Vector = core "irq:irq_handler_exit";
}
event! {
    /// Emitted before a timer is put into its queue.
    pub timer_start: TimerDeadline = near "timer:timer_start";
}
event! {
    /// Emitted when a timer was taken from its queue, before its function.
    pub timer_expire: TimerDeadline = near "timer:timer_expire";
}
event! {
    /// Emitted after an armed timer was taken from its queue without expiring.
    pub timer_cancel: OneTimer = core "timer:timer_cancel";
}
event! {
    /// Emitted after preemption was disabled.
    pub preempt_disable: Place = core "preemptirq:preempt_disable";
}
event! {
    /// Emitted before preemption is enabled.
    pub preempt_enable: Place = core "preemptirq:preempt_enable";
}
event! {
    /// Emitted after interrupts were disabled, by the kernel's own sections too. An interrupt disables them by itself,
    /// without this event.
    pub irq_disable: Place = core "preemptirq:irq_disable";
}
event! {
    /// Emitted before interrupts are enabled. The return from an interrupt enables them too, and so does a switch to a
    /// thread that an interrupt preempted.
    pub irq_enable: Place = core "preemptirq:irq_enable";
}
event! {
    /// Emitted by a thread that has to wait, before the owner inherits its priority.
    pub mutex_contended: Contended = core "mutex:mutex_contended";
}
event! {
    /// Emitted by a thread that waited, when it runs as the owner.
    pub mutex_acquired: OneMutex = core "mutex:mutex_acquired";
}
event! {
    /// Emitted by `trace::marker`.
    pub print: Print = core "ftrace:print";
}
