//! Work on several of the host's CPUs.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// CPUs that this process may use.
#[must_use]
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does something with every item, with `jobs` of them at a time; the results in the items' order.
///
/// # Panics
///
/// If `act` does.
pub fn each<T: Sync, R: Send>(jobs: usize, items: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Relaxed);
            let Some(item) = items.get(number) else {
                return done;
            };
            done.push((number, act(item)));
        }
    };
    let mut all = Vec::with_capacity(items.len());
    thread::scope(|scope| {
        let jobs = jobs.clamp(1, items.len().max(1));
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            all.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, result)| result).collect()
}
