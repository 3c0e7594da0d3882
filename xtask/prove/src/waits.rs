//! Calls that block: how long each takes from its first instruction to the switch.

use crate::image::{Image, demangled};

/// What a call is, and the kernel's functions in which it begins. What the compiler writes out before, where it is made, is its
/// caller's: of a mutex and a semaphore that is the compare-and-swap. Generic functions stand there once for each type.
const CALLS: [(&str, &[&str]); 10] = [
    ("semaphore take", &["semaphore::begin_take"]),
    (
        "mutex lock",
        &["raw_mutex::<impl takt_kernel::sync::mutex_state::RawMutex>::lock_slow"],
    ),
    ("queue send", &["queue::Queue<T,_>::begin_send"]),
    ("queue receive", &["queue::Queue<T,_>::begin_receive"]),
    ("condition wait", &["condvar::Condvar::wait_until"]),
    ("flags wait", &["event_flags::EventFlags::wait"]),
    ("sleep", &["time::sleep_until"]),
    (
        "join",
        &["join::<impl takt_kernel::thread::handle::Thread>::join"],
    ),
    ("suspend", &["handle::begin_suspend_myself"]),
    ("park", &["park::begin_park", "park::park_until"]),
];

/// Where the first instructions of calls are, and what they are.
pub(crate) fn calls(image: &Image) -> Vec<(&'static str, u64)> {
    let regions = image.regions().map(|(at, name)| (at, demangled(name)));
    let named = regions.filter_map(|(at, name)| {
        let name = name.strip_prefix("takt_kernel::")?;
        let is_of = |of: &&str| {
            name.strip_suffix(*of)
                .is_some_and(|it| it.is_empty() || it.ends_with("::"))
        };
        let (call, _) = CALLS.iter().find(|(_, of)| of.iter().any(is_of))?;
        Some((*call, at))
    });
    named.collect()
}
