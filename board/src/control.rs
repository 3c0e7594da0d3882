//! Live control: a thread that carries out what the host sends, and the block in memory that tells the host about the
//! tracer.
//!
//! An image calls [`start`] once. The thread is there only if the command line has `control_ns=`, the time between two
//! looks, or `control_gate=1`; without it a run is the same to the instruction whether the host looks at the block or not, because the host
//! only reads.
//!
//! The host sends a line ([`Setting`]) down RTT channel 1 and waits until [`ControlBlock::nr_done`] has moved. The
//! guest never waits for the host, unless it is told to stand still between settings (`control_gate=1`, under icount).

use core::sync::atomic::Ordering::{Relaxed, Release};

use takt_kernel::config::{CONTROL_STACK_SIZE, MAX_CPUS, RTT_LINES_SIZE};
use takt_kernel::thread::Builder;
use takt_kernel::time::{self, Cycles, Instant, Nanos};
use takt_kernel::{Error, config, smp, thread_stack, trace};
use takt_tracer::control::line::LineBuffer;
use takt_tracer::control::setting::{Errno, Setting};
use takt_tracer::control::{ControlBlock, gate};

use crate::cmdline::CommandLine;
use crate::rtt;
use crate::tracing;

/// Above the loads, which would not let it run, and below everything else.
const PRIORITY: u8 = 5;
/// Shorter periods would leave the thread no time to wait.
const MIN_PERIOD_NS: u64 = 100_000;

#[unsafe(no_mangle)]
static TAKT_CONTROL: ControlBlock = ControlBlock::new();

thread_stack!(static STACK: CONTROL_STACK_SIZE);

/// Fills the block, and starts the thread if the command line asks for it.
///
/// # Errors
/// What creating a thread may fail with; [`Error::InvalidArgument`] for a bad number.
///
/// # Panics
/// If the command line has `control_gate=1` and the machine no gate: the thread would keep the CPU from all below it.
///
/// # Context
/// A thread of the boot CPU, once, and not before the other CPUs are started: switching an event rewrites code, which
/// is refused only while another CPU runs.
pub fn start(line: &CommandLine<'_>) -> Result<(), Error> {
    let block = &TAKT_CONTROL;
    block.tsc_hz.store(time::tsc_hz(), Relaxed);
    block.sub_size.store(config::TRACE_SUB_SIZE as u32, Relaxed);
    block.nr_subs.store(config::TRACE_NR_SUBS as u32, Relaxed);
    for (cpu, of_cpu) in block.cpus.iter().enumerate().take(MAX_CPUS) {
        let (control, memory) = trace::place_of(cpu);
        of_cpu.memory.store(memory as u64, Relaxed);
        of_cpu.control.store(control as u64, Relaxed);
    }
    block.set_tracers(trace::tracers::available());
    #[cfg(feature = "function")]
    trace::function::announce();
    let period = line
        .number("control_ns", 0)
        .map_err(|_| Error::InvalidArgument)?;
    let has_gate = line.get(gate::WORD) == Some("1");
    assert!(
        !has_gate || crate::gate::is_there(),
        "control_gate=1 is for a machine that cargo xtask tracefs --icount has made; this one has no gate: use control_ns="
    );
    if period != 0 || has_gate {
        block.is_listening.store(1, Relaxed);
        let period = match has_gate {
            true => NO_PERIOD,
            false => Nanos::new(period.max(MIN_PERIOD_NS)).to_cycles().get(),
        };
        let thread = Builder::new("control", PRIORITY)?.spawn(&STACK, listen, period as usize)?;
        // What it does is not what anybody wants to see of the system.
        #[cfg(feature = "function")]
        trace::function::leave_out(thread.id())?;
        #[cfg(not(feature = "function"))]
        let _ = thread;
        // As Linux has it: recording is on from the start, and nothing is recorded until an event is on.
        if line.get("tracing_on") != Some("0") {
            trace::tracing_on();
        }
    }
    publish(block);
    block.magic.store(ControlBlock::MAGIC, Release);
    Ok(())
}

/// Stands for a thread that waits at the gate.
const NO_PERIOD: u64 = 0;

/// The thread.
fn listen(period: usize) {
    let mut lines = LineBuffer::<RTT_LINES_SIZE>::new();
    let mut next = Instant::now();
    let mut stands_at = next;
    loop {
        if period as u64 == NO_PERIOD {
            crate::gate::pass();
        } else {
            next += Cycles::new(period as u64);
            if time::sleep_until(next).is_err() {
                return;
            }
        }
        while let Some(byte) = rtt::line_byte() {
            let Some(line) = lines.push(byte) else {
                continue;
            };
            let done = line
                .map_err(|_| Errno::Invalid)
                .and_then(|line| Setting::parse(line).unwrap_or(Err(Errno::NoEntry)))
                .and_then(|setting| carry_out(setting, &mut stands_at).map(|()| setting));
            if matches!(done, Ok(Setting::Tracer(_))) {
                TAKT_CONTROL.nr_chosen.fetch_add(1, Relaxed);
            }
            publish(&TAKT_CONTROL);
            TAKT_CONTROL.answer(done.map_or_else(|error| error as u32, |_| 0));
        }
        // Applications set things as well.
        publish(&TAKT_CONTROL);
    }
}

/// Carries out a setting. `stands_at` is the time from which one that lets time pass counts.
fn carry_out(setting: Setting<'_>, stands_at: &mut Instant) -> Result<(), Errno> {
    if let Setting::Pass(nanos) = setting {
        *stands_at += Nanos::new(nanos).to_cycles();
        return Ok(time::sleep_until(*stands_at)?);
    }
    let done = tracing::carry_out(setting);
    *stands_at = Instant::now();
    done
}

/// Tells the host how things are.
fn publish(block: &ControlBlock) {
    block.now.store(Instant::now().cycles(), Relaxed);
    block.is_on.store(u32::from(trace::is_wanted()), Relaxed);
    block.cpumask.store(trace::cpumask(), Relaxed);
    block
        .tracer
        .store(trace::tracers::current_number() as u32, Relaxed);
    block
        .is_overwrite
        .store(u32::from(trace::is_overwriting()), Relaxed);
    block.capacity.store(trace::buffer_size() as u32, Relaxed);
    block.nr_cpus.store(smp::nr_online(), Relaxed);
}
