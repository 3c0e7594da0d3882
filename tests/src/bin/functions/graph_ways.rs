//! The tracer `function_graph` has two ways: assembly for what goes straight through, and all the rest. Whichever is taken
//! the trace is the same, and nobody notices.

use core::arch::asm;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering::Relaxed};

use heapless::{LinearMap, Vec};
use takt_kernel::config::GRAPH_DEPTH;
use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer, sleep, sleep_until};
use takt_kernel::trace::function::graph::graph_counters;
use takt_kernel::trace::function::{self, Filter, set_profile};
use takt_kernel::trace::{self, Mode};
use takt_kernel::{preempt, thread};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::{check, check_eq, interrupt, note, target_test, worker};

use crate::graph::{Step, begin, check_steps, finish, nests, outer, plain, take};
use crate::records::{address, caller, leaf, other};

/// Which of the two ways entries and returns take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Straight through.
    Straight,
    /// Entries have to be looked up in a set.
    SlowEntries,
    /// Functions are timed, so entries and returns are not the graph's alone.
    Slow,
}

const WAYS: [Way; 3] = [Way::Straight, Way::SlowEntries, Way::Slow];

#[inline(never)]
fn never_called(number: u32) -> u32 {
    black_box(number) + 3
}

/// Has these functions in the graph, each of which takes that way.
#[inline(never)]
fn begin_by(way: Way, functions: &[usize]) -> Result<(), Failure> {
    begin(functions)?;
    match way {
        Way::Straight => {}
        Way::SlowEntries => {
            function::set_graph_notrace(&Filter::of_addresses(&[address(never_called)]))?;
        }
        Way::Slow => set_profile(true)?,
    }
    Ok(())
}

#[inline(never)]
fn finish_all() -> Result<Vec<Step, 128>, Failure> {
    trace::tracing_off();
    set_profile(false)?;
    Ok(finish()?)
}

/// What an empty sub-buffer takes beside the records: the first one is opened here.
fn warm_up() {
    other(0);
}

/// Instructions from before a call to behind it.
fn cost(call: impl FnOnce()) -> u64 {
    let before = Instant::now().cycles();
    call();
    Instant::now().cycles() - before
}

/// Calls in threads, in an interrupt, with preemption disabled, and with another thread in between.
#[inline(never)]
fn everywhere() -> Result<(), Failure> {
    outer(1);
    interrupt::raise(|| {
        caller(1);
    });
    {
        let _guard = preempt::disable();
        caller(2);
    }
    let thread = worker::spawn(0, PRIORITY + 1, nests, 0)?;
    outer(2);
    worker::join(&[thread])?;
    Ok(())
}

/// The arguments of a function, as the registers have them: six and eight.
#[inline(never)]
extern "C" fn all_arguments(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    p: f64,
    q: f64,
    r: f64,
    s: f64,
    t: f64,
    u: f64,
    v: f64,
    w: f64,
) -> u64 {
    let general = [a, b, c, d, e, f];
    let real = [p, q, r, s, t, u, v, w].map(f64::to_bits);
    let all = general.iter().chain(&real);
    all.fold(7, |sum: u64, number| {
        sum.rotate_left(9) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// Everything that may hold a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Results {
    general: [u64; 5],
    real: [u64; 4],
}

#[inline(never)]
extern "C" fn all_results() {
    // SAFETY: changes what it says, and that is what the caller is told.
    unsafe {
        asm!(
            "mov rax, 0x1111111111111111",
            "mov rdx, 0x2222222222222222",
            "mov rcx, 0x3333333333333333",
            "mov r8, 0x4444444444444444",
            "mov r9, 0x5555555555555555",
            "movq xmm0, rax",
            "movq xmm1, rdx",
            "movq xmm2, rcx",
            "movq xmm3, r8",
            out("rax") _, out("rdx") _, out("rcx") _, out("r8") _, out("r9") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
fn results() -> Results {
    let mut results = Results::default();
    let [a, b, c, d, e] = &mut results.general;
    let [p, q, r, s] = &mut results.real;
    // SAFETY: an ordinary call, whose results are what may be in these registers.
    unsafe {
        asm!(
            "call {}",
            "movq rsi, xmm0",
            "movq rdi, xmm1",
            "movq r10, xmm2",
            "movq r11, xmm3",
            sym all_results,
            out("rax") *a, out("rdx") *b, out("rcx") *c, out("r8") *d, out("r9") *e,
            out("rsi") *p, out("rdi") *q, out("r10") *r, out("r11") *s,
            clobber_abi("C"),
        );
    }
    results
}

/// A function whose caller may rely on rsi and rdi.
#[inline(never)]
extern "win64" fn as_in_windows(number: u64) -> u64 {
    black_box(number) + 1
}

/// What that function leaves in rsi and rdi, and its result.
#[inline(never)]
fn kept_for_windows() -> [u64; 3] {
    let [mut a, mut b] = [0x6666_6666_6666_6666, 0x7777_7777_7777_7777];
    let result;
    // SAFETY: an ordinary call, with the room on the stack that it may use.
    unsafe {
        asm!(
            "sub rsp, 32",
            "call {}",
            "add rsp, 32",
            sym as_in_windows,
            in("rcx") 7u64,
            inout("rsi") a, inout("rdi") b, out("rax") result,
            clobber_abi("C"),
        );
    }
    [a, b, result]
}

#[inline(never)]
fn arguments() -> u64 {
    let n = black_box(3);
    let x = black_box(1.5);
    all_arguments(
        n,
        n << 8,
        n << 16,
        n << 24,
        n << 32,
        n << 40,
        x,
        x * 2.0,
        x * 3.0,
        x * 4.0,
        x * 5.0,
        x * 6.0,
        x * 7.0,
        x * 8.0,
    )
}

/// Whether a thread's or an interrupt's functions are nested as calls are.
#[derive(Default)]
struct Nesting {
    under_way: Vec<Option<usize>, { GRAPH_DEPTH }>,
    nr_exits: u32,
}

impl Nesting {
    /// What is deeper than an entry never returned; what returns was entered, at this depth, if its entry is known.
    #[inline(never)]
    fn follow(&mut self, step: Step) -> Result<(), Failure> {
        let depth = step.depth as usize;
        if step.is_entry {
            check!(self.under_way.resize(depth, None).is_ok());
            check!(self.under_way.push(Some(step.ip)).is_ok());
        } else {
            let entered = self.under_way.get(depth).copied().flatten();
            check!(
                entered.is_none_or(|ip| ip == step.ip),
                "{step:x?}, {entered:x?} was entered"
            );
            self.under_way.truncate(depth);
            self.nr_exits += u32::from(entered.is_some());
        }
        Ok(())
    }
}

/// Follows what was recorded, on each stack, and says how many returns had their entry.
#[inline(never)]
fn follow_all() -> Result<u32, Failure> {
    let mut stacks = LinearMap::<_, Nesting, 16>::new();
    let mut outcome = Ok(());
    take(&mut |step| {
        // An interrupt's thread is another each time.
        let owner = (!step.is_irq).then_some(step.tid);
        if !stacks.contains_key(&owner) {
            let _ = stacks.insert(owner, Nesting::default());
        }
        if let (Some(stack), Ok(())) = (stacks.get_mut(&owner), &outcome) {
            outcome = stack.follow(step);
        }
    });
    outcome?;
    check!(stacks.len() < 16);
    Ok(stacks.values().map(|stack| stack.nr_exits).sum())
}

static MAIN: AtomicU16 = AtomicU16::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);
static GO_ON: AtomicBool = AtomicBool::new(false);
static THERE: Semaphore = Semaphore::new(0, 1);
static BACK: Semaphore = Semaphore::new(0, 1);

fn in_interrupt(_: usize, _: Expiry) {
    caller(1);
    CALLS.fetch_add(1, Relaxed);
}

/// Calls whenever it is told to, at an instant that comes while another thread is at work.
fn in_another_thread(_: usize) {
    while THERE.take().is_ok() && GO_ON.load(Relaxed) {
        let at = CALLS.load(Relaxed);
        let _ = sleep_until(Instant::now() + Cycles::new(u64::from(at)));
        caller(1);
        CALLS.store(0, Relaxed);
    }
}

fn pong(_: usize) {
    while THERE.take().is_ok() && GO_ON.load(Relaxed) {
        let _ = BACK.give();
    }
}

/// The calls of `caller` that these steps are, each complete; `None` if they are anything else.
fn calls_in(steps: impl Iterator<Item = Step>) -> Option<u32> {
    let [a, b] = [caller, leaf].map(address);
    let one = [(true, a, 0), (true, b, 1), (false, b, 1), (false, a, 0)];
    let mut nr = 0;
    for (step, expected) in steps.zip(one.iter().cycle()) {
        if (step.is_entry, step.ip, step.depth) != *expected {
            return None;
        }
        nr += 1;
    }
    (nr % 4 == 0).then_some(nr / 4)
}

/// What was recorded is one call of `caller` by the other and so many by the thread.
#[inline(never)]
fn check_calls(at: u32, nr: u32, is_other: fn(&Step) -> bool) -> Result<(), Failure> {
    let mut steps = Vec::<Step, 128>::new();
    take(&mut |step| steps.push(step).unwrap_or_default());
    let of = |other| calls_in(steps.iter().filter(|step| is_other(step) == other).copied());
    let found = (of(true), of(false));
    check!(
        found == (Some(1), Some(nr)),
        "{at}: {found:?} of {nr} calls, {steps:x?}"
    );
    Ok(())
}

/// How many instructions a call of `caller` takes, all in all, is less than this.
const SWEPT: u32 = 500;

target_test! {
    /// The same records, with the same contexts, whichever way they come about.
    fn all_ways_give_the_same_trace(Shared) {
        let functions = [outer, caller, leaf, other].map(address);
        let mut expected = None;
        for way in WAYS {
            let before = graph_counters();
            begin_by(way, &functions)?;
            everywhere()?;
            let steps = finish_all()?;
            check_eq!(graph_counters(), before);
            // Three times all four, and twice two.
            check_eq!(steps.len(), 3 * 8 + 2 * 4);
            let expected = expected.get_or_insert_with(|| steps.clone());
            // The other thread's number may be another.
            check_steps(&steps, &plain(expected))?;
            for (step, expected) in steps.iter().zip(expected.iter()) {
                check!(step.is_irq == expected.is_irq && step.context & 0xff == expected.context & 0xff,
                    "{way:?}: {step:x?} is not {expected:x?}");
                check!(step.is_irq || u16::from(step.tid) == step.context >> 8, "{way:?}: {step:x?}");
            }
        }
        Ok(())
    }

    /// What is measured elsewhere is the straight way, and it is a short one: entry and return in 120 instructions.
    fn straight_is_short(Shared) {
        let mut costs = Vec::<u64, 3>::new();
        let call = || cost(|| { leaf(1); });
        let off = call();
        for way in WAYS {
            begin_by(way, &[leaf, other].map(address))?;
            warm_up();
            let _ = costs.push(call() - off);
            check_eq!(finish_all()?.len(), 4);
        }
        note!("{costs:?} instructions");
        check!(costs[0] <= 120 && costs[1] > costs[0] + 50 && costs[2] > costs[1], "{costs:?} instructions");
        Ok(())
    }

    /// Arguments and results in registers of every kind.
    fn registers_are_kept(Shared) {
        let functions = [
            all_arguments as *const () as usize,
            all_results as *const () as usize,
            as_in_windows as *const () as usize,
        ];
        let all = || (arguments(), results(), kept_for_windows());
        let before = all();
        check_eq!(before.1.general[4], 0x5555_5555_5555_5555);
        check_eq!(before.1.real[3], 0x4444_4444_4444_4444);
        check_eq!(before.2, [0x6666_6666_6666_6666, 0x7777_7777_7777_7777, 8]);
        for way in WAYS {
            begin_by(way, &functions)?;
            // The first opens a sub-buffer, the second relies on it; and with recording off.
            for _ in 0..2 {
                let now = all();
                check!(now == before, "{way:?}: {before:x?} became {now:x?}");
            }
            trace::tracing_off();
            let now = all();
            check!(now == before, "{way:?}, recording off: {before:x?} became {now:x?}");
            check_eq!(finish_all()?.len(), 12);
        }
        Ok(())
    }

    /// From one sub-buffer to the next nothing is lost and nothing is there twice.
    fn from_one_sub_buffer_to_the_next(Shared) {
        const NR: u32 = 2_000;
        begin(&[caller, leaf].map(address))?;
        for number in 0..NR {
            check_eq!(caller(number), number + 2);
        }
        trace::tracing_off();
        function::stop()?;
        let (mut nr, mut is_right) = (0, true);
        let [a, b] = [caller, leaf].map(address);
        take(&mut |step| {
            let expected = [(true, a, 0), (true, b, 1), (false, b, 1), (false, a, 0)][nr as usize % 4];
            is_right &= (step.is_entry, step.ip, step.depth) == expected;
            nr += 1;
        });
        check_eq!(nr, 4 * NR);
        check!(is_right);
        finish()?;
        Ok(())
    }

    /// Recording that is switched on and off, and a depth that is changed, while functions are under way.
    fn changed_meanwhile(Shared) {
        #[inline(never)]
        fn switches_on(number: u32) -> u32 {
            trace::tracing_on();
            leaf(number) + black_box(1)
        }
        #[inline(never)]
        fn is_outside(number: u32) -> u32 {
            switches_on(number) + black_box(1)
        }
        #[inline(never)]
        fn lowers(number: u32) -> u32 {
            function::set_max_graph_depth(1);
            leaf(number) + black_box(1)
        }
        #[inline(never)]
        fn calls_lowers(number: u32) -> u32 {
            lowers(number) + black_box(1)
        }
        let [a, b, c, d, e] = [is_outside, switches_on, leaf, calls_lowers, lowers].map(address);
        begin(&[a, b, c, d, e])?;
        trace::tracing_off();
        check_eq!(is_outside(1), 4);
        check_eq!(calls_lowers(1), 4);
        leaf(1);
        let steps = finish()?;
        let expected = [
            (true, c, 2), (false, c, 2), (false, b, 1), (false, a, 0),
            (true, d, 0), (true, e, 1), (false, e, 1), (false, d, 0), (true, c, 0), (false, c, 0),
        ];
        check_steps(&steps, &expected)?;
        Ok(())
    }

    /// An interrupt at every instruction of a call.
    fn interrupted_everywhere(Shared) {
        begin(&[caller, leaf].map(address))?;
        trace::tracing_off();
        let timer = Timer::new(in_interrupt, 0)?;
        for at in 0..SWEPT {
            CALLS.store(0, Relaxed);
            trace::tracing_on();
            timer.arm(Instant::now() + Cycles::new(u64::from(100 + at)));
            let mut nr = 0;
            while CALLS.load(Relaxed) == 0 {
                check_eq!(caller(nr), nr + 2);
                nr += 1;
            }
            trace::tracing_off();
            check_calls(at, nr, |step| step.is_irq)?;
        }
        finish()?;
        Ok(())
    }

    /// Another thread at every instruction of a call.
    fn preempted_everywhere(Shared) {
        GO_ON.store(true, Relaxed);
        let thread = worker::spawn(0, PRIORITY + 1, in_another_thread, 0)?;
        begin(&[caller, leaf].map(address))?;
        trace::tracing_off();
        MAIN.store(thread::current().id().into(), Relaxed);
        for at in 0..SWEPT {
            CALLS.store(400 + at, Relaxed);
            trace::tracing_on();
            THERE.give()?;
            let mut nr = 0;
            while CALLS.load(Relaxed) != 0 {
                check_eq!(caller(nr), nr + 2);
                nr += 1;
            }
            trace::tracing_off();
            check_calls(at, nr, |step| u16::from(step.tid) != MAIN.load(Relaxed))?;
        }
        GO_ON.store(false, Relaxed);
        THERE.give()?;
        worker::join(&[thread])?;
        finish()?;
        Ok(())
    }

    /// Every function of a system at work, switches and idle threads included: what returns has been entered.
    fn every_return_has_its_entry(Shared) {
        finish()?;
        trace::set_mode(Mode::StopWhenFull);
        GO_ON.store(true, Relaxed);
        let thread = worker::spawn(0, PRIORITY + 1, pong, 0)?;
        function::start_graph()?;
        trace::tracing_on();
        for _ in 0..120 {
            THERE.give()?;
            BACK.take()?;
            sleep(Nanos::from_micros(5))?;
        }
        trace::tracing_off();
        function::stop()?;
        GO_ON.store(false, Relaxed);
        THERE.give()?;
        worker::join(&[thread])?;
        let nr_exits = follow_all()?;
        check!(nr_exits > 500, "only {nr_exits} returns");
        finish()?;
        Ok(())
    }
}
