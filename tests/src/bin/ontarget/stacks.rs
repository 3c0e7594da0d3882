//! Stacks as events: the chain of calls, in each context.

use core::arch::{asm, naked_asm};
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use heapless::Vec;
use takt_kernel::irq::{self, Nmi};
use takt_kernel::trace::stack::{self, MAX_FRAMES, kernel_stack, record_stack};
use takt_kernel::trace::{self, Event, Mode};
use takt_kernel::trace_event;
use takt_tests::drained::{close, drain};
use takt_tests::{check, check_eq, interrupt, target_test};
use takt_tracer::{event, event_class, wire};

type Chain = Vec<usize, MAX_FRAMES>;

/// A function whose calls are looked for is not longer than this.
const LONGEST: usize = 256;

fn begin() {
    trace::tracing_off();
    close();
    trace::discard(0);
    trace::set_mode(Mode::StopWhenFull);
    trace::tracing_on();
}

/// The stacks in the ring; nothing else is recorded here.
fn finish() -> Vec<Chain, 8> {
    trace::tracing_off();
    close();
    let mut chains = Vec::new();
    drain(0, |sub| {
        let word = |at: usize| {
            let bytes = sub.get(at..at + 4).unwrap_or(&[0; 4]);
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let mut at = wire::SUB_HEADER as usize;
        while at + 8 <= sub.len() {
            match wire::event_of(word(at + 4)).id() {
                0 => break,
                id if id == kernel_stack::Event::id().number() => {
                    let nr = word(at + 8) as usize / 4;
                    let chain = (0..nr)
                        .map(|number| word(at + 12 + 4 * number) as usize)
                        .collect();
                    let _ = chains.push(chain);
                    at += 12 + 4 * nr;
                }
                _ => at += wire::CLOCK_LEN as usize,
            }
        }
    });
    chains
}

fn is_in(address: usize, function: fn(u32) -> u32) -> bool {
    (function as usize..function as usize + LONGEST).contains(&address)
}

/// Where in a chain calls by these functions stand side by side.
fn place_of(chain: &[usize], functions: &[fn(u32) -> u32]) -> Option<usize> {
    chain.windows(functions.len()).position(|calls| {
        let mut both = calls.iter().zip(functions);
        both.all(|(call, function)| is_in(*call, *function))
    })
}

#[inline(never)]
fn inner(skip: u32) -> u32 {
    record_stack(skip as usize);
    black_box(skip)
}

#[inline(never)]
fn middle(skip: u32) -> u32 {
    inner(skip) + black_box(1)
}

#[inline(never)]
fn outer(skip: u32) -> u32 {
    middle(skip) + black_box(2)
}

#[inline(never)]
fn interrupted(skip: u32) -> u32 {
    interrupt::raise(|| {
        outer(0);
    });
    black_box(skip)
}

#[inline(never)]
fn around(skip: u32) -> u32 {
    interrupted(skip) + black_box(1)
}

#[inline(never)]
fn deep(levels: u32) -> u32 {
    if levels == 0 {
        return inner(0);
    }
    deep(levels - 1) + black_box(1)
}

event_class! {
    /// A number, in a record as long as what `finish` passes over.
    pub class Followed = "followed", core8 { number: 32 u }
    print "number={number}";
}
event! {
    /// Emitted by `emits`.
    pub followed: Followed = core "test:followed";
}

#[inline(never)]
fn emits(number: u32) -> u32 {
    trace_event!(followed, number);
    black_box(number)
}

#[inline(never)]
fn around_event(number: u32) -> u32 {
    emits(number) + black_box(1)
}

/// Has an interrupt come where a function has no frame: behind the instruction that follows `sti`.
macro_rules! interrupted_at {
    ($($name:ident: $($code:literal),+;)+) => {$(
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!($($code),+)
        }
    )+};
}

interrupted_at! {
    before_push: "sti", "nop", "push rbp", "mov rbp, rsp", "pop rbp", "ret";
    behind_push: "sti", "push rbp", "mov rbp, rsp", "pop rbp", "ret";
    with_frame: "push rbp", "sti", "mov rbp, rsp", "nop", "pop rbp", "ret";
    before_pop: "push rbp", "mov rbp, rsp", "sti", "nop", "pop rbp", "ret";
    before_return: "push rbp", "mov rbp, rsp", "sti", "pop rbp", "ret";
    before_jump: "push rbp", "mov rbp, rsp", "sti", "pop rbp", "jmp 2f", "2:", "ret";
}

/// Calls a function that has an interrupt come in it.
#[inline(never)]
fn calls_unframed(number: u32) -> u32 {
    const FUNCTIONS: [extern "C" fn(); 6] = [
        before_push,
        behind_push,
        with_frame,
        before_pop,
        before_return,
        before_jump,
    ];
    // SAFETY: the function lets them in again.
    unsafe { asm!("cli") };
    interrupt::request(|| {
        outer(0);
    });
    FUNCTIONS[number as usize % FUNCTIONS.len()]();
    black_box(number)
}

#[inline(never)]
fn around_unframed(number: u32) -> u32 {
    calls_unframed(number) + black_box(1)
}

static CAME: AtomicBool = AtomicBool::new(false);

fn in_nmi(_: &Nmi) {
    outer(0);
    CAME.store(true, Relaxed);
}

#[inline(never)]
fn waits_for_nmi(number: u32) -> u32 {
    CAME.store(false, Relaxed);
    interrupt::nmi_after_us(100);
    while !CAME.load(Relaxed) {
        core::hint::spin_loop();
    }
    black_box(number)
}

#[inline(never)]
fn nmi_in_interrupt(number: u32) -> u32 {
    interrupt::raise(|| {
        waits_for_nmi(0);
    });
    black_box(number)
}

target_test! {
    /// The innermost call first, and out of the thread's first function.
    fn a_stack_is_the_chain_of_calls(Shared) {
        begin();
        outer(0);
        let chains = finish();
        check_eq!(chains.len(), 1);
        check_eq!(place_of(&chains[0], &[inner, middle, outer]), Some(0));
        check!(chains[0].len() > 3, "{} calls", chains[0].len());
        Ok(())
    }

    /// The innermost are left out as is said.
    fn some_are_skipped(Shared) {
        begin();
        outer(0);
        outer(2);
        outer(1000);
        let chains = finish();
        check_eq!(chains.len(), 2);
        check_eq!(place_of(&chains[1], &[outer]), Some(0));
        // But for the place of the call in this test.
        check_eq!(chains[1][2..], chains[0][4..]);
        Ok(())
    }

    /// No more than there is room for, the innermost.
    fn a_deep_stack_is_cut(Shared) {
        begin();
        deep(50);
        let chains = finish();
        check_eq!(chains[0].len(), MAX_FRAMES);
        check!(is_in(chains[0][0], inner));
        check!(chains[0][1..].iter().all(|call| is_in(*call, deep)));
        Ok(())
    }

    /// From an interrupt's stack on to what it interrupted.
    fn an_interrupts_stack_goes_on_with_the_threads(Shared) {
        begin();
        around(0);
        let chains = finish();
        check_eq!(chains.len(), 1);
        check_eq!(place_of(&chains[0], &[inner, middle, outer]), Some(0));
        let thread = place_of(&chains[0], &[interrupted, around]);
        check!(thread.is_some_and(|at| at > 3), "{thread:?} of {:x?}", chains[0]);
        Ok(())
    }

    /// An interrupt in a function that has no frame at that instruction hides neither that function nor its caller.
    fn a_function_without_a_frame_is_in_the_stack(Shared) {
        for number in 0..6 {
            begin();
            around_unframed(number);
            let chains = finish();
            check_eq!(chains.len(), 1);
            let caller = place_of(&chains[0], &[calls_unframed, around_unframed]);
            check!(caller.is_some_and(|at| at > 4), "{number}: {caller:?} of {:x?}", chains[0]);
        }
        Ok(())
    }

    /// From an NMI's stack on to what it interrupted: a thread, and an interrupt in a thread.
    fn an_nmis_stack_goes_on_with_what_it_interrupted(Shared) {
        begin();
        // SAFETY: it records.
        unsafe { irq::set_nmi_handler(in_nmi) };
        waits_for_nmi(0);
        nmi_in_interrupt(0);
        // SAFETY: it does nothing.
        unsafe { irq::set_nmi_handler(|_| {}) };
        let chains = finish();
        check_eq!(chains.len(), 2);
        for chain in &chains {
            check_eq!(place_of(chain, &[inner, middle, outer]), Some(0));
        }
        let in_thread = place_of(&chains[0], &[waits_for_nmi]);
        check!(in_thread.is_some_and(|at| at > 3), "{:x?}", chains[0]);
        let in_interrupt = place_of(&chains[1], &[waits_for_nmi]);
        let below = place_of(&chains[1], &[nmi_in_interrupt]);
        check!(in_interrupt.is_some() && in_interrupt < below, "{:x?}", chains[1]);
        Ok(())
    }

    /// While recording is off nothing is recorded, and nothing is counted as lost.
    fn nothing_while_recording_is_off(Shared) {
        begin();
        trace::tracing_off();
        let before = trace::counters_of(0);
        outer(0);
        check_eq!(trace::counters_of(0), before);
        check_eq!(finish().len(), 0);
        Ok(())
    }

    /// Option `stacktrace`: every event is followed by the stack of where it was emitted, in an interrupt too; a stack is
    /// not followed by another.
    fn a_stack_after_every_event(Shared) {
        begin();
        trace::enable(followed::Event::id().number(), true)?;
        trace::rules::events::set_stacktrace(true)?;
        around_event(1);
        interrupt::raise(|| {
            around_event(2);
        });
        trace::rules::events::set_stacktrace(false)?;
        check!(!stack::is_after_events());
        around_event(3);
        trace::enable(followed::Event::id().number(), false)?;
        let chains = finish();
        check_eq!(chains.len(), 2);
        for chain in &chains {
            check_eq!(place_of(chain, &[emits, around_event]), Some(0));
        }
        Ok(())
    }
}
