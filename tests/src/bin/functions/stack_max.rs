//! The stack tracer: the exact depth of a planted chain of calls.

use core::arch::asm;
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use heapless::Vec;
use takt_kernel::config::MAX_THREADS;
use takt_kernel::trace::function::{
    self, Filter, set_stack_filter, set_stack_max, set_stack_tracer, stack_max_of,
};
use takt_kernel::{Error, thread};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::{check, check_eq, interrupt, target_test, worker};
use takt_tracer::stack_max::MAX_FRAMES;

use crate::records::leaf;

/// Where the return addresses of the planted functions lie.
static SLOTS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// A function with a frame of its own, which notes where its return address lies and calls the next.
macro_rules! level {
    ($name:ident, $level:literal, $bytes:literal, $next:path) => {
        #[inline(never)]
        fn $name(number: u32) -> u32 {
            let frame: usize;
            // SAFETY: reads a register; the return address lies above the caller's frame pointer, which it points to.
            unsafe { asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags)) };
            SLOTS[$level].store(frame + 8, Relaxed);
            let room = black_box([0u8; $bytes]);
            $next(number) + u32::from(room[0])
        }
    };
}
level!(innermost, 0, 8, leaf);
level!(third, 1, 1000, innermost);
level!(second, 2, 64, third);
level!(first, 3, 3000, second);

fn planted(_: usize) {
    first(1);
}

/// What was found of a stack: a place in each function, and its depth.
struct Found {
    top: usize,
    frames: Vec<(usize, usize), MAX_FRAMES>,
}

fn found(number: usize) -> Option<Found> {
    let deepest = stack_max_of(number)?;
    let nr = deepest.nr.load(Relaxed) as usize;
    let frame = |frame: &takt_tracer::stack_max::Frame| {
        (
            frame.address.load(Relaxed) as usize,
            frame.depth.load(Relaxed) as usize,
        )
    };
    Some(Found {
        top: deepest.top.load(Relaxed) as usize,
        frames: deepest.frames.iter().take(nr).map(frame).collect(),
    })
}

/// Whether the chain is the planted one, every depth exact.
fn check_planted(found: &Found) -> Result<(), Failure> {
    let functions =
        [leaf, innermost, third, second, first].map(|function: fn(u32) -> u32| function as usize);
    check!(found.frames.len() >= functions.len(), "{:x?}", found.frames);
    for ((address, _), function) in found.frames.iter().zip(functions) {
        check!(
            address.wrapping_sub(function) < 256,
            "{address:#x} is not in {function:#x}"
        );
    }
    check_eq!(found.frames[0].0, functions[0]);
    for ((_, depth), slot) in found.frames[1..].iter().zip(&SLOTS) {
        check_eq!(*depth, found.top - slot.load(Relaxed));
    }
    check!(found.frames.is_sorted_by(|one, next| one.1 > next.1));
    check!(found.frames[0].1 > 4000, "{} bytes", found.frames[0].1);
    Ok(())
}

fn begin() -> Result<(), Error> {
    set_stack_max(0)?;
    set_stack_tracer(true)
}

fn end() -> Result<(), Failure> {
    set_stack_tracer(false)?;
    check_eq!(function::entry::nr_patched(), 0);
    Ok(())
}

target_test! {
    /// A thread's deepest use, with the chain of calls that reached it; what is less deep changes nothing.
    fn a_planted_chain(Shared) {
        begin()?;
        let thread = worker::create(0, PRIORITY + 1, planted, 0)?;
        let number = usize::from(thread.id());
        thread.start()?;
        worker::join(&[thread])?;
        let it = found(number);
        check!(it.is_some());
        if let Some(it) = it {
            check_planted(&it)?;
            // The outermost is the thread's own beginning: near the top.
            let (_, depth) = it.frames[it.frames.len() - 1];
            check!(depth <= 64, "{:x?}", it.frames);
        }
        check!(stack_max_of(usize::from(thread::current().id())).is_some());
        end()
    }

    /// The same on the interrupt stack, where nothing of the interrupted thread is in it.
    fn an_interrupts_stack(Shared) {
        begin()?;
        interrupt::raise(|| { first(1); });
        set_stack_tracer(false)?;
        let it = found(MAX_THREADS);
        check!(it.is_some());
        if let Some(it) = it {
            check_planted(&it)?;
            check!(it.frames.iter().all(|(_, depth)| *depth <= 16 * 1024));
        }
        let mine = found(usize::from(thread::current().id()));
        check!(mine.is_none_or(|mine| mine.frames[0].1 < 4000));
        end()
    }

    /// `stack_trace_filter`: only at the entries of these functions it is looked how deep the stack is; what led there
    /// is kept all the same.
    fn only_the_functions_in_the_filter_measure(Shared) {
        set_stack_max(0)?;
        set_stack_filter(&Filter::of_addresses(&[third as fn(u32) -> u32 as usize]))?;
        set_stack_tracer(true)?;
        let nr = function::entry::nr_patched();
        let thread = worker::create(0, PRIORITY + 1, planted, 0)?;
        let number = usize::from(thread.id());
        thread.start()?;
        worker::join(&[thread])?;
        let it = found(number);
        let nr_stacks = (0..MAX_THREADS + 1).filter(|number| stack_max_of(*number).is_some()).count();
        set_stack_filter(&Filter::ALL)?;
        let nr_of_all = function::entry::nr_patched();
        set_stack_tracer(false)?;
        check_eq!(nr, 1);
        check!(nr_of_all > 50, "{nr_of_all} functions measure without a filter");
        check!(it.is_some());
        if let Some(it) = it {
            let functions = [third, second, first].map(|function: fn(u32) -> u32| function as usize);
            check_eq!(it.frames[0].0, functions[0]);
            for ((address, depth), (function, slot)) in it.frames.iter().zip(functions.iter().zip(&SLOTS[1..])) {
                check!(address.wrapping_sub(*function) < 256, "{address:#x} is not in {function:#x}");
                check_eq!(*depth, it.top - slot.load(Relaxed));
            }
        }
        // Nobody else's stack was looked at.
        check_eq!(nr_stacks, 1);
        end()
    }

    /// Only what is deeper than it is said is kept.
    fn the_least_that_is_kept(Shared) {
        set_stack_max(100_000)?;
        set_stack_tracer(true)?;
        first(1);
        set_stack_tracer(false)?;
        check!((0..MAX_THREADS + 1).all(|number| stack_max_of(number).is_none()));
        begin()?;
        first(1);
        check!(stack_max_of(usize::from(thread::current().id())).is_some());
        set_stack_max(0)?;
        end()
    }
}
