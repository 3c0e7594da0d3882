//! Faults: every exception that can be provoked in ring 0, the gates of the others, W^X, guards, panics. Each ends
//! its machine; the host reads the report.

use core::arch::asm;
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_board::lock::IrqLock;
use takt_kernel::preempt::IrqGuard;
use takt_kernel::sync::{Queue, Semaphore};
use takt_kernel::thread::{Builder, count_times};
use takt_kernel::time::{Expiry, Nanos, Timer, sleep, sleep_until};
use takt_kernel::{irq, preempt, thread_stack};
use takt_tests::descriptors::{ABSENT, SELECTOR, install};
use takt_tests::harness::Outcome;
use takt_tests::worker::{self, after_us, burn, join, spawn};
use takt_tests::{check, check_eq, interrupt, target_test};

/// The fault did not come.
fn survived() -> Outcome {
    check!(false, "no fault came");
    Ok(())
}

/// Where nothing is mapped.
pub(crate) const NOWHERE: usize = 0x10_0000_0000;
/// In the first gigabyte, behind the RAM of the tests' machines.
const BEYOND_RAM: usize = 0x3000_0000;

#[inline(never)]
fn read(address: usize) -> u8 {
    // SAFETY: none: it faults, which is the test.
    unsafe { (address as *const u8).read_volatile() }
}

#[inline(never)]
fn write(address: usize) {
    // SAFETY: none: it faults, which is the test.
    unsafe { (address as *mut u8).write_volatile(0x90) };
}

#[inline(never)]
fn execute(address: usize) {
    // SAFETY: none: it faults, which is the test.
    unsafe { core::mem::transmute::<usize, extern "C" fn()>(address)() };
}

/// Reads where nothing is while no gate but those below the double fault's is there.
#[inline(never)]
pub(crate) fn fault_without_a_gate() {
    // Neither #PF nor #GP can be delivered.
    let mut table = [0u8; 10];
    // SAFETY: stores the register into `table`.
    unsafe { asm!("sidt [{}]", in(reg) &raw mut table) };
    table[..2].copy_from_slice(&(9u16 * 16 - 1).to_le_bytes());
    // SAFETY: the same table, cut short; interrupts would find no gate, so they are off.
    unsafe { asm!("cli", "lidt [{}]", in(reg) &raw const table) };
    read(NOWHERE);
}

/// Uses stack without end.
#[inline(never)]
#[expect(unconditional_recursion, reason = "it is to run out of stack")]
pub(crate) fn recurse(depth: u64) -> u64 {
    let local = core::hint::black_box([depth; 16]);
    recurse(depth + 1) + local[(depth % 16) as usize]
}

fn recurse_in_thread(_: usize) {
    core::hint::black_box(recurse(0));
}

/// Pushes so many bytes below the end of worker 3's stack, which it runs on, without a look at what is in between.
#[inline(never)]
fn below_the_stack(bytes: usize) {
    let below = worker::bottom_of(3) - bytes;
    // SAFETY: none: it faults, which is the test.
    unsafe { asm!("mov rsp, {}", "push rax", "ud2", in(reg) below, options(noreturn)) };
}

#[inline(never)]
fn outer_function() -> u8 {
    core::hint::black_box(inner_function()) + 1
}

#[inline(never)]
fn inner_function() -> u8 {
    core::hint::black_box(read(NOWHERE)) + 1
}

/// Enters the gate of an exception that ring 0 cannot raise as the CPU would, with its frame and an error code, only
/// that it stays on the thread's stack.
#[inline(never)]
pub(crate) fn deliver(vector: usize, code: u64) -> ! {
    let mut register = [0u8; 10];
    // SAFETY: stores the register into `register`.
    unsafe { asm!("sidt [{}]", in(reg) &raw mut register) };
    let [_, _, address @ ..] = register;
    let gate = (usize::from_le_bytes(address) + 16 * vector) as *const u64;
    // SAFETY: a gate of the table is two such words.
    let [low, high] = unsafe { gate.cast::<[u64; 2]>().read() };
    let target = low & 0xffff | low >> 48 << 16 | high << 32;
    // SAFETY: the frame is what the stub expects, and it does not come back.
    unsafe {
        asm!("mov {t}, rsp", "and rsp, -16", "mov {s:e}, ss", "push {s}", "push {t}", "pushfq", "cli",
             "mov {s:e}, cs", "push {s}", "lea {s}, [rip + 2f]", "push {s}", "push {code}", "jmp {target}", "2: ud2",
             t = in(reg) 0, s = in(reg) 0, code = in(reg) code, target = in(reg) target, options(noreturn));
    }
}

static GIVEN: Semaphore = Semaphore::new(0, 1);
static DATA: [u8; 16] = [0xc3; 16];
static mut WRITABLE: [u8; 16] = [0xc3; 16];

target_test! {
    /// Dividing by zero; the report shows the registers.
    fn divide_error(Fault(&["*** #DE divide error", "'test'", "rbx 0x00000000deadbeef", "r15 0x0123456789abcdef", "divide_error"])) {
        // SAFETY: faults.
        unsafe {
            asm!("push rbx", "mov ebx, 0xdeadbeef", "mov r15, {pattern}", "xor ecx, ecx", "div ecx", "pop rbx",
                 pattern = in(reg) 0x0123_4567_89ab_cdefu64, out("r15") _, out("ecx") _, out("eax") _, out("edx") _);
        }
        survived()
    }

    /// Single step.
    fn debug_exception(Fault(&["*** #DB debug exception"])) {
        // SAFETY: sets the trap flag.
        unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "nop") };
        survived()
    }

    /// The same by its vector: QEMU takes `icebp` for a debugger's.
    fn icebp(Fault(&["*** #DB debug exception", "'test'", "icebp ("])) {
        // SAFETY: faults.
        unsafe { asm!("int 1") };
        survived()
    }

    /// Single step, with an instruction that holds it up.
    fn shadow_of_mov_ss(Fault(&["*** #DB debug exception", "'test'", "shadow_of_mov_ss ("])) {
        // SAFETY: sets the trap flag.
        unsafe {
            asm!("mov {0:e}, ss", "pushfq", "or qword ptr [rsp], 0x100", "popfq", "mov ss, {0:e}", "nop", out(reg) _);
        }
        survived()
    }

    /// A breakpoint instruction.
    fn breakpoint(Fault(&["*** #BP breakpoint", "'test'"])) {
        // SAFETY: faults.
        unsafe { asm!("int3") };
        survived()
    }

    /// An instruction that there is not.
    fn invalid_opcode(Fault(&["*** #UD invalid opcode", "invalid_opcode"])) {
        // SAFETY: faults.
        unsafe { asm!("ud2") };
        survived()
    }

    /// Vector registers while the task-switched flag forbids them.
    fn device_not_available(Fault(&["*** #NM device not available"])) {
        // SAFETY: sets CR0.TS and uses a vector register.
        unsafe { asm!("mov {0}, cr0", "or {0}, 8", "mov cr0, {0}", "addps xmm0, xmm0", out(reg) _, out("xmm0") _) };
        survived()
    }

    /// A selector beyond the descriptor table; the error code names it.
    fn general_protection(Fault(&["*** #GP general protection", "error code 0xfff8"])) {
        // SAFETY: faults.
        unsafe { asm!("mov ds, {0:x}", in(reg) 0xfff8) };
        survived()
    }

    /// A division by zero of the x87 unit, not masked.
    fn x87_error(Fault(&["*** #MF x87 floating-point error"])) {
        let control: u16 = 0x037b;
        // SAFETY: loads a control word that lets the error through, and faults.
        unsafe { asm!("fninit", "fldcw [{}]", "fld1", "fldz", "fdivp", "fwait", in(reg) &raw const control) };
        survived()
    }

    /// The overflow exception. Its instruction, INTO, is not there in long mode.
    fn overflow(Fault(&["*** #OF overflow", "'test'", "error code 0x0,", "overflow ("])) {
        // SAFETY: faults.
        unsafe { asm!("int 4") };
        survived()
    }

    /// The bound-range exception. Its instruction, BOUND, is not there in long mode.
    fn bound_range_exceeded(Fault(&["*** #BR bound range exceeded", "'test'", "error code 0x0,", "bound_range_exceeded ("])) {
        // SAFETY: faults.
        unsafe { asm!("int 5") };
        survived()
    }

    /// Loading a data segment that is not present; the error code names it.
    fn segment_not_present(Fault(&["*** #NP segment not present", "'test'", "error code 0xf8,", "segment_not_present ("])) {
        install(ABSENT);
        // SAFETY: faults.
        unsafe { asm!("mov ds, {0:x}", in(reg) SELECTOR) };
        survived()
    }

    /// The same as stack segment.
    fn stack_fault(Fault(&["*** #SS stack fault", "'test'", "error code 0xf8,", "stack_fault ("])) {
        install(ABSENT);
        // SAFETY: faults.
        unsafe { asm!("mov ss, {0:x}", in(reg) SELECTOR) };
        survived()
    }

    /// A division by zero of the vector unit, not masked. QEMU's translator only notes it in MXCSR and goes on; the
    /// vector's own instruction follows.
    fn simd_error(Fault(&["*** #XM SIMD floating-point exception", "'test'", "error code 0x0,", "simd_error ("])) {
        let control: u32 = 0x1f80 & !0x200;
        // SAFETY: lets the error through, and faults.
        unsafe {
            asm!("ldmxcsr [{}]", "divss xmm0, xmm1", "int 19",
                 in(reg) &raw const control, inout("xmm0") 1f32 => _, in("xmm1") 0f32);
        }
        survived()
    }

    /// A machine check that the host injects: the report has what the CPU's bank of errors has.
    fn machine_check(MachineCheck(&["*** #MC machine check", "bank 1: status 0xbd", ", address 0x0000000001234000", "'test'", "machine_check ("])) {
        takt_tests::harness::ask_for_machine_check();
        burn(60_000_000_000);
        survived()
    }

    /// The same by its vector, where no bank has anything.
    fn machine_check_without_a_bank(Fault(&["*** #MC machine check", "'test'", "error code 0x0,", "machine_check_without_a_bank ("])) {
        // SAFETY: faults.
        unsafe { asm!("int 18") };
        survived()
    }

    /// Comes of task switches, which long mode has not, and of ways from another ring.
    fn invalid_task_state(Fault(&["*** #TS invalid TSS", "'test'", "error code 0x18,", "deliver (", "invalid_task_state ("])) {
        deliver(10, 0x18)
    }

    /// Comes in ring 3 only.
    fn alignment_check(Fault(&["*** #AC alignment check", "'test'", "error code 0x0,", "deliver (", "alignment_check ("])) {
        deliver(17, 0)
    }

    /// Comes of shadow stacks and indirect-branch tracking, neither of which is on.
    fn control_protection(Fault(&["*** #CP control protection", "'test'", "error code 0x3,", "deliver (", "control_protection ("])) {
        deliver(21, 3)
    }

    /// No way to deliver a page fault: the double fault has a stack and a gate of its own.
    fn double_fault(Fault(&["*** #DF double fault", "'test'"])) {
        fault_without_a_gate();
        survived()
    }

    /// Reading where nothing is; the report names the address.
    fn page_fault_reading(Fault(&["*** #PF page fault", "reading 0x0000001000000000: not mapped", "error code 0x0"])) {
        read(NOWHERE);
        survived()
    }

    /// Writing where nothing is.
    fn page_fault_writing(Fault(&["*** #PF page fault", "writing 0x0000001000000000: not mapped"])) {
        write(NOWHERE);
        survived()
    }

    /// Writing where RAM could be, and is not.
    fn writing_beyond_ram(Fault(&["*** #PF page fault", "writing 0x0000000030000000: not mapped", "writing_beyond_ram ("])) {
        write(BEYOND_RAM);
        survived()
    }

    /// Calling where nothing is; the backtrace still says who called.
    fn page_fault_executing(Fault(&["*** #PF page fault", "executing 0x0000001000000000: not mapped", "rip 0x0000001000000000", "page_fault_executing ("])) {
        execute(NOWHERE);
        survived()
    }

    /// A call of the null pointer; the backtrace says who called.
    fn null_call(Fault(&["*** #PF page fault", "executing 0x0000000000000000: not mapped", "rip 0x0000000000000000", "null_call ("])) {
        execute(0);
        survived()
    }

    /// A jump leaves no trace of its own: it says who called the function that jumped.
    fn jump_to_a_bad_address(Fault(&["*** #PF page fault", "executing 0x0000001000000000: not mapped", "'test'", "test_thread ("])) {
        // SAFETY: none: it faults, which is the test.
        unsafe { asm!("jmp {}", in(reg) NOWHERE) };
        survived()
    }

    /// The first page is never mapped.
    fn null_pointer(Fault(&["*** #PF page fault", "reading 0x0000000000000008: not mapped"])) {
        read(8);
        survived()
    }

    /// Code cannot be written to.
    fn writing_code(Fault(&["*** #PF page fault", "writing 0x", ": not permitted"])) {
        write(writing_code as *const () as usize);
        survived()
    }

    /// Constants cannot be written to.
    fn writing_constants(Fault(&["*** #PF page fault", "writing 0x", ": not permitted"])) {
        write(DATA.as_ptr() as usize);
        survived()
    }

    /// Constants cannot be executed.
    fn executing_constants(Fault(&["*** #PF page fault", "executing 0x", ": not permitted"])) {
        execute(DATA.as_ptr() as usize);
        survived()
    }

    /// Data cannot be executed.
    fn executing_data(Fault(&["*** #PF page fault", "executing 0x", ": not permitted"])) {
        execute(&raw const WRITABLE as usize);
        survived()
    }

    /// A stack cannot be executed.
    fn executing_the_stack(Fault(&["*** #PF page fault", "executing 0x", ": not permitted"])) {
        let code = core::hint::black_box([0xc3u8; 16]);
        execute(code.as_ptr() as usize);
        survived()
    }

    /// A stack that runs over its end is caught on the page below and named; the backtrace shows who recursed.
    fn stack_overflow(Fault(&["*** #PF page fault", "not mapped", "stack overflow of thread 'test'", "recurse", "recurse"])) {
        core::hint::black_box(recurse(0));
        survived()
    }

    /// The same in another thread.
    fn stack_overflow_of_another(Fault(&["stack overflow of thread 'w3'", "cpu 0 thread", "'w3'"])) {
        join(&[spawn(3, 60, recurse_in_thread, 0)?])?;
        survived()
    }

    /// The idle thread's stack has a guard too, and is named.
    fn stack_overflow_of_the_idle_thread(Fault(&["*** #PF page fault", "stack overflow of thread 'idle'", "cpu 0 thread 0 'idle'", "recurse"])) {
        takt_board::set_idle_hook(|| {
            core::hint::black_box(recurse(0));
        });
        sleep_until(after_us(10))?;
        survived()
    }

    /// The interrupt stack has a guard too.
    fn stack_overflow_in_an_interrupt(Fault(&["stack overflow of the CPU's stack 'interrupt'", "in an interrupt", "recurse"])) {
        interrupt::raise(|| {
            core::hint::black_box(recurse(0));
        });
        survived()
    }

    /// A push into the guard, by the CPU itself on a call.
    fn stack_overflow_by_a_push(Fault(&["*** #PF page fault", "stack overflow of thread 'test'"])) {
        // SAFETY: runs over the end of the stack, which faults.
        unsafe { asm!("2: push rax", "jmp 2b") };
        survived()
    }

    /// Nor does code come past the guard that takes much stack at once: by hand, since the compiler looks at each page.
    fn stack_overflow_by_8_kib(Fault(&["*** #PF page fault", "writing", "not mapped", "stack overflow of thread 'w3'", "below_the_stack"])) {
        join(&[spawn(3, 60, below_the_stack, 8 << 10)?])?;
        survived()
    }

    /// The same with nearly all of the guard's length.
    fn stack_overflow_by_60_kib(Fault(&["*** #PF page fault", "writing", "not mapped", "stack overflow of thread 'w3'", "below_the_stack"])) {
        join(&[spawn(3, 60, below_the_stack, 60 << 10)?])?;
        survived()
    }

    /// The report of a fault in an interrupt says so.
    fn fault_in_an_interrupt(Fault(&["*** #PF page fault", "preempt-depth 0, in an interrupt", "faults::read (", "timer_interrupt (", "takt_irq_timer", "test_thread ("])) {
        fn faulty(_: usize, _: Expiry) {
            read(NOWHERE);
        }
        Timer::new(faulty, 0)?.arm(after_us(10));
        burn(100_000);
        survived()
    }

    /// More guards than the preempt count can hold are noticed, and not taken for an interrupt.
    fn too_many_preempt_guards(Fault(&["*** panic: preemption disabled more than 15 times", "preempt-depth 15"])) {
        for _ in 0..16 {
            core::mem::forget(preempt::disable());
        }
        survived()
    }

    /// The report says how deep preemption was disabled.
    fn preemption_depth_is_reported(Fault(&["*** #UD", "preempt-depth 2"])) {
        let _guards = (preempt::disable(), preempt::disable());
        // SAFETY: faults.
        unsafe { asm!("ud2") };
        survived()
    }

    /// The backtrace names the functions from the innermost out.
    fn backtrace_has_names(Fault(&["*** #PF", "backtrace:", "read (", "inner_function (", "outer_function (", "backtrace_has_names (", "*** end of report"])) {
        check!(outer_function() == 0);
        survived()
    }

    /// An NMI's handler that does not keep what was promised of it, and wakes a thread.
    fn waking_in_an_nmi(Fault(&["*** panic: an NMI's handler has woken a thread", "in an NMI"])) {
        fn wait(_: usize) {
            let _ = GIVEN.take();
        }
        let waiter = spawn(3, 60, wait, 0)?;
        // SAFETY: none: it gives, which is the test.
        unsafe { irq::set_nmi_handler(|_| { let _ = GIVEN.give(); }) };
        interrupt::raise_nmi();
        join(&[waiter])?;
        survived()
    }

    /// And one that leaves preemption disabled.
    fn preemption_left_disabled_in_an_nmi(Fault(&["*** panic: an NMI's handler has", "in an NMI"])) {
        // SAFETY: none: it forgets a guard, which is the test.
        unsafe { irq::set_nmi_handler(|_| core::mem::forget(preempt::disable())) };
        interrupt::raise_nmi();
        survived()
    }

    /// A handler that leaves preemption disabled, for whom it has interrupted.
    fn preemption_left_disabled_in_a_handler(Fault(&["*** panic: an interrupt's handler has left preemption disabled", "in an interrupt"])) {
        interrupt::request(|| core::mem::forget(preempt::disable()));
        survived()
    }

    /// And a timer's function.
    fn preemption_left_disabled_by_a_timer(Fault(&["*** panic: an interrupt's handler has left preemption disabled", "in an interrupt"])) {
        fn forgets(_: usize, _: Expiry) {
            core::mem::forget(preempt::disable());
        }
        Timer::new(forgets, 0)?.arm(after_us(10));
        burn(100_000);
        survived()
    }

    /// More guards of interrupts than the count can hold are noticed.
    fn too_many_irq_guards(Fault(&["*** panic: interrupts disabled more than 126 times"])) {
        for _ in 0..127 {
            core::mem::forget(preempt::irq_save());
        }
        survived()
    }

    /// A hook of the idle thread that leaves interrupts off.
    fn interrupts_left_off_by_the_idle_hook(Fault(&["*** panic: the idle hook has left interrupts or preemption disabled", "'idle'"])) {
        takt_board::set_idle_hook(|| core::mem::forget(preempt::irq_save()));
        takt_kernel::time::sleep_until(after_us(100))?;
        survived()
    }

    /// One that leaves preemption disabled.
    fn preemption_left_disabled_by_the_idle_hook(Fault(&["*** panic: the idle hook has left interrupts or preemption disabled", "'idle'"])) {
        takt_board::set_idle_hook(|| core::mem::forget(preempt::disable()));
        takt_kernel::time::sleep_until(after_us(100))?;
        survived()
    }

    /// What prints a value of a panic's message waits in vain: the machine stops, with interrupts off.
    fn waiting_in_a_panic(Fault(&["*** panic: Err(WrongContext) Err(WrongContext) false", "'w3'", "*** end of report"])) {
        struct Waits;
        impl core::fmt::Display for Waits {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let (sleeps, takes) = (sleep_until(after_us(10)), GIVEN.take());
                takt_kernel::yield_now();
                write!(f, "{sleeps:?} {takes:?} {}", irq::are_enabled())
            }
        }
        join(&[spawn(3, 60, |_| panic!("{Waits}"), 0)?])?;
        survived()
    }

    /// What prints a value of a panic's message panics: both places are told.
    fn panic_in_a_panic(Fault(&["*** panic: a value:", "*** panic while reporting another", "the report was of the panic at tests/src/bin/ontarget/faults.rs:",
        "at tests/src/bin/ontarget/faults.rs:", "'w3'", "fmt (", "*** end of report", "it says: no text"])) {
        struct Panics;
        impl core::fmt::Display for Panics {
            fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                panic!("no text")
            }
        }
        join(&[spawn(3, 60, |_| panic!("a value: {Panics}"), 0)?])?;
        survived()
    }

    /// Or it faults.
    fn fault_in_a_panic(Fault(&["*** panic: a value:", "*** #PF page fault while reporting another", "the report was of the panic at tests/src/bin/ontarget/faults.rs:",
        "reading 0x0000001000000000: not mapped", "'w3'", "fmt ("])) {
        struct Faults;
        impl core::fmt::Display for Faults {
            fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::hint::black_box(read(NOWHERE));
                Ok(())
            }
        }
        join(&[spawn(3, 60, |_| panic!("a value: {Faults}"), 0)?])?;
        survived()
    }

    /// What prints a value of a panic's message takes the lock that the panic came upon: that is another panic, and nobody else has what
    /// the first one was changing.
    fn locking_in_a_panic(Fault(&["*** panic: a value:", "*** panic while reporting another", "'w3'", "it says: a lock that a halted CPU has, or this one"])) {
        static LOCK: IrqLock<u32> = IrqLock::new(0);
        struct Locks;
        impl core::fmt::Display for Locks {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                LOCK.with(|value| write!(f, "{value}"))
            }
        }
        join(&[spawn(3, 60, |_| LOCK.with(|_| panic!("a value: {Locks}")), 0)?])?;
        survived()
    }

    /// A panic with preemption disabled, as it is at boot, is not taken for the boot: what prints a value switches nothing.
    fn switching_in_a_panic(Fault(&["*** panic: Err(WrongContext)", "'w3'", "*** end of report"])) {
        struct Switches;
        impl core::fmt::Display for Switches {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{:?}", count_times(true))
            }
        }
        let panics: fn(usize) = |_| {
            let _guard = preempt::disable();
            panic!("{Switches}")
        };
        join(&[spawn(3, 60, panics, 0)?])?;
        survived()
    }

    /// What prints a value drops the guard that interrupts are off by: they stay so.
    fn enabling_in_a_panic(Fault(&["*** panic: false", "'w3'", "*** end of report"])) {
        struct Enables(Cell<Option<IrqGuard>>);
        impl core::fmt::Display for Enables {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                drop(self.0.take());
                write!(f, "{}", irq::are_enabled())
            }
        }
        let panics: fn(usize) = |_| panic!("{}", Enables(Cell::new(Some(preempt::irq_save()))));
        join(&[spawn(3, 60, panics, 0)?])?;
        survived()
    }

    /// No other CPU goes on while a panic is reported, which says that something is wrong; and what one had keeps nobody waiting.
    fn panic_stops_other_cpus(Fault(&["*** panic: the other CPU did true and does false"])) {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static QUEUE: Queue<u32, 1> = Queue::new();
        thread_stack!(static STACK: 16384);
        struct Counts;
        impl core::fmt::Display for Counts {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let before = COUNT.load(Relaxed);
                (0..1_000_000).for_each(|_| core::hint::spin_loop());
                let _ = QUEUE.len();
                write!(f, "did {} and does {}", before != 0, COUNT.load(Relaxed) != before)
            }
        }
        check_eq!(takt_board::smp::start(2), 2);
        let counts: fn(usize) = |_| loop {
            COUNT.fetch_add(1, Relaxed);
            let _ = QUEUE.len();
        };
        Builder::new("counts", 1)?.cpu(1).spawn(&STACK, counts, 0)?;
        sleep(Nanos::from_millis(1))?;
        panic!("the other CPU {Counts}")
    }

    /// Another CPU halts where it has nothing half changed: what prints a panic's message takes a lock that was taken all the time.
    fn panic_lets_others_end_what_they_do(Fault(&["*** panic: both are the same: true", "*** end of report"])) {
        static BOTH: IrqLock<[u32; 2]> = IrqLock::new([0; 2]);
        thread_stack!(static STACK: 16384);
        struct Same;
        impl core::fmt::Display for Same {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                BOTH.with(|[a, b]| write!(f, "{}", *a > 0 && a == b))
            }
        }
        check_eq!(takt_board::smp::start(2), 2);
        let changes: fn(usize) = |_| loop {
            BOTH.with(|[a, b]| {
                *a = a.wrapping_add(1);
                (0..1000).for_each(|_| core::hint::spin_loop());
                *b = *a;
            });
        };
        Builder::new("changes", 1)?.cpu(1).spawn(&STACK, changes, 0)?;
        sleep(Nanos::from_millis(1))?;
        panic!("both are the same: {Same}")
    }

    /// One that lets no interrupt come is halted where it is. If that is amid what a lock of the kernel's protects, what prints a panic's
    /// message does not get to see it.
    fn panic_beside_one_that_lets_no_interrupt_come(Fault(&["*** panic: ", "*** end of report"])) {
        static QUEUE: Queue<u64, 1> = Queue::new();
        thread_stack!(static STACK: 16384);
        struct Len;
        impl core::fmt::Display for Len {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{}", QUEUE.try_send(1).is_ok() == QUEUE.try_receive().is_ok())
            }
        }
        check_eq!(takt_board::smp::start(2), 2);
        let changes: fn(usize) = |_| {
            let _guard = preempt::irq_save();
            loop {
                let _ = QUEUE.try_send(1);
                let _ = QUEUE.try_receive();
            }
        };
        Builder::new("changes", 1)?.cpu(1).spawn(&STACK, changes, 0)?;
        sleep(Nanos::from_millis(1))?;
        panic!("{Len}")
    }

    /// A panic reports its message, its place and who called.
    fn panic(Fault(&["at tests/src/bin/ontarget/faults.rs:", "*** panic: a number: 42", "'test'", "backtrace:"])) {
        panic!("a number: {}", core::hint::black_box(42));
    }

    /// An index out of bounds is a panic that names both numbers.
    fn index_out_of_bounds(Fault(&["*** panic: index out of bounds: the len is 16 but the index is 99"])) {
        check!(DATA[core::hint::black_box(99)] == 0);
        survived()
    }
}
