//! How long a process could have run: whether a guest is dead, or only its host busy.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// A clock that stands still while the process waits for one of the host's CPUs.
///
/// Where the kernel does not say how long that was (`/proc/PID/task/TID/schedstat`), it is the ordinary time.
#[derive(Debug)]
pub struct Served {
    process: u32,
    since: Instant,
    /// How long each thread had waited for a CPU at that moment.
    waited: BTreeMap<String, Duration>,
}

impl Served {
    /// Begins now.
    #[must_use]
    pub fn new(process: u32) -> Self {
        Self {
            process,
            since: Instant::now(),
            waited: waited(process),
        }
    }

    /// Begins anew.
    pub fn restart(&mut self) {
        *self = Self::new(self.process);
    }

    /// Whether it has had this much time since the beginning.
    ///
    /// Whoever waits asks often: how long threads have waited is looked up only where that decides.
    #[must_use]
    pub fn has_had(&self, time: Duration) -> bool {
        self.since.elapsed() >= time && self.elapsed() >= time
    }

    /// The time since the beginning, less the longest time for which a thread of the process has waited for a CPU.
    fn elapsed(&self) -> Duration {
        let elapsed = self.since.elapsed();
        let since = |(thread, waited): (String, Duration)| {
            waited.saturating_sub(self.waited.get(&thread).copied().unwrap_or_default())
        };
        let longest = waited(self.process).into_iter().map(since).max();
        elapsed.saturating_sub(longest.unwrap_or_default())
    }
}

/// How long each thread of a process has waited for a CPU so far.
fn waited(process: u32) -> BTreeMap<String, Duration> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return BTreeMap::new();
    };
    threads
        .filter_map(|thread| {
            let thread = thread.ok()?;
            let text = takt_base::input::read_to_string(thread.path().join("schedstat")).ok()?;
            let waited = parse(&text)?;
            Some((thread.file_name().into_string().ok()?, waited))
        })
        .collect()
}

/// The second number of `schedstat`: nanoseconds that the thread was ready and had no CPU (Linux,
/// `Documentation/scheduler/sched-stats.rst`).
fn parse(text: &str) -> Option<Duration> {
    let nanos = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_is_read() {
        assert_eq!(
            parse("1137296 6439711 4\n"),
            Some(Duration::from_nanos(6_439_711))
        );
        assert_eq!(parse("12"), None);
        assert_eq!(parse("1 x 4"), None);
    }

    #[test]
    fn no_more_than_the_time_that_passed() {
        let whole = Instant::now();
        let mut served = Served::new(std::process::id());
        while whole.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert!(served.elapsed() <= whole.elapsed());
        let again = Instant::now();
        served.restart();
        assert!(served.elapsed() <= again.elapsed());
    }

    #[test]
    fn of_a_process_that_is_gone_it_is_the_time_that_passed() {
        let served = Served::new(u32::MAX);
        std::thread::sleep(Duration::from_millis(2));
        assert!(served.has_had(Duration::from_millis(2)));
        assert!(!served.has_had(Duration::from_secs(3600)));
    }
}
