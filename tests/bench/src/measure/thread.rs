//! Threads: create, start, suspend, resume; the last three with the switch that they cause.

use takt_kernel::thread::{self, Builder};

use super::ROUNDS;
use crate::clock::{START, Value, stamp};
use crate::report::{fail, insn};
use crate::threads::{MAIN, join, must, stack};

static STARTED: Value = Value::new();
static SUSPENDED: Value = Value::new();
static RESUMED: Value = Value::new();

fn entry(_: usize) {
    STARTED.take();
    suspend();
}

/// Apart, so that what it keeps of its registers does not count for the start.
#[inline(never)]
fn suspend() {
    START.set();
    let suspended = thread::current().suspend();
    RESUMED.take();
    must("suspend", suspended);
}

pub(super) fn all() {
    let mut create = 0;
    for _ in 0..ROUNDS {
        let before = stamp();
        let created =
            Builder::new("bench", MAIN + 1).and_then(|builder| builder.create(stack(0), entry, 0));
        create = stamp().wrapping_sub(before);
        let thread = created.unwrap_or_else(|error| fail("create", error));
        START.set();
        let started = thread.start();
        SUSPENDED.take();
        must("start", started);
        START.set();
        must("resume", thread.resume());
        join(thread);
    }
    insn("thread-create", create);
    insn("thread-start", STARTED.get());
    insn("thread-suspend", SUSPENDED.get());
    insn("thread-resume", RESUMED.get());
}
