//! Frequencies: told by the CPU or the command line, or measured.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_kernel::boot::Clocks;
use takt_kernel::machine::{self, Port, TscFacts};
use takt_kernel::time::{Instant, Nanos};
use takt_timerlat::stats::FrequencySource;
use takt_timerlat::stats::machine::Reference;
use takt_tracer::named::Named;

use crate::acpi::Tables;
use crate::cmdline::CommandLine;
use crate::hpet::Hpet;
use crate::pic;

/// Where the two frequencies come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sources {
    /// That of the TSC.
    pub tsc: FrequencySource,
    /// That of the local APIC's timer.
    pub lapic: FrequencySource,
}

/// How long a measurement lasts.
const WINDOW: Nanos = Nanos::from_millis(10);
const PM_TIMER_HZ: u64 = 3_579_545;

/// Finds the frequencies.
pub(crate) fn find(line: &CommandLine<'_>, tables: &Tables) -> (Clocks, Sources) {
    PLACES.call_once(|| (tables.hpet, tables.pm_timer));
    let told = line.number("tsc_hz", 0).unwrap_or(0);
    if told != 0 {
        let apic_hz = line.number("lapic_hz", told).unwrap_or(told);
        return (
            Clocks {
                tsc_hz: told,
                apic_hz,
            },
            Sources {
                tsc: FrequencySource::CommandLine,
                lapic: FrequencySource::CommandLine,
            },
        );
    }
    let (measured, lapic) = measure(tables);
    let (clocks, tsc) = match TscFacts::hz() {
        Some(tsc_hz) => (Clocks { tsc_hz, ..measured }, FrequencySource::Cpuid),
        None => (measured, lapic),
    };
    (clocks, Sources { tsc, lapic })
}

/// One pass of `wait`, which says how long it lasted.
fn against(wait: impl FnOnce() -> Nanos) -> Clocks {
    // SAFETY: the timer is started when its frequency is known.
    let counted = unsafe { machine::start_counting() };
    let (tsc_before, apic_before) = (Instant::now().cycles(), counted());
    let time = wait().get().max(1);
    let (tsc_after, apic_after) = (Instant::now().cycles(), counted());
    let hz = |counts: u64| (u128::from(counts) * 1_000_000_000 / u128::from(time)) as u64;
    Clocks {
        tsc_hz: hz(tsc_after - tsc_before),
        apic_hz: hz(u64::from(apic_after.wrapping_sub(apic_before))),
    }
}

/// How long so many counts last, of which a second has `hz`.
fn lasted(counts: u64, hz: u64) -> Nanos {
    Nanos::new(counts * 1_000_000_000 / hz)
}

fn measure(tables: &Tables) -> (Clocks, FrequencySource) {
    // SAFETY: ACPI says that it is there, and the devices' gigabyte is mapped.
    let hpet = tables.hpet.and_then(|base| unsafe { Hpet::new(base) });
    if let Some(hpet) = hpet {
        let clocks = against(|| {
            let start = hpet.count();
            loop {
                let time = hpet.time(hpet.count().wrapping_sub(start));
                if time >= WINDOW {
                    return time;
                }
            }
        });
        return (clocks, FrequencySource::Hpet);
    }
    if let Some(port) = tables.pm_timer {
        // SAFETY: ACPI names the port.
        let read = || u64::from(unsafe { Port::<u32>::new(port).read() } & 0xff_ffff);
        let clocks = against(|| {
            let start = read();
            loop {
                // The counter has 24 bits at least.
                let time = lasted(read().wrapping_sub(start) & 0xff_ffff, PM_TIMER_HZ);
                if time >= WINDOW {
                    return time;
                }
            }
        });
        return (clocks, FrequencySource::PmTimer);
    }
    let ticks = (WINDOW.get() * pic::PIT_HZ / 1_000_000_000) as u16;
    let clocks = against(|| {
        pic::wait_pit(ticks);
        lasted(ticks.into(), pic::PIT_HZ)
    });
    (clocks, FrequencySource::Pit)
}

/// Where clocks beside the TSC are: address of the HPET, port of the PM timer.
static PLACES: spin::Once<(Option<usize>, Option<u16>)> = spin::Once::new();

/// Reads the TSC and the best clock beside it, as the reference's `n`-th pair.
pub(crate) fn mark(reference: &Reference, n: usize) {
    let Some(&(hpet, pm_timer)) = PLACES.get() else {
        return;
    };
    // SAFETY: ACPI says that it is there, and the devices' gigabyte is mapped.
    let hpet = hpet.and_then(|base| unsafe { Hpet::new(base) });
    let (kind, period_fs, bits, count) = match (hpet, pm_timer) {
        (Some(hpet), _) => (1, hpet.period_fs(), hpet.bits(), hpet.count()),
        // SAFETY: ACPI names the port.
        (None, Some(port)) => (2, 1_000_000_000_000_000 / PM_TIMER_HZ, 24, unsafe {
            u64::from(Port::<u32>::new(port).read() & 0xff_ffff)
        }),
        (None, None) => return,
    };
    reference.kind.store(kind, Relaxed);
    reference.period_fs.store(period_fs, Relaxed);
    reference.bits.store(bits, Relaxed);
    if let Some([at, counted]) = reference.marks.get(n) {
        at.store(Instant::now().cycles(), Relaxed);
        counted.store(count, Relaxed);
    }
}

static TSC_SOURCE: AtomicU32 = AtomicU32::new(0);
static LAPIC_SOURCE: AtomicU32 = AtomicU32::new(0);
static APIC_HZ: AtomicU64 = AtomicU64::new(0);

#[cfg(feature = "image")]
pub(crate) fn publish(clocks: Clocks, sources: Sources) {
    TSC_SOURCE.store(sources.tsc as u32, Relaxed);
    LAPIC_SOURCE.store(sources.lapic as u32, Relaxed);
    APIC_HZ.store(clocks.apic_hz, Relaxed);
}

/// Where the frequencies came from.
#[must_use]
pub fn sources() -> Sources {
    let source = |raw: &AtomicU32| FrequencySource::from_raw(raw.load(Relaxed)).unwrap_or_default();
    Sources {
        tsc: source(&TSC_SOURCE),
        lapic: source(&LAPIC_SOURCE),
    }
}

/// Frequency of the local APIC timer in Hz.
#[must_use]
pub fn apic_hz() -> u64 {
    APIC_HZ.load(Relaxed)
}
