//! The tracers timerlat and osnoise: what they can be set to, and that their threads come and go with them.

use takt_board::carry_out;
use takt_kernel::config::MAX_CPUS;
use takt_kernel::time::{Nanos, Timer};
use takt_kernel::trace::{self, tracers};
use takt_kernel::{Error, smp, thread, time};
use takt_tests::{check, check_eq, target_test};
use takt_tracer::control::osnoise::{Flag, Param};
use takt_tracer::control::setting::{Errno, Setting};
use takt_tracer::named::Named;

fn set(text: &str) -> Result<(), Errno> {
    Setting::parse(text)
        .unwrap_or(Err(Errno::NoEntry))
        .and_then(carry_out)
}

/// All as it is at first.
fn reset() -> Result<(), Error> {
    tracers::set_tracer("nop")?;
    trace::tracing_off();
    // In an order in which each is possible.
    for param in [Param::Period, Param::Runtime].iter().chain(Param::ALL) {
        trace::osnoise::set(*param, param.default())?;
    }
    Ok(())
}

/// Threads of that name.
fn nr_threads(name: &str) -> usize {
    let mut nr = 0;
    thread::for_each(|it| nr += usize::from(it.name == name));
    nr
}

target_test! {
    /// What is out of range has Linux's number, and changes nothing.
    fn osnoise_limits_are_linuxs(Shared) {
        reset()?;
        for bad in [
            "osnoise=timerlat_period,99999",
            "osnoise=timerlat_period,1000000001",
            "osnoise=runtime,1000000001",
            "osnoise=runtime,0",
            "osnoise=period,999999999",
            "osnoise=cpus,0",
            "osnoise=cpus,4294967040",
            "osnoise=options,32",
        ] {
            check_eq!(set(bad), Err(Errno::Invalid));
        }
        for param in Param::ALL {
            check_eq!(trace::osnoise::get(*param), param.default());
        }
        check_eq!(set("osnoise=period,20000000000"), Ok(()));
        check_eq!(set("osnoise=runtime,10000000001"), Err(Errno::Invalid));
        check_eq!(set("osnoise=runtime,10000000000"), Ok(()));
        check_eq!(set("osnoise=timerlat_period,100000"), Ok(()));
        check_eq!(set("osnoise=runtime,500000"), Ok(()));
        check_eq!(set("osnoise=period,500000"), Ok(()));
        check_eq!(trace::osnoise::get(Param::Period), 500_000);
        reset()?;
        Ok(())
    }
}

target_test! {
    /// A thread on each CPU in `cpus` while the tracer is chosen, none without the option `OSNOISE_WORKLOAD`.
    fn timerlat_threads_come_and_go(Shared) {
        reset()?;
        for _ in 0..3 {
            check_eq!(nr_threads("timerlat/0"), 0);
            check_eq!(set("ftrace=timerlat"), Ok(()));
            check_eq!(nr_threads("timerlat/0"), 1);
            check_eq!(set("ftrace=nop"), Ok(()));
        }
        check_eq!(nr_threads("timerlat/0"), 0);
        trace::osnoise::set(Param::Options, 0)?;
        check_eq!(set("ftrace=timerlat"), Ok(()));
        check_eq!(nr_threads("timerlat/0"), 0);
        // Changed while it runs.
        trace::osnoise::set(Param::Options, Flag::Workload.bit())?;
        check_eq!(nr_threads("timerlat/0"), 1);
        check_eq!(set("ftrace=osnoise"), Ok(()));
        check_eq!(nr_threads("timerlat/0"), 0);
        check_eq!(nr_threads("osnoise/0"), 1);
        reset()?;
        check_eq!(nr_threads("osnoise/0"), 0);
        Ok(())
    }
}

target_test! {
    /// Two samples an activation, at the period of then; recording stops where the latency reaches a limit.
    fn timerlat_samples_and_stops(Shared) {
        reset()?;
        let entries = || trace::counters_of(0).entries;
        check_eq!(set("mode=flight"), Ok(()));
        check_eq!(set("osnoise=timerlat_period,100000"), Ok(()));
        check_eq!(set("ftrace=timerlat"), Ok(()));
        trace::tracing_on();
        time::sleep(Nanos::from_millis(2))?;
        let before = entries();
        time::sleep(Nanos::from_millis(1))?;
        let in_ten = entries() - before;
        check!((20..=22).contains(&in_ten), "{in_ten} records of ten activations");
        check_eq!(set("osnoise=timerlat_period,1000000"), Ok(()));
        time::sleep(Nanos::from_millis(1))?;
        let before = entries();
        time::sleep(Nanos::from_millis(3))?;
        let in_three = entries() - before;
        check!((6..=8).contains(&in_three), "{in_three} records of three activations");
        // Every latency is as long as that.
        check_eq!(set("osnoise=stop_tracing_total,1"), Ok(()));
        time::sleep(Nanos::from_millis(2))?;
        check!(!trace::is_wanted());
        reset()?;
        Ok(())
    }
}

target_test! {
    /// Who leaves `timerlat` gives its threads' timers back, for whoever creates one next.
    fn timerlat_gives_its_timers_back(Shared) {
        let next = || Timer::new(|_, _| {}, 0).map(|timer| usize::from(timer.number()));
        reset()?;
        // Until there are none left of an earlier choice: a new one has the highest number that there was.
        let mut highest = 0;
        for _ in 0..=MAX_CPUS {
            highest = highest.max(next()?);
        }
        for _ in 0..3 {
            check_eq!(set("ftrace=timerlat"), Ok(()));
            check_eq!(set("ftrace=nop"), Ok(()));
        }
        let number = next()?;
        let last = highest + smp::nr_online() as usize;
        check!((highest + 1..=last).contains(&number), "timer {number} after {highest}");
        Ok(())
    }
}
