//! Every capacity of the system, the board's and the workloads' among them, in one place.
//!
//! All memory is static. A capacity can be set for a build by an environment variable of the name given
//! (`TAKT_MAX_THREADS=16 cargo xtask build`), or in the file that `TAKT_CONFIG` names (`max_threads = 16`; an application's is
//! `takt.toml`, see `build.rs`); running out of any of them at run time is an error that the caller gets,
//! never a panic. The status block, whose layout the host knows, has limits of its own (`takt_timerlat::stats`): an
//! image with a workload and more CPUs or threads than those does not build.

use crate::clock::Nanos;

/// Reads a decimal number at compile time, or takes the default when the variable is not set.
const fn number(text: Option<&str>, default: usize) -> usize {
    let Some(text) = text else { return default };
    let bytes = text.as_bytes();
    let (mut value, mut i) = (0, 0);
    while i < bytes.len() {
        assert!(bytes[i].is_ascii_digit(), "a capacity is a decimal number");
        value = value * 10 + (bytes[i] - b'0') as usize;
        i += 1;
    }
    value
}

/// CPUs that can be used. The idle thread of CPU n has thread id n.
pub const MAX_CPUS: usize = number(option_env!("TAKT_MAX_CPUS"), 8);

/// A CPU's number as an index of a table of [`MAX_CPUS`], of which the compiler knows that it is within.
#[inline(always)]
#[must_use]
pub const fn cpu_index(cpu: usize) -> usize {
    cpu.wrapping_rem(MAX_CPUS)
}

// The symbol's value tells the host, which has to know the idle threads of a trace.
core::arch::global_asm!(".global takt_max_cpus", ".set takt_max_cpus, {}", const MAX_CPUS);

/// Threads, idle threads included; a power of two, at most 256.
pub const MAX_THREADS: usize = number(option_env!("TAKT_MAX_THREADS"), 256);

/// Software timers ([`crate::time::Timer`]); each thread has one more of its own for its time-outs.
/// At most 2047 together with the threads, with tasks 1919.
pub const MAX_TIMERS: usize = number(option_env!("TAKT_MAX_TIMERS"), 1024);

/// Protected tasks of an image.
pub const MAX_TASKS: usize = 64;

/// Timers of the kernel's own, of each CPU: one, and for each task one for its budget and one for its watchdog.
pub(crate) const KERNEL_TIMERS: usize = if cfg!(feature = "tasks") {
    1 + 2 * MAX_TASKS
} else {
    1
};

/// Timer ids in all, the kernel's own among them, rounded up to a power of two.
pub const TIMER_IDS: usize = (MAX_THREADS + MAX_TIMERS + KERNEL_TIMERS).next_power_of_two();

const _: () = assert!(
    TIMER_IDS <= 1 << takt_tracer::wire::NEAR_BITS,
    "TAKT_MAX_THREADS and TAKT_MAX_TIMERS are more than 2047 together, or with tasks 1919"
);

/// Bytes of a trace sub-buffer: a power of two from 1024 to 8 MiB, so that every record has room.
pub const TRACE_SUB_SIZE: usize = if TRACE { SUB_SIZE } else { 64 };
const SUB_SIZE: usize = number(option_env!("TAKT_TRACE_SUB_SIZE"), 4096);

/// Without trace points there is a ring in which nothing is.
const TRACE: bool = cfg!(feature = "trace");

// The symbol's value tells the host, which counts in bytes.
core::arch::global_asm!(
    ".global takt_trace_sub_size",
    ".set takt_trace_sub_size, {}",
    const TRACE_SUB_SIZE,
);

/// Sub-buffers of each CPU's trace ring: a power of two.
pub const TRACE_NR_SUBS: usize = if TRACE { NR_SUBS } else { 2 };
const NR_SUBS: usize = number(option_env!("TAKT_TRACE_NR_SUBS"), 64);

// The symbol's value tells the host, which counts what was overwritten.
core::arch::global_asm!(
    ".global takt_trace_nr_subs",
    ".set takt_trace_nr_subs, {}",
    const TRACE_NR_SUBS,
);

/// Functions that can be traced: a multiple of 64. Sets of functions have a bit for each.
pub const MAX_FUNCTIONS: usize = number(option_env!("TAKT_MAX_FUNCTIONS"), 1024);

// The symbol's value tells the host, which reads tables of that length.
core::arch::global_asm!(
    ".global takt_max_functions",
    ".set takt_max_functions, {}",
    const MAX_FUNCTIONS,
);

/// Functions under way on one stack that the function graph keeps track of; what is nested deeper is counted.
pub const GRAPH_DEPTH: usize = number(option_env!("TAKT_GRAPH_DEPTH"), 32);

/// Bytes of each CPU's interrupt stack; whole pages.
pub const IRQ_STACK_SIZE: usize = number(option_env!("TAKT_IRQ_STACK_SIZE"), 16 * 1024);

/// Bytes of each of a CPU's exception stacks (#DF, NMI, #MC, other exceptions); whole pages.
pub const EXCEPTION_STACK_SIZE: usize = number(option_env!("TAKT_EXCEPTION_STACK_SIZE"), 8 * 1024);

/// Bytes of an idle thread's stack, whole pages; the boot CPU boots on its own, and idle hooks run there.
pub const IDLE_STACK_SIZE: usize = number(option_env!("TAKT_IDLE_STACK_SIZE"), 16 * 1024);

/// Bytes of the main thread's stack, whole pages: the image's `main` runs there.
pub const MAIN_STACK_SIZE: usize = number(option_env!("TAKT_MAIN_STACK_SIZE"), 32 * 1024);

/// Bytes of the stack of each thread of a workload, measured or load; whole pages.
pub const WORKLOAD_STACK_SIZE: usize = number(option_env!("TAKT_WORKLOAD_STACK_SIZE"), 16 * 1024);

/// Latencies below 2 to this power of nanoseconds are counted each by itself, larger ones to 1/256: from 8 to 24. There are
/// 16 histograms in the status block, of 4 bytes a nanosecond.
pub const HISTOGRAM_BITS: usize = number(option_env!("TAKT_HISTOGRAM_BITS"), 12);

/// How many log messages can be in the making or wait for room in the log, a power of two up to 32: threads that are preempted while they
/// log, and handlers. A message for which there is no buffer is dropped and counted.
pub const NR_LOG_MESSAGES: usize = number(option_env!("TAKT_NR_LOG_MESSAGES"), 8);

/// Bytes of an encoded log message. A longer one is dropped and counted.
pub const LOG_MESSAGE_SIZE: usize = number(option_env!("TAKT_LOG_MESSAGE_SIZE"), 512);

/// Bytes of the log in memory (RTT up channel 0).
pub const RTT_UP_SIZE: usize = number(option_env!("TAKT_RTT_UP_SIZE"), 32 * 1024);

/// Bytes of commands from the host that wait to be read (RTT down channel 0); each is one byte.
pub const RTT_DOWN_SIZE: usize = 64;

/// Bytes of settings from the host that wait to be read (RTT down channel 1): a line of up to one less.
pub const RTT_LINES_SIZE: usize = 512;

/// Bytes of the stack of the thread that carries the host's settings out; whole pages.
pub const CONTROL_STACK_SIZE: usize = number(option_env!("TAKT_CONTROL_STACK_SIZE"), 8 * 1024);

/// Bytes of the kernel's command line; the board does not boot with a longer one, which cut would be another.
pub const MAX_COMMAND_LINE: usize = number(option_env!("TAKT_MAX_COMMAND_LINE"), 4096);

/// Largest virtio queue for which there is memory. The device sets its size (QEMU's console: 128); one that is larger
/// is not used.
pub const MAX_VIRTIO_QUEUE: usize = 256;

/// Page tables for the image, of 2 MiB each; an image that is larger does not boot.
pub const IMAGE_TABLES: usize = number(option_env!("TAKT_IMAGE_TABLES"), 8);

/// Page tables for stacks and the 64 KiB below each of them, of 2 MiB each; an image with more does not link.
pub const STACK_TABLES: usize = number(option_env!("TAKT_STACK_TABLES"), 16);

// The symbol's value tells the linker.
core::arch::global_asm!(".global takt_stack_tables", ".set takt_stack_tables, {}", const STACK_TABLES);

/// Default quantum of round-robin threads.
pub const RR_QUANTUM: Nanos = Nanos::from_millis(10);

/// The shortest quantum: a shorter one counts as this. Its end is an interrupt and a switch, which have to leave most of it to
/// the thread; else equals would only take turns, and nobody below them would ever run.
pub const MIN_RR_QUANTUM: Nanos = Nanos::from_micros(20);

/// Longest chain of mutexes along which priority is inherited.
pub const MAX_PI_CHAIN: usize = takt_scheduler::pi::MAX_CHAIN;

const _: () = assert!(MAX_CPUS >= 1 && MAX_CPUS <= 16, "between 1 and 16 CPUs");
const _: () = assert!(
    MAX_THREADS.is_power_of_two() && MAX_THREADS <= 256,
    "a power of two up to 256"
);
const _: () = assert!(MAX_THREADS > MAX_CPUS, "each CPU's idle thread takes one");
const _: () = assert!(
    MAIN_STACK_SIZE.is_multiple_of(4096) && WORKLOAD_STACK_SIZE.is_multiple_of(4096),
    "stacks are whole pages"
);
const _: () = assert!(
    MAIN_STACK_SIZE >= 4096 && WORKLOAD_STACK_SIZE >= 4096,
    "a stack has a page at least"
);
const _: () = assert!(
    IRQ_STACK_SIZE.is_multiple_of(4096)
        && EXCEPTION_STACK_SIZE.is_multiple_of(4096)
        && IDLE_STACK_SIZE.is_multiple_of(4096),
    "stacks are whole pages"
);
const _: () = assert!(
    IRQ_STACK_SIZE >= 4096 && EXCEPTION_STACK_SIZE >= 4096 && IDLE_STACK_SIZE >= 4096,
    "a stack has a page at least"
);
const _: () = assert!(
    CONTROL_STACK_SIZE.is_multiple_of(4096) && CONTROL_STACK_SIZE >= 4096,
    "stacks are whole pages"
);
const _: () = assert!(
    NR_LOG_MESSAGES >= 2 && NR_LOG_MESSAGES <= 32 && NR_LOG_MESSAGES.is_power_of_two(),
    "there is a bit for each, one for what says how many were dropped, and their numbers wrap"
);
const _: () = assert!(
    RTT_UP_SIZE >= 2 && RTT_UP_SIZE <= u32::MAX as usize,
    "the log has a byte at least, and one stays free; its offsets are 32 bits wide"
);
const _: () = assert!(
    IMAGE_TABLES >= 1 && IMAGE_TABLES < 512,
    "the image lies in the first gigabyte"
);
const _: () = assert!(
    STACK_TABLES >= 1 && STACK_TABLES <= 512,
    "the stacks lie in one gigabyte"
);
const _: () = assert!(
    MAX_FUNCTIONS.is_multiple_of(64),
    "sets of functions are whole words"
);
const _: () = assert!(TRACE_SUB_SIZE.is_power_of_two() && TRACE_NR_SUBS.is_power_of_two());
const _: () = assert!(
    !TRACE || TRACE_SUB_SIZE >= 1024,
    "TAKT_TRACE_SUB_SIZE is below 1024: a record that has no room would be written for ever"
);
