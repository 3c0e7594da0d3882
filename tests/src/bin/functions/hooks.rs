//! Hooks at functions' entries.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use takt_kernel::Error;
use takt_kernel::time::{self, Nanos};
use takt_kernel::trace::function::{
    self, Filter, Hook, HookId, MAX_HOOKS, register_function_hook, unregister_function_hook,
};
use takt_tests::{check, check_eq, check_err, interrupt, target_test};

use crate::records::{address, caller, leaf, other};

static CALLS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
static LAST: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn first(ip: usize, parent: usize) {
    CALLS[0].fetch_add(1, Relaxed);
    LAST[0].store(ip, Relaxed);
    LAST[1].store(parent, Relaxed);
}

fn second(_: usize, _: usize) {
    CALLS[1].fetch_add(1, Relaxed);
}

fn recurs(_: usize, _: usize) {
    CALLS[0].fetch_add(1, Relaxed);
    leaf(1);
}

fn nothing(_: usize, _: usize) {}

#[inline(never)]
fn of(functions: &[usize]) -> Filter {
    Filter::of_addresses(functions)
}

#[inline(never)]
fn counts() -> (u32, u32) {
    (CALLS[0].swap(0, Relaxed), CALLS[1].swap(0, Relaxed))
}

/// Registers one of the hooks of this module.
#[inline(never)]
fn register(hook: Hook, filter: &Filter) -> Result<HookId, Error> {
    // SAFETY: all of them change atomics of this module's and nothing else.
    unsafe { register_function_hook(hook, filter) }
}

target_test! {
    /// A hook is told the function and the place in its caller.
    fn a_hook_is_told_who_calls_whom(Shared) {
        counts();
        let hook = register(first, &of(&[address(leaf)]))?;
        check_eq!(caller(1), 3);
        unregister_function_hook(hook)?;
        check_eq!(counts(), (1, 0));
        check_eq!(LAST[0].load(Relaxed), address(leaf));
        let distance = LAST[1].load(Relaxed) - address(caller);
        check!(distance < 64, "{distance} bytes into the caller");
        caller(1);
        check_eq!(counts(), (0, 0));
        check_eq!(function::entry::nr_patched(), 0);
        Ok(())
    }

    /// Several at a time, each with a filter of its own, which can be changed.
    fn several_with_filters_of_their_own(Shared) {
        counts();
        let one = register(first, &of(&[address(leaf)]))?;
        let two = register(second, &of(&[address(leaf), address(other)]))?;
        leaf(1);
        other(1);
        check_eq!(counts(), (1, 2));
        function::set_function_hook_filter(&one, &of(&[address(other)]))?;
        leaf(1);
        check_eq!(counts(), (0, 1));
        other(1);
        check_eq!(counts(), (1, 1));
        unregister_function_hook(one)?;
        other(1);
        check_eq!(counts(), (0, 1));
        unregister_function_hook(two)?;
        other(1);
        check_eq!(counts(), (0, 0));
        Ok(())
    }

    /// One more than there is room for is refused, and room comes back.
    fn as_many_as_there_is_room_for(Shared) {
        let hooks: [Result<HookId, Error>; MAX_HOOKS] = core::array::from_fn(|_| register(nothing, &Filter::NONE));
        check!(hooks.iter().all(Result::is_ok));
        check_err!(register(nothing, &Filter::NONE), OutOfResources);
        for hook in hooks {
            unregister_function_hook(hook?)?;
        }
        let hook = register(nothing, &Filter::NONE)?;
        unregister_function_hook(hook)?;
        Ok(())
    }

    /// What a hook itself calls does not call it again; the guard counts that.
    fn a_hook_does_not_recur(Shared) {
        counts();
        let before = function::nr_recursions();
        let hook = register(recurs, &of(&[address(leaf)]))?;
        leaf(1);
        leaf(2);
        // In an interrupt the guard is another.
        interrupt::raise(|| { leaf(3); });
        unregister_function_hook(hook)?;
        check_eq!(counts(), (3, 0));
        check_eq!(function::nr_recursions() - before, 3);
        Ok(())
    }

    /// Hooks at every function while the kernel is at work: nothing changes but that they are called.
    fn hooks_at_every_function(Shared) {
        counts();
        let hook = register(first, &Filter::ALL)?;
        let another = register(second, &Filter::ALL)?;
        for _ in 0..20 {
            time::sleep(Nanos::from_micros(100))?;
        }
        unregister_function_hook(another)?;
        unregister_function_hook(hook)?;
        let (one, two) = counts();
        check!(one > 100 && two > 100 && one >= two, "{one} and {two} calls");
        Ok(())
    }
}
