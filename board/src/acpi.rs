//! The few ACPI tables that are needed: CPUs and I/O APICs (MADT), HPET, the PM timer (FADT), PCI (MCFG).
//!
//! Everything read is bounded: a damaged table is passed over, never followed.
//!
//! Source: ACPI specification 6.4, 5.2.

use heapless::Vec;
use takt_kernel::config::MAX_CPUS;

/// Local APIC ids; those of CPUs above what there is room for are not among them.
pub(crate) type ApicIds = Vec<u32, MAX_CPUS>;

/// What the tables say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    /// Local APIC ids of the usable CPUs, the boot CPU among them.
    pub(crate) cpus: ApicIds,
    /// Address of the HPET.
    pub(crate) hpet: Option<usize>,
    /// I/O port of the PM timer.
    pub(crate) pm_timer: Option<u16>,
    /// The fixed description table (FADT).
    pub(crate) fixed: Option<&'static [u8]>,
    /// The table of IOMMUs, Intel's (DMAR) or AMD's (IVRS).
    #[cfg(any(test, feature = "tasks"))]
    pub(crate) iommus: Option<&'static [u8]>,
    /// Register of the real-time clock that holds the century.
    pub(crate) century: Option<u8>,
    /// How devices' interrupts reach the CPUs.
    pub(crate) wiring: Wiring,
    /// Configuration space of PCI segment 0.
    pub(crate) ecam: Option<Ecam>,
    /// The table of all configuration spaces (MCFG).
    #[cfg(any(test, feature = "tasks"))]
    pub(crate) spaces: Option<&'static [u8]>,
}

impl Tables {
    /// Without registers that would lie in RAM, as a table that is wrong has them: RAM below 4 GiB ends there. I/O APICs and HPET have to
    /// lie where devices are mapped.
    pub(crate) fn without_ram(mut self, end: u64) -> Self {
        let is_device = |base: usize| base >= DEVICES.max(end as usize) && base <= LIMIT - 0x1000;
        let io_apics = &mut self.wiring.io_apics;
        io_apics.retain(|it| is_device(it.address as usize));
        self.hpet = self.hpet.filter(|base| is_device(*base));
        self.ecam = self.ecam.filter(|it| it.base >= end as usize);
        self
    }
}

/// PCI's configuration space in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ecam {
    /// Where that of bus 0 lies.
    pub(crate) base: usize,
    /// The last bus that has one.
    pub(crate) last_bus: u8,
}

/// An I/O APIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IoApic {
    /// Of its registers.
    pub(crate) address: u32,
    /// The number of its first pin among those of all I/O APICs.
    pub(crate) first: u32,
}

/// Where an ISA interrupt comes in, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    /// The pin's number among those of all I/O APICs.
    pub(crate) gsi: u32,
    /// Polarity in bits 0 and 1, trigger in bits 2 and 3: 0 as the bus has it, 1 high or edge, 3 low or level.
    pub(crate) flags: u16,
}

/// I/O APICs, and the ISA interrupts that do not come in at the pin of their number, or not as ISA has it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Wiring {
    io_apics: Vec<IoApic, MAX_IO_APICS>,
    overrides: [Option<Source>; NR_ISA],
}

const MAX_IO_APICS: usize = 8;
const NR_ISA: usize = 16;

impl Wiring {
    pub(crate) fn io_apics(&self) -> impl Iterator<Item = IoApic> {
        self.io_apics.iter().copied()
    }

    /// Where an ISA interrupt comes in; `None` for numbers that there are not.
    pub(crate) fn isa(&self, irq: u8) -> Option<Source> {
        let told = *self.overrides.get(usize::from(irq))?;
        Some(told.unwrap_or(Source {
            gsi: irq.into(),
            flags: 0,
        }))
    }
}

/// What the kernel maps: the last gigabyte uncached, which is as good for reading.
const LIMIT: usize = 4 << 30;
/// Where that one begins.
const DEVICES: usize = 3 << 30;

/// The bytes of physical memory from `address`, if they are in the part that is mapped.
fn bytes(address: usize, len: usize) -> Option<&'static [u8]> {
    let end = address.checked_add(len)?;
    if address < 0x1000 || end > LIMIT {
        return None;
    }
    let place = takt_kernel::machine::find(address, len)?;
    // SAFETY: it is mapped, and there it is found; firmware tables do not change.
    Some(unsafe { core::slice::from_raw_parts(place as *const u8, len) })
}

fn u32_at(table: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        table.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

fn u64_at(table: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(
        table.get(offset..offset + 8)?.try_into().ok()?,
    ))
}

/// A table by its address, if its length and checksum are right.
fn table(address: usize) -> Option<&'static [u8]> {
    let len = u32_at(bytes(address, 36)?, 4)? as usize;
    let table = bytes(address, len.clamp(36, 1 << 20))?;
    (table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0).then_some(table)
}

/// Bytes of a root pointer, of ACPI 2.0 and later.
pub(crate) const RSDP_LEN: usize = 36;

/// The root pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Root {
    /// It lies at this address; 0 if nobody knows.
    At(u64),
    /// A copy of it. ACPI 1.0's is shorter, with zeros behind it.
    Copy([u8; RSDP_LEN]),
}

/// Reads the tables from the root pointer, or if it is none, from where a BIOS leaves it.
pub(crate) fn read(rsdp: Root) -> Tables {
    let mut found = Tables::default();
    let Some(rsdp) = root(&rsdp) else {
        return found;
    };
    let revision = rsdp.get(15).copied().unwrap_or(0);
    // The one of wide addresses may be out of reach, or damaged: then the other is as good.
    let xsdt = u64_at(rsdp, 24).filter(|xsdt| revision >= 2 && *xsdt != 0);
    let wide = xsdt.and_then(|xsdt| Some((table(xsdt as usize)?, 8)));
    let narrow = || Some((table(u32_at(rsdp, 16)? as usize)?, 4));
    let Some((root, width)) = wide.or_else(narrow) else {
        return found;
    };
    for entry in root[36..].chunks_exact(width) {
        let address = if width == 8 {
            u64_at(entry, 0)
        } else {
            u32_at(entry, 0).map(u64::from)
        };
        if let Some(table) = address.and_then(|address| table(address as usize)) {
            read_table(table, &mut found);
        }
    }
    found
}

fn root(rsdp: &Root) -> Option<&[u8]> {
    let is_root = |found: &&[u8]| found.starts_with(b"RSD PTR ");
    let at = |address: usize| bytes(address, RSDP_LEN).filter(is_root);
    match rsdp {
        Root::At(address) => at(*address as usize),
        Root::Copy(copy) => Some(&copy[..]).filter(is_root),
    }
    .or_else(|| (0xe0000..0x10_0000).step_by(16).find_map(at))
}

fn read_table(table: &'static [u8], found: &mut Tables) {
    match &table[..4] {
        b"APIC" => read_madt(table, found),
        b"MCFG" => {
            found.ecam = read_mcfg(table);
            #[cfg(any(test, feature = "tasks"))]
            {
                found.spaces = Some(table);
            }
        }
        b"HPET" => found.hpet = u64_at(table, 44).map(|address| address as usize),
        #[cfg(any(test, feature = "tasks"))]
        b"DMAR" | b"IVRS" => found.iommus = Some(table),
        b"FACP" => {
            found.fixed = Some(table);
            found.pm_timer = u32_at(table, 76)
                .filter(|port| *port != 0)
                .map(|port| port as u16);
            found.century = table.get(108).copied().filter(|register| *register != 0);
        }
        _ => {}
    }
}

/// Looks among the ports by which the machine's power is managed, as the fixed description table has them, for the first that is
/// one of these.
///
/// Source: ACPI specification 6.4, 5.2.9.
#[cfg(any(test, feature = "tasks"))]
pub(crate) fn power_port(fixed: &[u8], ports: &core::ops::Range<u64>) -> Option<u64> {
    /// Where the lengths of event, control and timer blocks are.
    const LENGTHS: [usize; 8] = [88, 88, 89, 89, 90, 91, 92, 93];
    /// Of an address in 12 bytes.
    const IS_PORT: u8 = 1;
    let narrow = |at: usize| u32_at(fixed, at).map_or(0, u64::from);
    let wide = |at: usize| match fixed.get(at) {
        Some(&IS_PORT) => u64_at(fixed, at + 4).unwrap_or(0),
        _ => 0,
    };
    let common = |first: u64, len: u8| {
        let is_there = first != 0 && first < ports.end;
        (is_there && ports.start < first.saturating_add(len.into())).then(|| first.max(ports.start))
    };
    for (nr, len) in LENGTHS.into_iter().enumerate() {
        let len = fixed.get(len).copied().unwrap_or(0);
        let found = common(narrow(56 + 4 * nr), len).or(common(wide(148 + 12 * nr), len));
        if found.is_some() {
            return found;
        }
    }
    // Commands to the SMI's handler, and the reset register.
    common(narrow(48), 1).or(common(wide(116), 1))
}

/// Looks among the registers of IOMMUs that a table describes, whether some lie in this memory. Behind 48 bytes each of the table's
/// parts has its type and length, and where those are that such registers are at, 8 bytes further.
///
/// Sources: Intel Virtualization Technology for Directed I/O, 8.3 (DRHD); AMD I/O Virtualization Technology, document 48882 (IVHD).
#[cfg(any(test, feature = "tasks"))]
pub(crate) fn has_iommu(table: &[u8], memory: &core::ops::Range<u64>) -> bool {
    /// Of AMD's, with performance counters; then they lie at a multiple of that.
    const WITH_COUNTERS: u64 = 512 << 10;
    let is_intels = table.starts_with(b"DMAR");
    let mut rest = table.get(48..).unwrap_or(&[]);
    while let [kind, second, len_low, len_high, ..] = *rest {
        let len = usize::from(u16::from_le_bytes([len_low, len_high]));
        let Some(part) = rest.get(..len).filter(|part| part.len() >= 4) else {
            return false;
        };
        let size = match (is_intels, kind, second) {
            // 2^N pages: the size is of later versions, and 0 before.
            (true, 0, 0) => part.get(5).map(|it| 0x1000 << (it & 15)),
            (false, 0x10 | 0x11 | 0x40, _) => u64_at(part, 8).map(|it| match it % WITH_COUNTERS {
                0 => WITH_COUNTERS,
                _ => 0x4000,
            }),
            _ => None,
        };
        if let (Some(size), Some(base)) = (size, u64_at(part, 8))
            && base < memory.end
            && memory.start < base.saturating_add(size)
        {
            return true;
        }
        rest = &rest[len..];
    }
    false
}

/// The allocation of segment 0, if it is where memory can be mapped: it has 16 bytes behind 44 of the table.
fn read_mcfg(table: &[u8]) -> Option<Ecam> {
    let entries = table.get(44..)?.chunks_exact(16);
    entries.into_iter().find_map(|entry| {
        let base = usize::try_from(u64_at(entry, 0)?).ok()?;
        let (first, last_bus) = (entry[10], entry[11]);
        let end = base.checked_add((usize::from(last_bus) + 1) << 20)?;
        (entry[8..10] == [0, 0] && first == 0 && base != 0 && end <= LIMIT)
            .then_some(Ecam { base, last_bus })
    })
}

/// Whether a configuration space lies in this memory, of whatever segment and buses.
#[cfg(any(test, feature = "tasks"))]
pub(crate) fn has_space(table: &[u8], memory: &core::ops::Range<u64>) -> bool {
    let entries = table.get(44..).unwrap_or(&[]).chunks_exact(16);
    entries.into_iter().any(|entry| {
        u64_at(entry, 0).is_some_and(|base| {
            let end = base.saturating_add((u64::from(entry[11]) + 1) << 20);
            base < memory.end && memory.start < end
        })
    })
}

/// Entries of type 0: processor local APIC with id and flags (bit 0 enabled). Of type 1: I/O APIC with address and first
/// pin. Of type 2: override of an ISA interrupt (bus 0) with its number, its pin and flags.
fn read_madt(table: &[u8], found: &mut Tables) {
    let mut rest = table.get(44..).unwrap_or(&[]);
    while let [kind, len, ..] = *rest {
        let len = usize::from(len);
        let Some(entry) = rest.get(..len).filter(|entry| entry.len() >= 2) else {
            return;
        };
        match (kind, len) {
            (0, 8..) if u32_at(entry, 4).is_some_and(|flags| flags & 1 != 0) => {
                // Those above what there is room for are left out.
                let _ = found.cpus.push(u32::from(entry[3]));
            }
            (1, 12..) => {
                if let (Some(address), Some(first)) = (u32_at(entry, 4), u32_at(entry, 8)) {
                    let _ = found.wiring.io_apics.push(IoApic { address, first });
                }
            }
            (2, 10..) if entry[2] == 0 => {
                let slot = found.wiring.overrides.get_mut(usize::from(entry[3]));
                if let (Some(slot), Some(gsi)) = (slot, u32_at(entry, 4)) {
                    let flags = u16::from_le_bytes([entry[8], entry[9]]);
                    *slot = Some(Source { gsi, flags });
                }
            }
            _ => {}
        }
        rest = &rest[len..];
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use super::*;

    fn madt(entries: &[&[u8]]) -> Tables {
        let mut table = vec![0; 44];
        for entry in entries {
            table.extend_from_slice(entry);
        }
        let mut found = Tables::default();
        read_madt(&table, &mut found);
        found
    }

    /// As QEMU's `intel-iommu` and `amd-iommu` say it, and tables that are cut.
    #[test]
    fn iommus_are_found() {
        let page = |at: u64| at..at + 0x1000;
        let table = |name: &[u8], parts: &[&[u8]]| {
            let mut table = vec![0; 48];
            table[..4].copy_from_slice(name);
            table.extend(parts.concat());
            table
        };
        let intels = table(
            b"DMAR",
            &[
                // An area of memory that a device uses, which is no register.
                &[1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0xd8, 0xfe, 0, 0, 0, 0],
                &[0, 0, 16, 0, 1, 1, 0, 0, 0, 0, 0xd9, 0xfe, 0, 0, 0, 0],
            ],
        );
        for (at, is_its) in [
            (0xfed8_0000, false),
            (0xfed8_f000, false),
            (0xfed9_0000, true),
            (0xfed9_1000, true),
            (0xfed9_2000, false),
        ] {
            assert_eq!(has_iommu(&intels, &page(at)), is_its, "{at:#x}");
        }
        let small: &[u8] = &[0x10, 0, 16, 0, 0, 0, 0, 0, 0, 0x40, 0xd8, 0xfe, 0, 0, 0, 0];
        let large: &[u8] = &[0x11, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0xfe, 0, 0, 0, 0];
        let amds = table(b"IVRS", &[small, large]);
        for (at, is_its) in [
            (0xfed8_4000, true),
            (0xfed8_7000, true),
            (0xfed8_8000, false),
            (0xfeb7_f000, true),
            (0xfeb8_0000, false),
        ] {
            assert_eq!(has_iommu(&amds, &page(at)), is_its, "{at:#x}");
        }
        for len in 0..intels.len() {
            assert!(!has_iommu(&intels[..len], &page(0xfed9_0000)));
        }
        assert!(!has_iommu(&table(b"DMAR", &[&[0; 16]]), &page(0)));
    }

    /// As QEMU's q35 says it: the timer's line comes in at pin 2, and line 9 is level-triggered.
    #[test]
    fn wiring_of_a_pc() {
        let found = madt(&[
            &[0, 8, 0, 0, 1, 0, 0, 0],
            &[1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0],
            &[2, 10, 0, 0, 2, 0, 0, 0, 0, 0],
            &[2, 10, 0, 9, 9, 0, 0, 0, 0x0d, 0],
        ]);
        let io_apic = IoApic {
            address: 0xfec0_0000,
            first: 0,
        };
        assert!(found.wiring.io_apics().eq([io_apic]));
        let source = |gsi, flags| Some(Source { gsi, flags });
        assert_eq!(found.wiring.isa(0), source(2, 0));
        assert_eq!(found.wiring.isa(4), source(4, 0));
        assert_eq!(found.wiring.isa(9), source(9, 0x0d));
        assert_eq!(found.wiring.isa(16), None);
    }

    /// What is cut, or too much, is passed over.
    #[test]
    fn damaged_entries() {
        assert!(
            madt(&[&[1, 12, 0, 0, 0]])
                .wiring
                .io_apics()
                .next()
                .is_none()
        );
        assert!(madt(&[&[1, 0], &[1, 1]]).wiring.io_apics().next().is_none());
        assert_eq!(
            madt(&[&[2, 10, 0, 200, 2, 0, 0, 0, 0, 0]]).wiring.isa(200),
            None
        );
        let one: &[u8] = &[1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0];
        let found = madt(&[one; MAX_IO_APICS + 1]);
        assert_eq!(found.wiring.io_apics().count(), MAX_IO_APICS);
    }

    /// A table that has registers in RAM would have it written to.
    #[test]
    fn registers_are_no_ram() {
        let mut found = madt(&[
            &[1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0],
            &[1, 12, 0, 0, 0, 0, 0x10, 0, 24, 0, 0, 0],
            &[1, 12, 0, 0, 0, 0, 0x10, 0xc0, 48, 0, 0, 0],
            &[1, 12, 0, 0, 0xff, 0xff, 0xff, 0xff, 72, 0, 0, 0],
        ]);
        let ecam = |base| Ecam { base, last_bus: 0 };
        (found.hpet, found.ecam) = (Some(0xfed0_0000), Some(ecam(0xb000_0000)));
        let found = found.without_ram(0xb000_0000);
        let firsts = |found: &Tables| {
            found
                .wiring
                .io_apics()
                .map(|it| it.first)
                .collect::<vec::Vec<_>>()
        };
        assert_eq!(firsts(&found), [0, 48]);
        assert_eq!(
            (found.hpet, found.ecam),
            (Some(0xfed0_0000), Some(ecam(0xb000_0000)))
        );
        let mut found = found.without_ram(0xe000_0000);
        assert_eq!((firsts(&found), found.ecam), (vec![0], None));
        found.hpet = Some(5 << 30);
        assert_eq!(found.without_ram(0).hpet, None);
    }

    #[test]
    fn ports_of_power_management() {
        // As q35 has them, and a general-purpose block that only the wide field has.
        let mut table = vec![0; 244];
        table[48] = 0xb2;
        table[56..58].copy_from_slice(&0x600_u16.to_le_bytes());
        table[64..66].copy_from_slice(&0x604_u16.to_le_bytes());
        table[88..90].copy_from_slice(&[4, 2]);
        table[93] = 8;
        table[116] = 1;
        table[120..122].copy_from_slice(&0xcf9_u16.to_le_bytes());
        table[232] = 1;
        table[236..238].copy_from_slice(&0x1880_u16.to_le_bytes());
        // In memory.
        table[224..226].copy_from_slice(&0x1234_u16.to_le_bytes());
        for (ports, first) in [
            (0x0..0x600, Some(0xb2)),
            (0x603..0x700, Some(0x603)),
            (0x606..0xcf9, None),
            (0xc00..0xd00, Some(0xcf9)),
            (0x1234..0x1235, None),
            (0x1000..0x2000, Some(0x1880)),
            (0x1888..0xffff, None),
        ] {
            assert_eq!(power_port(&table, &ports), first, "{ports:x?}");
        }
        assert_eq!(power_port(&table[..40], &(0..0xffff)), None);
    }

    #[test]
    fn configuration_space() {
        let table = |base: u64, segment: u8, last_bus: u8| {
            let mut table = vec![0; 44];
            table.extend_from_slice(&base.to_le_bytes());
            table.extend_from_slice(&[segment, 0, 0, last_bus, 0, 0, 0, 0]);
            table
        };
        let ecam = Ecam {
            base: 0xb000_0000,
            last_bus: 255,
        };
        assert_eq!(read_mcfg(&table(0xb000_0000, 0, 255)), Some(ecam));
        assert_eq!(read_mcfg(&table(0xb000_0000, 1, 255)), None);
        // Above what is mapped.
        assert_eq!(read_mcfg(&table(0xf800_0000, 0, 255)), None);
        assert_eq!(read_mcfg(&[0; 50]), None);
        // Those that are not used are nobody's device all the same.
        let mut all = table(0xb000_0000, 0, 63);
        all.extend_from_slice(&table(0xe000_0000, 1, 15)[44..]);
        for (memory, has) in [
            (0xb3ff_f000..0xb400_0000, true),
            (0xb400_0000..0xb400_1000, false),
            (0xdfff_f000..0xe000_0001, true),
            (0xe0ff_f000..0xe100_0000, true),
            (0xe100_0000..0xf000_0000, false),
        ] {
            assert_eq!(has_space(&all, &memory), has, "{memory:x?}");
        }
        assert!(!has_space(&[0; 50], &(0..1)));
    }
}
