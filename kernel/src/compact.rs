//! What keeps cold code short.
//!
//! The kernel is compiled to be fast, so several rounds of a loop are written down wherever it can be told how many there
//! will be. The tracer's cold loops go over few things, once in a while.

use core::arch::asm;

/// The things one after the other, by a loop of one round.
#[inline(always)]
pub(crate) fn rolled<T>(all: &[T]) -> impl Iterator<Item = &T> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let item = all.get(at)?;
        at = opaque(at + 1);
        Some(item)
    })
}

/// The numbers below `end` one after the other, by a loop of one round.
#[inline(always)]
pub(crate) fn counted(end: usize) -> impl Iterator<Item = usize> {
    let mut next = 0;
    core::iter::from_fn(move || {
        let number = next;
        next = opaque(number + 1);
        (number < end).then_some(number)
    })
}

/// The list between two symbols of the linker's.
///
/// # Safety
/// From the first to the second there are `T`s that never change.
#[inline(always)]
pub(crate) unsafe fn between<T>(start: *const T, end: *const T) -> &'static [T] {
    let nr = (end as usize - start as usize) / size_of::<T>();
    // SAFETY: the caller's duty.
    unsafe { core::slice::from_raw_parts(start, nr) }
}

/// The same number, of which the compiler does not know that it is: it makes no copies of a loop for each value either.
#[inline(always)]
pub(crate) fn opaque(mut number: usize) -> usize {
    // SAFETY: no instruction at all.
    unsafe {
        asm!("/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags));
    }
    number
}

/// A call of the function itself where the compiler would write down a copy of it.
#[inline(always)]
pub(crate) fn apart<A, R>(mut function: fn(A) -> R) -> fn(A) -> R {
    // SAFETY: no instruction at all.
    unsafe {
        asm!("/* {0} */", inout(reg) function, options(nostack, preserves_flags));
    }
    function
}

/// The same thing, of which the compiler does not know where it is: its parts are reached from one register, each by a
/// short distance, rather than by their addresses.
#[cfg(feature = "latency-tracers")]
#[inline(always)]
pub(crate) fn based<T>(thing: &'static T) -> &'static T {
    let place = opaque(&raw const *thing as usize) as *const T;
    // SAFETY: the address of `thing`, which is static.
    unsafe { &*place }
}
