//! Picking the next of many threads.

use takt_kernel::thread::{Builder, Thread};
use takt_kernel::thread_stack;

use super::switch::yield_to_equal;
use crate::report::{fail, insn};
use crate::threads::{MAIN, join};

const MOST: usize = 250;
thread_stack!(static STACKS: [4096; MOST]);

fn nothing(_: usize) {}

/// A yield between two equals while others are ready, so that there are `nr` threads to pick from. The others are less
/// important and never run meanwhile.
pub(super) fn all() {
    let mut others = [const { None::<Thread> }; MOST];
    let mut nr_started = 0;
    for nr in [1, 10, 100, 250] {
        // The one that is switched to is one of them.
        while nr_started + 1 < nr {
            let priority = 1 + (nr_started % usize::from(MAIN - 1)) as u8;
            let thread = Builder::new("other", priority)
                .and_then(|builder| builder.spawn(&STACKS[nr_started], nothing, 0));
            match thread {
                Ok(thread) => others[nr_started] = Some(thread),
                Err(error) => fail("spawn", error),
            }
            nr_started += 1;
        }
        insn(format_args!("pick-{nr}"), yield_to_equal());
    }
    others.into_iter().flatten().for_each(join);
}
