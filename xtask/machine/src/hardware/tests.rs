use super::*;

/// A machine's memory: nothing but its block.
struct Block(Vec<u8>);

impl Memory for Block {
    fn read_exact_at(&self, address: u64, buf: &mut [u8]) -> io::Result<()> {
        let at = address as usize;
        buf.copy_from_slice(&self.0[at..at + buf.len()]);
        Ok(())
    }
}

const TSC_HZ: u64 = 2_000_000_000;
const LENOVO: &str = "Intel(R) Core(TM) i5-8500T CPU @ 2.10GHz";

impl Block {
    fn new() -> Self {
        let mut block = Self(vec![0; size_of::<Machine>()]);
        block.set(offset_of!(Machine, is_there), 1);
        block.text(offset_of!(Machine, brand), LENOVO);
        block.cpuid(0, 0x906ea);
        block.cpuid(5, 1 << 8);
        block
    }

    fn set(&mut self, at: usize, word: u32) -> &mut Self {
        self.0[at..at + 4].copy_from_slice(&word.to_le_bytes());
        self
    }

    fn set64(&mut self, at: usize, word: u64) -> &mut Self {
        self.set(at, word as u32).set(at + 4, (word >> 32) as u32)
    }

    fn text(&mut self, at: usize, text: &str) {
        self.0[at..at + text.len()].copy_from_slice(text.as_bytes());
    }

    fn cpuid(&mut self, n: usize, word: u32) -> &mut Self {
        self.set(offset_of!(Machine, cpuid) + 4 * n, word)
    }

    fn msr(&mut self, number: u32, value: u64) -> &mut Self {
        let n = MSRS.iter().position(|it| *it == number).unwrap();
        let at = offset_of!(Machine, has_msrs);
        let has = Raw(self.0.clone()).u64(at) | 1 << n;
        self.set64(at, has)
            .set64(offset_of!(Machine, msrs) + 8 * n, value)
    }

    /// Two readings of the TSC and of the other clock.
    fn marks(&mut self, period_fs: u64, bits: u32, kind: u32, marks: [[u64; 2]; 2]) -> &mut Self {
        let at = offset_of!(Machine, reference);
        self.set64(at + offset_of!(Reference, period_fs), period_fs)
            .set(at + offset_of!(Reference, bits), bits)
            .set(at + offset_of!(Reference, kind), kind);
        for (n, word) in marks.into_iter().flatten().enumerate() {
            self.set64(at + offset_of!(Reference, marks) + 8 * n, word);
        }
        self
    }

    fn smis(&mut self, cpu: usize, before: u64, after: u64) -> &mut Self {
        let at = offset_of!(Machine, cpus) + cpu * size_of::<CpuCounts>();
        self.set(offset_of!(Machine, counts_smis), 1)
            .set64(at, before)
            .set64(at + 8, after)
    }

    fn read(&self) -> MachineRecord {
        MachineRecord::read(self, 0, TSC_HZ, 2).unwrap().unwrap()
    }
}

#[test]
fn a_machine_that_says_nothing_has_no_record() {
    let block = Block(vec![0; size_of::<Machine>()]);
    assert_eq!(MachineRecord::read(&block, 0, TSC_HZ, 1).unwrap(), None);
}

#[test]
fn what_moves_the_frequency_is_named() {
    let mut block = Block::new();
    block
        .msr(IA32_BIOS_SIGN_ID, 0xf4 << 32)
        .msr(MSR_PLATFORM_INFO, 21 << 8)
        .msr(MSR_PKG_CST_CONFIG_CONTROL, 0x1e00_8008)
        .msr(MSR_POWER_CTL, 2)
        .msr(IA32_MISC_ENABLE, 0x85_0089)
        .msr(IA32_PM_ENABLE, 1)
        .msr(IA32_HWP_REQUEST, 0x8000_2308)
        .smis(0, 100, 100)
        .cpuid(2, 2);
    let record = block.read();
    assert_eq!((&*record.cpu, record.microcode), (LENOVO, Some(0xf4)));
    assert_eq!(record.smis, Some(vec![0, 0]));
    let notes = record.notes.join("\n");
    for says in [
        "deeper than C1",
        "C1E is on",
        "turbo is on",
        "ratio 8 to 35, 21 without turbo",
    ] {
        assert!(notes.contains(says), "no {says} in {notes}");
    }
    assert!(record.taints().is_empty());
    // And as an engineer would have it.
    block
        .msr(MSR_PKG_CST_CONFIG_CONTROL, 0x8000)
        .msr(MSR_POWER_CTL, 0)
        .msr(IA32_MISC_ENABLE, 1 << 38)
        .msr(IA32_HWP_REQUEST, 0x1515);
    assert!(block.read().notes.is_empty(), "{:?}", block.read().notes);
}

#[test]
fn a_fixed_ratio_and_classes_of_cache_are_named() {
    let mut block = Block::new();
    block
        .msr(MSR_PLATFORM_INFO, 21 << 8)
        .msr(IA32_PERF_CTL, 8 << 8)
        .msr(IA32_PQR_ASSOC, 1 << 32)
        .msr(IA32_L3_QOS_MASK_0, 0x7f0)
        .cpuid(3, 1 << 15)
        .cpuid(4, 2)
        .smis(0, 0, 0);
    let notes = block.read().notes;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("ratio 8, 21"), "{notes:?}");
    assert!(notes[1].contains("class 1, ways 0x7f0"), "{notes:?}");
}

#[test]
fn smis_are_counted_and_outliers_say_what_came() {
    let mut block = Block::new();
    block.smis(0, 7, 9).smis(1, 7, 9);
    let at = |slot: usize, kind: usize, n: usize| {
        offset_of!(Machine, outliers) + ((slot * 2 + kind) * NR_OUTLIERS + n) * size_of::<Outlier>()
    };
    for (n, (value, number, causes)) in [
        (4000, 1, 0),
        (5000, 3, 0),
        (90_000, 40, SMI),
        (6000, 7, NMI),
    ]
    .into_iter()
    .enumerate()
    {
        let at = at(1, 1, n);
        block
            .set64(at, value)
            .set(at + offset_of!(Outlier, number), number)
            .set(at + offset_of!(Outlier, causes), causes);
    }
    let record = block.read();
    assert_eq!(record.smis, Some(vec![2, 2]));
    assert!(
        record.notes[0].starts_with("2 SMIs came"),
        "{:?}",
        record.notes
    );
    let tags: Vec<_> = (record.outliers.iter())
        .map(|it| (it.slot, &*it.measure, it.value_ns, it.sample, &*it.cause))
        .collect();
    assert_eq!(
        tags,
        [
            (1, "thread", 90_000, 40, "SMI"),
            (1, "thread", 6000, 7, "NMI"),
            (1, "thread", 5000, 3, "unknown")
        ]
    );
    let lines = record.lines();
    let says = |name, text: &str| assert!(lines.contains(&(name, text.into())), "{lines:?}");
    says("SMIs", "2 2 (of each CPU)");
    says(
        "outlier",
        "thread latency of 90000 ns, slot 1, sample 40: SMI",
    );
}

#[test]
fn a_tsc_that_goes_wrong_taints() {
    let mut block = Block::new();
    // Ten seconds; the HPET of 14.3 MHz says 10.02, its 32 bits do not overflow.
    let hpet = 69_841_279;
    let counts = (10.02e15 / hpet as f64) as u64;
    let tsc = 10 * TSC_HZ;
    block.marks(hpet, 32, 1, [[5, 7], [5 + tsc, 7 + counts]]);
    let taints = block.read().taints();
    assert_eq!(taints.len(), 1);
    assert!(taints[0].contains("-1996 ppm off the HPET"), "{taints:?}");
    // The PM timer's 24 bits overflow every 4.7 s: an hour, and 30 ppm.
    let period = 1_000_000_000_000_000 / 3_579_545;
    let counts = (3600.0 * 3_579_545.0) as u64;
    let tsc = (3600.0 * TSC_HZ as f64 * 1.000_03) as u64;
    block.marks(
        period,
        24,
        2,
        [[1, 99], [1 + tsc, (99 + counts) & 0xff_ffff]],
    );
    let drift = block.read().drift.unwrap();
    assert_eq!(
        (&*drift.reference, drift.ns.div_ceil(1_000_000_000)),
        ("PM timer", 3600)
    );
    assert!((drift.ppm - 30.0).abs() < 1.0, "{drift:?}");
    assert!(block.read().taints().is_empty());
    block.cpuid(5, 0);
    assert_eq!(block.read().taints(), ["the TSC is not invariant"]);
}

#[test]
fn under_a_hypervisor_nothing_is_believed() {
    let mut block = Block::new();
    block.cpuid(1, 1 << 31).cpuid(5, 0);
    block.text(offset_of!(Machine, hypervisor), "TCGTCGTCGTCG");
    let record = block.read();
    assert!(record.notes[0].contains("emulated"), "{:?}", record.notes);
    assert!(record.taints().is_empty());
    block.text(offset_of!(Machine, hypervisor), "KVMKVMKVM\0\0\0");
    let record = block.read();
    assert_eq!(record.hypervisor.as_deref(), Some("KVMKVMKVM"));
    assert_eq!(record.taints(), ["the TSC is not invariant"]);
}
