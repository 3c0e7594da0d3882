//! The function profiler: exact hits and exact times.

use core::arch::asm;
use core::hint::black_box;

use takt_kernel::Error;
use takt_kernel::time::{self, Nanos};
use takt_kernel::trace::function::{self, Filter, graph::graph_counters, profile_of, set_profile};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::{check, check_eq, interrupt, target_test, worker};
use takt_tracer::profile::View;

use crate::records::{address, caller, leaf, other};

/// As many instructions as are said, besides what every function has.
macro_rules! takes {
    ($name:ident, $nr:literal) => {
        #[inline(never)]
        fn $name(_: u32) -> u32 {
            // SAFETY: does nothing.
            unsafe { asm!(".rept {}", "nop", ".endr", const $nr, options(nomem, nostack, preserves_flags)) };
            0
        }
    };
}
takes!(takes_100, 100);
takes!(takes_1000, 1000);

#[inline(never)]
fn takes_by_number(number: u32) -> u32 {
    // SAFETY: counts down; two instructions a round.
    unsafe { asm!("2: dec {0:e}", "jnz 2b", inout(reg) number => _, options(nomem, nostack)) };
    0
}

/// Sleeps for as many microseconds.
#[inline(never)]
fn sleeps(us: u32) -> u32 {
    u32::from(time::sleep(Nanos::new(u64::from(us) * 1000)).is_ok())
}

#[inline(never)]
fn begin(functions: &[fn(u32) -> u32]) -> Result<(), Error> {
    set_profile(false)?;
    let ids = functions
        .iter()
        .filter_map(|function| function::id_of(address(*function)));
    function::set_filter(&Filter::of_ids(ids))?;
    set_profile(true)
}

#[inline(never)]
fn end() -> Result<(), Failure> {
    set_profile(false)?;
    function::set_filter(&Filter::ALL)?;
    check_eq!(function::entry::nr_patched(), 0);
    Ok(())
}

#[inline(never)]
fn of(function: fn(u32) -> u32) -> View {
    function::id_of(address(function)).map_or_else(View::default, |id| profile_of(0, id))
}

fn calls_leaf(times: usize) {
    for number in 0..times {
        leaf(number as u32);
        let _ = time::sleep(Nanos::from_micros(3));
    }
}

target_test! {
    /// Each call is one hit, in threads and interrupts; what is not in the filter has none.
    fn hits_are_exact(Shared) {
        begin(&[leaf, caller])?;
        for number in 0..10 {
            caller(number);
        }
        other(1);
        for _ in 0..3 {
            interrupt::raise(|| { leaf(2); });
        }
        set_profile(false)?;
        caller(1);
        check_eq!((of(leaf).hits, of(caller).hits, of(other).hits), (13, 10, 0));
        end()
    }

    /// A function's time is the number of its instructions, to the instruction, and so are the squares.
    fn times_are_exact(Shared) {
        begin(&[takes_100, takes_1000])?;
        for _ in 0..5 {
            takes_100(0);
        }
        takes_1000(0);
        interrupt::raise(|| { takes_1000(0); });
        set_profile(false)?;
        let (short, long) = (of(takes_100), of(takes_1000));
        // One instruction more sets the result.
        check_eq!((short.hits, short.cycles, short.squares), (5, 5 * 101, 5 * 101 * 101));
        check_eq!((long.hits, long.cycles, long.squares), (2, 2 * 1001, 2 * 1001 * 1001));
        end()
    }

    /// Calls that take different times: the variance is that of a sample.
    fn the_variance(Shared) {
        begin(&[takes_by_number])?;
        for number in [100, 200, 300] {
            takes_by_number(number);
        }
        set_profile(false)?;
        let found = of(takes_by_number);
        // 200, 400 and 600, and what is around the loop, which is the same each time.
        let around = (found.cycles - 1200) / 3;
        check!(around < 10 && found.cycles == 1200 + 3 * around, "{found:?}");
        check_eq!(found.variance_ns2(1_000_000_000), 40_000);
        end()
    }

    /// Times are gross: what a function calls, what interrupts it, and what runs while it sleeps.
    fn times_are_gross(Shared) {
        #[inline(never)]
        fn calls_both(number: u32) -> u32 {
            takes_100(number) + takes_1000(number) + black_box(1)
        }
        #[inline(never)]
        fn is_interrupted(number: u32) -> u32 {
            interrupt::raise(|| { takes_1000(0); });
            black_box(number)
        }
        begin(&[calls_both, is_interrupted, sleeps])?;
        calls_both(1);
        is_interrupted(1);
        let before = time::Instant::now().cycles();
        sleeps(50);
        let slept = time::Instant::now().cycles() - before;
        set_profile(false)?;
        let both = of(calls_both).cycles;
        check!((1100..1130).contains(&both), "{both}");
        let interrupted = of(is_interrupted).cycles;
        check!((1000..1200).contains(&interrupted), "{interrupted}");
        let sleeping = of(sleeps).cycles;
        check!(sleeping >= 50_000 && sleeping < slept, "{sleeping} of {slept}");
        end()
    }

    /// Threads that preempt each other in the middle of what is counted.
    fn nothing_is_lost_to_preemption(Shared) {
        begin(&[leaf])?;
        let thread = worker::spawn(0, PRIORITY + 1, calls_leaf, 200)?;
        let mut calls = 0;
        while calls < 20_000 {
            leaf(calls);
            calls += 1;
        }
        worker::join(&[thread])?;
        set_profile(false)?;
        check_eq!(of(leaf).hits, u64::from(calls) + 200);
        end()
    }

    /// Together with the function graph, whose records are the same.
    fn beside_the_graph(Shared) {
        begin(&[leaf, caller])?;
        let before = graph_counters();
        function::start_graph()?;
        caller(1);
        function::stop()?;
        caller(2);
        set_profile(false)?;
        check_eq!((of(leaf).hits, of(caller).hits), (2, 2));
        check_eq!(graph_counters(), before);
        end()
    }

    /// Switched on again it begins anew; off while a function is under way, that one's time does not count.
    fn on_and_off(Shared) {
        #[inline(never)]
        fn switches_off(_: u32) -> u32 {
            u32::from(set_profile(false).is_ok())
        }
        begin(&[leaf, switches_off])?;
        leaf(1);
        check_eq!(switches_off(0), 1);
        check_eq!((of(leaf).hits, of(switches_off).hits, of(switches_off).cycles), (1, 1, 0));
        set_profile(true)?;
        check_eq!((of(leaf), of(switches_off)), (View::default(), View::default()));
        end()
    }

    /// Every function of a system at work.
    fn every_function(Shared) {
        set_profile(true)?;
        let before = time::Instant::now().cycles();
        for _ in 0..20 {
            sleeps(100);
        }
        let took = time::Instant::now().cycles() - before;
        set_profile(false)?;
        let found = of(sleeps);
        check_eq!(found.hits, 20);
        check!(found.cycles >= 20 * 100_000 && found.cycles < took, "{found:?} of {took}");
        let nr = (0..function::entry::entries().len()).filter(|id| profile_of(0, *id).hits != 0).count();
        check!(nr > 5, "only {nr} functions");
        end()
    }
}
