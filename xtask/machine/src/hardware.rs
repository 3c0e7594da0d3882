//! [`MachineRecord`]: what a machine says of itself that bears on its latencies, made sense of.
//!
//! The image keeps raw words and makes no sense of them (`takt_board::machine`). A sample that is the greatest so far is
//! noted with the SMIs and NMIs that were counted since: the cause `unknown` means that neither came.

use std::io;
use std::mem::{offset_of, size_of};

use serde::{Deserialize, Serialize};
use takt_timerlat::stats::machine::{
    CpuCounts, IA32_BIOS_SIGN_ID, IA32_HWP_REQUEST, IA32_L3_QOS_MASK_0, IA32_MISC_ENABLE,
    IA32_PERF_CTL, IA32_PM_ENABLE, IA32_PQR_ASSOC, MSR_PKG_CST_CONFIG_CONTROL, MSR_PLATFORM_INFO,
    MSR_POWER_CTL, MSRS, Machine, NMI, NR_OUTLIERS, Outlier, Reference, SMI,
};
use takt_timerlat::stats::view::Memory;
use takt_timerlat::stats::{MAX_CPUS, MAX_SLOTS};

/// The TSC and the other clock may differ by so much, in millionths: by a thousandth, latencies are as they are said to be. Two
/// crystals differ by some ten, and a frequency that was measured, in 10 ms, may be off by some hundred.
const MAX_DRIFT_PPM: f64 = 1000.0;
/// Over a shorter time the difference of two readings says nothing.
const MIN_DRIFT_NS: u64 = 1_000_000_000;
/// Outliers that are named of each latency of a measured thread.
const NAMED: usize = 3;

/// A machine that ran timerlat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct MachineRecord {
    pub cpu: String,
    /// CPUID 1 EAX: family, model, stepping.
    pub signature: u32,
    pub hypervisor: Option<String>,
    pub microcode: Option<u32>,
    pub is_tsc_invariant: bool,
    pub drift: Option<DriftRecord>,
    /// System management interrupts during the measurement, of each CPU; none if they are not counted.
    pub smis: Option<Vec<u64>>,
    /// NMIs during the measurement, of each CPU.
    pub nmis: Vec<u64>,
    /// Model-specific registers by their numbers, hexadecimal, as they were at the beginning.
    pub msrs: Vec<(String, u64)>,
    pub has_cache_allocation: bool,
    pub outliers: Vec<OutlierRecord>,
    /// What else is to be known of the figures.
    pub notes: Vec<String>,
}

/// The TSC beside another clock, over the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct DriftRecord {
    pub reference: String,
    pub ns: u64,
    /// How much faster the TSC was than its frequency says, in millionths.
    pub ppm: f64,
}

/// A latency that was the greatest until then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct OutlierRecord {
    pub slot: usize,
    pub measure: String,
    pub value_ns: u64,
    /// The how-manieth sample it was, from 1.
    pub sample: u32,
    /// `SMI`, `NMI`, both, or `unknown`.
    pub cause: String,
}

/// The words of a [`Machine`].
struct Raw(Vec<u8>);

impl Raw {
    fn u32(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..at + 4).and_then(|it| it.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }

    /// Text of so many words.
    fn text(&self, at: usize, nr: usize) -> String {
        let bytes: Vec<_> = (0..nr)
            .flat_map(|n| self.u32(at + 4 * n).to_le_bytes())
            .filter(|byte| matches!(byte, b' '..=b'~'))
            .collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    fn cpuid(&self, n: usize) -> u32 {
        self.u32(offset_of!(Machine, cpuid) + 4 * n)
    }

    fn msr(&self, number: u32) -> Option<u64> {
        let n = MSRS.iter().position(|it| *it == number)?;
        let has = self.u64(offset_of!(Machine, has_msrs)) >> n & 1 != 0;
        has.then(|| self.u64(offset_of!(Machine, msrs) + 8 * n))
    }
}

impl MachineRecord {
    /// Reads it from the machine's memory; `None` if the machine has not filled it. `nr_cpus` ran.
    ///
    /// # Errors
    ///
    /// If the memory cannot be read.
    pub fn read(
        memory: &impl Memory,
        at: u64,
        tsc_hz: u64,
        nr_cpus: usize,
    ) -> io::Result<Option<Self>> {
        let mut bytes = vec![0; size_of::<Machine>()];
        memory.read_exact_at(at, &mut bytes)?;
        let raw = Raw(bytes);
        if raw.u32(offset_of!(Machine, is_there)) == 0 {
            return Ok(None);
        }
        let hypervisor = raw.text(offset_of!(Machine, hypervisor), 3);
        let mut record = Self {
            cpu: raw.text(offset_of!(Machine, brand), 12),
            signature: raw.cpuid(0),
            hypervisor: (raw.cpuid(1) >> 31 != 0).then_some(hypervisor),
            microcode: raw.msr(IA32_BIOS_SIGN_ID).map(|it| (it >> 32) as u32),
            is_tsc_invariant: raw.cpuid(5) >> 8 & 1 != 0,
            drift: drift(&raw, tsc_hz),
            smis: None,
            nmis: counts(&raw, nr_cpus, offset_of!(CpuCounts, nmis)),
            msrs: MSRS
                .iter()
                .filter_map(|number| Some((format!("{number:#x}"), raw.msr(*number)?)))
                .collect(),
            has_cache_allocation: raw.cpuid(3) >> 15 & 1 != 0 && raw.cpuid(4) & 6 != 0,
            outliers: outliers(&raw),
            notes: Vec::new(),
        };
        if raw.u32(offset_of!(Machine, counts_smis)) != 0 {
            record.smis = Some(counts(&raw, nr_cpus, offset_of!(CpuCounts, smis)));
        }
        record.notes = record.notes(&raw);
        Ok(Some(record))
    }

    /// Why its latencies may be wrong.
    #[must_use]
    pub fn taints(&self) -> Vec<String> {
        let mut taints = Vec::new();
        // TCG has no invariant bit; its clocks are the host's, seen through the translator.
        if !self.is_tsc_invariant && !self.is_tcg() {
            taints.push("the TSC is not invariant".into());
        }
        if let Some(drift) = self.drift.as_ref().filter(|it| it.is_too_much())
            && !self.is_tcg()
        {
            taints.push(format!(
                "the TSC is {:+.0} ppm off the {}: all latencies are wrong by as much",
                drift.ppm, drift.reference
            ));
        }
        taints
    }

    /// All of it for people: name and text of each line.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let microcode = self.microcode.filter(|it| *it != 0);
        let microcode = microcode.map_or_else(String::new, |it| format!(", microcode {it:#x}"));
        let mut lines = vec![("machine", format!("{}{microcode}", self.cpu))];
        if let Some(smis) = &self.smis {
            let smis: Vec<_> = smis.iter().map(ToString::to_string).collect();
            lines.push(("SMIs", format!("{} (of each CPU)", smis.join(" "))));
        }
        if let Some(drift) = &self.drift {
            let (reference, s) = (&drift.reference, drift.ns as f64 / 1e9);
            // Not `-0.0`.
            let ppm = (drift.ppm * 10.0).round() / 10.0 + 0.0;
            lines.push((
                "TSC",
                format!("{ppm:+.1} ppm beside the {reference} in {s:.1} s"),
            ));
        }
        lines.extend(self.outliers.iter().map(|it| {
            let text = format!(
                "{} latency of {} ns, slot {}, sample {}: {}",
                it.measure, it.value_ns, it.slot, it.sample, it.cause
            );
            ("outlier", text)
        }));
        lines.extend(self.notes.iter().map(|note| ("note", note.clone())));
        lines
    }

    fn is_tcg(&self) -> bool {
        self.hypervisor
            .as_deref()
            .is_some_and(|name| name.starts_with("TCGTCG"))
    }

    /// What bears on the latencies and makes them no less true.
    fn notes(&self, raw: &Raw) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(name) = &self.hypervisor {
            notes.push(match self.is_tcg() {
                true => "the machine is emulated (TCG): its figures say nothing of hardware".into(),
                false => {
                    format!("the machine is a virtual one ({name}): its registers are not read")
                }
            });
            return notes;
        }
        match &self.smis {
            None => notes.push("this CPU does not count its SMIs".into()),
            Some(smis) if smis.iter().any(|nr| *nr != 0) => notes.push(format!(
                "{} SMIs came: the firmware took the CPUs away; see its setup for what they are for (USB legacy support, \
                 thermal control)",
                smis.iter().max().copied().unwrap_or(0)
            )),
            Some(_) => {}
        }
        if raw
            .msr(MSR_PKG_CST_CONFIG_CONTROL)
            .is_some_and(|it| it & 15 != 0)
        {
            notes.push(
                "the package may enter C-states deeper than C1: limit them in the firmware's setup"
                    .into(),
            );
        }
        if raw.msr(MSR_POWER_CTL).is_some_and(|it| it & 2 != 0) {
            notes.push("C1E is on: a CPU that halts lowers its frequency".into());
        }
        // Turbo is there (CPUID 6 EAX, bit 1) and not switched off.
        let is_off = raw.msr(IA32_MISC_ENABLE).is_none_or(|it| it >> 38 & 1 != 0);
        if raw.cpuid(2) & 2 != 0 && !is_off {
            notes.push(
                "turbo is on: the frequency depends on temperature and on the other CPUs".into(),
            );
        }
        notes.extend(self.frequency(raw));
        if let Some(mask) = raw
            .msr(IA32_L3_QOS_MASK_0)
            .filter(|_| self.has_cache_allocation)
        {
            let class = raw.msr(IA32_PQR_ASSOC).unwrap_or(0) >> 32;
            notes.push(format!(
                "cache allocation: class {class}, ways {mask:#x} of the L3 cache for class 0"
            ));
        }
        notes
    }

    /// How far the frequency may move.
    fn frequency(&self, raw: &Raw) -> Option<String> {
        let base = raw.msr(MSR_PLATFORM_INFO)? >> 8 & 0xff;
        if raw.msr(IA32_PM_ENABLE).is_some_and(|it| it & 1 != 0) {
            let request = raw.msr(IA32_HWP_REQUEST)?;
            let (least, most) = (request & 0xff, request >> 8 & 0xff);
            return (least != most).then(|| {
                format!("the hardware chooses the frequency: ratio {least} to {most}, {base} without turbo")
            });
        }
        let asked = raw.msr(IA32_PERF_CTL)? >> 8 & 0xff;
        (asked != 0 && asked != base)
            .then(|| format!("the frequency is set to ratio {asked}, {base} without turbo"))
    }
}

impl DriftRecord {
    fn is_too_much(&self) -> bool {
        self.ns >= MIN_DRIFT_NS && self.ppm.abs() > MAX_DRIFT_PPM
    }
}

/// What each CPU has counted.
fn counts(raw: &Raw, nr_cpus: usize, at: usize) -> Vec<u64> {
    let cpu = |n: usize| offset_of!(Machine, cpus) + n * size_of::<CpuCounts>() + at;
    (0..nr_cpus.min(MAX_CPUS))
        .map(|n| raw.u64(cpu(n) + 8).wrapping_sub(raw.u64(cpu(n))))
        .collect()
}

/// The TSC beside the other clock.
fn drift(raw: &Raw, tsc_hz: u64) -> Option<DriftRecord> {
    let at = offset_of!(Machine, reference);
    let period_fs = raw.u64(at + offset_of!(Reference, period_fs));
    let bits = raw.u32(at + offset_of!(Reference, bits));
    let mark = |n: usize| at + offset_of!(Reference, marks) + 16 * n;
    let [tsc, counted] = [0, 8].map(|of| (raw.u64(mark(0) + of), raw.u64(mark(1) + of)));
    let cycles = tsc.1.checked_sub(tsc.0).filter(|_| tsc.0 != 0)?;
    if tsc_hz == 0 || period_fs == 0 || !(16..=64).contains(&bits) {
        return None;
    }
    let tsc_ns = cycles as f64 * 1e9 / tsc_hz as f64;
    let counts = elapsed(counted, bits, tsc_ns * 1e6 / period_fs as f64);
    let ns = counts * period_fs as f64 / 1e6;
    (ns > 0.0).then(|| DriftRecord {
        reference: match raw.u32(at + offset_of!(Reference, kind)) {
            1 => "HPET".into(),
            _ => "PM timer".into(),
        },
        ns: ns as u64,
        ppm: (tsc_ns / ns - 1.0) * 1e6,
    })
}

/// How far a counter of so many bits has come: of all that its two readings allow, what is nearest to the other clock's.
fn elapsed((from, to): (u64, u64), bits: u32, expected: f64) -> f64 {
    if bits == 64 {
        return to.wrapping_sub(from) as f64;
    }
    let range = 2f64.powi(bits.cast_signed());
    let seen = (to.wrapping_sub(from) & ((1 << bits) - 1)) as f64;
    seen + ((expected - seen) / range).round().max(0.0) * range
}

/// The greatest latencies of each measured thread, the greatest first.
fn outliers(raw: &Raw) -> Vec<OutlierRecord> {
    let mut all = Vec::new();
    for slot in 0..MAX_SLOTS {
        for (kind, measure) in ["IRQ", "thread"].into_iter().enumerate() {
            let at = (slot * 2 + kind) * NR_OUTLIERS * size_of::<Outlier>();
            let at = offset_of!(Machine, outliers) + at;
            let mut own: Vec<_> = (0..NR_OUTLIERS)
                .map(|n| at + n * size_of::<Outlier>())
                .filter(|at| raw.u32(at + offset_of!(Outlier, number)) != 0)
                .map(|at| OutlierRecord {
                    slot,
                    measure: measure.into(),
                    value_ns: raw.u64(at + offset_of!(Outlier, value)),
                    sample: raw.u32(at + offset_of!(Outlier, number)),
                    cause: cause(raw.u32(at + offset_of!(Outlier, causes))).into(),
                })
                .collect();
            own.sort_by_key(|it| std::cmp::Reverse(it.value_ns));
            own.truncate(NAMED);
            all.append(&mut own);
        }
    }
    all
}

fn cause(bits: u32) -> &'static str {
    match (bits & SMI != 0, bits & NMI != 0) {
        (true, true) => "SMI and NMI",
        (true, false) => "SMI",
        (false, true) => "NMI",
        (false, false) => "unknown",
    }
}

#[cfg(test)]
mod tests;
