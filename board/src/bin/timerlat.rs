//! The image that `cargo xtask latency-run` boots: timerlat and cyclictest, told by the command line what to do.
#![no_std]
#![no_main]

use core::sync::atomic::Ordering::Relaxed;

use takt_board::cmdline::CommandLine;
#[cfg(feature = "console")]
use takt_board::console;
use takt_board::{capture, clocks, control, machine, rtt};
use takt_kernel::fault::ExitCode;
use takt_kernel::machine::TscFacts;
use takt_kernel::thread::{self, State};
use takt_kernel::trace;
use takt_kernel::{irq, smp, time};
use takt_timerlat::config::Config;
#[cfg(feature = "tasks")]
use takt_timerlat::config::User;
use takt_timerlat::stats::{MAX_CPUS, RunState, Status, ThreadState};
use takt_timerlat::workload::{self, Hooks};

#[cfg(feature = "tasks")]
use takt_tracer::named::Named;

takt_board::entry!(main);

/// What the host reads from the guest's memory, at any time.
#[unsafe(no_mangle)]
static TAKT_STATUS: Status = Status::new();

fn main(text: &'static str) {
    let line = CommandLine(text);
    if line.get("probe").is_some() {
        return;
    }
    TAKT_STATUS.init();
    capture::show(&TAKT_STATUS);
    TAKT_STATUS.tsc_hz.store(time::tsc_hz(), Relaxed);
    TAKT_STATUS.lapic_hz.store(clocks::apic_hz(), Relaxed);
    let sources = clocks::sources();
    TAKT_STATUS.tsc_source.store(sources.tsc as u32, Relaxed);
    TAKT_STATUS
        .lapic_source
        .store(sources.lapic as u32, Relaxed);
    TAKT_STATUS
        .invariant_tsc
        .store(u32::from(TscFacts::is_invariant()), Relaxed);
    TAKT_STATUS
        .tsc_deadline
        .store(u32::from(TscFacts::has_deadline_timer()), Relaxed);
    machine::start();
    let idle: fn() = match machine::is_counting() {
        true => || {
            machine::idle();
            beat();
        },
        false => beat,
    };
    takt_board::set_idle_hook(idle);
    let code = match Config::read(|word| line.get(word)) {
        Ok(config) => measure(&line, &config),
        Err(value) => {
            defmt::error!(
                "bad value {=str} at byte {=usize} of the command line: {=str}",
                value,
                value.as_ptr().addr() - text.as_ptr().addr(),
                text
            );
            #[cfg(feature = "console")]
            console::print(format_args!("bad value {value} on the command line\n"));
            TAKT_STATUS.set_state(RunState::Error);
            ExitCode::Failed
        }
    };
    #[cfg(feature = "console")]
    say_end(&code);
    machine::finish();
    publish();
    takt_board::end(code)
}

/// Starts the other CPUs, runs the workload, and says how it ended.
fn measure(line: &CommandLine<'_>, config: &Config) -> ExitCode {
    TAKT_STATUS
        .nr_cpus
        .store(takt_board::smp::start(config.smp as usize), Relaxed);
    // Not before: it switches events, for which no other CPU may be on its way.
    if let Err(error) = control::start(line) {
        defmt::error!("there is no live control: {}", error);
    }
    defmt::info!(
        "{} on CPUs {=u32:#x}: period {=u64} ns, duration {=u64} ns, priority {=u8}, load {}",
        config.workload,
        config.cpus.0,
        config.period_ns,
        config.duration_ns,
        config.prio,
        config.load
    );
    #[cfg(feature = "tasks")]
    let user = line
        .get("user")
        .and_then(User::from_name)
        .unwrap_or_default();
    let hooks = Hooks {
        command: match machine::is_counting() {
            true => || {
                machine::sampled(&TAKT_STATUS);
                command()
            },
            false => command,
        },
        hand_over: capture::hand_over,
        #[cfg(feature = "tasks")]
        tasks: match user {
            User::Own => Some(start_own),
            User::Any => Some(start_all),
            User::None | User::Beside => None,
        },
    };
    #[cfg(feature = "tasks")]
    if user == User::Beside
        && let Err(error) = start_all(config)
    {
        defmt::error!("the tasks do not start: {}", error);
    }
    #[cfg(feature = "console")]
    announce(config);
    match workload::run(config, &TAKT_STATUS, hooks) {
        Ok(()) if TAKT_STATUS.state.load(Relaxed) == RunState::Threshold as u32 => {
            defmt::info!("a threshold was hit");
            ExitCode::Threshold
        }
        Ok(()) => {
            defmt::info!("done");
            ExitCode::Passed
        }
        Err(error) => {
            defmt::error!("the workload could not run: {}", error);
            TAKT_STATUS.set_state(RunState::Error);
            ExitCode::Failed
        }
    }
}

/// Starts a task on each CPU that is measured, in the order of the manifest: it is told the CPU.
#[cfg(feature = "tasks")]
fn start_own(config: &Config) -> Result<u32, takt_kernel::Error> {
    let cpus = (0..MAX_CPUS).filter(|cpu| config.cpus.has(*cpu) && smp::is_online(*cpu));
    let started = cpus.enumerate().map(|(number, cpu)| {
        takt_kernel::task::start_on(number, cpu as u64, cpu, Some(config.prio_of(number as u8)))
            .map(|_| 1)
    });
    started.sum()
}

/// Starts all tasks as the manifest says; whichever asks for it is measured.
#[cfg(feature = "tasks")]
fn start_all(_: &Config) -> Result<u32, takt_kernel::Error> {
    takt_board::tasks::start_all(drop).map_err(|(_, error)| error)?;
    Ok(0)
}

/// What the host says, or who stands at the machine.
fn command() -> Option<u8> {
    #[cfg(feature = "console")]
    if let Some(command) = console::command() {
        return Some(command);
    }
    rtt::command()
}

/// Says what is measured, and shows the latencies from now on.
#[cfg(feature = "console")]
fn announce(config: &Config) {
    console::print(format_args!(
        "CPUs              {}\n{} on CPUs {}, period {} ns, priority {} {}, load {}\nq ends the run\n\n",
        smp::nr_online(),
        config.workload,
        config.cpus,
        config.period_ns,
        config.policy,
        config.prio,
        config.load,
    ));
    if let Err(error) = console::watch(&TAKT_STATUS) {
        console::print(format_args!("no table: {error:?}\n"));
    }
}

/// Says how it ended, below the last table.
#[cfg(feature = "console")]
fn say_end(code: &ExitCode) {
    console::finish();
    let result = match code {
        ExitCode::Passed => "passed",
        ExitCode::Threshold => "a threshold was hit",
        ExitCode::Failed | ExitCode::Fault => "FAILED",
    };
    let then = match capture::has_port() {
        true => "What is recorded goes over COM1 now.",
        false => "The machine may be switched off.",
    };
    console::print(format_args!("result: {result}. {then}\n"));
}

/// A sign of life, in each CPU's idle thread.
fn beat() {
    let cpu = smp::this_cpu();
    if let Some(status) = TAKT_STATUS.cpus.get(cpu) {
        status.heartbeat.store(irq::count(cpu), Relaxed);
    }
}

/// The counters and the thread table, for the report.
fn publish() {
    trace::tracing_off();
    for cpu in (0..MAX_CPUS).filter(|cpu| smp::is_online(*cpu)) {
        let (status, counters) = (&TAKT_STATUS.cpus[cpu], trace::counters_of(cpu));
        status.trace.entries.store(counters.entries, Relaxed);
        status.trace.bytes.store(counters.bytes, Relaxed);
        status.trace.overrun.store(counters.overrun, Relaxed);
        status
            .trace
            .commit_overrun
            .store(counters.commit_overrun, Relaxed);
        status.trace.dropped.store(counters.dropped, Relaxed);
        status
            .unexpected_irqs
            .store(irq::unexpected_count(cpu), Relaxed);
    }
    thread::for_each(|info| {
        let Some(slot) = TAKT_STATUS.threads.get(usize::from(info.id)) else {
            return;
        };
        slot.set_name(info.name);
        slot.prio.store(u32::from(info.priority), Relaxed);
        slot.cpu.store(info.cpu, Relaxed);
        if let Some(times) = info.times {
            slot.runtime_cycles.store(times.cycles.get(), Relaxed);
            slot.switches.store(times.switches, Relaxed);
        }
        let state = match info.state {
            s if s.is_empty() => ThreadState::Ready,
            s if s.contains(State::EXITED) => ThreadState::Exited,
            s if s.intersects(State::SUSPENDED | State::CREATED) => ThreadState::Suspended,
            _ => ThreadState::Blocked,
        };
        slot.state.store(state as u32, Relaxed);
    });
}
