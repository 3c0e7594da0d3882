//! The few ACPI tables that are needed: CPUs (MADT), HPET, the PM timer (FADT).
//!
//! Everything read is bounded: a damaged table is passed over, never followed.
//!
//! Source: ACPI specification 6.4, 5.2.

pub(crate) use ids::ApicIds;

/// What the tables say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tables {
    /// Local APIC ids of the usable CPUs, the boot CPU among them.
    pub(crate) cpus: ApicIds,
    /// Address of the HPET.
    pub(crate) hpet: Option<usize>,
    /// I/O port of the PM timer.
    pub(crate) pm_timer: Option<u16>,
}

/// A short list of APIC ids.
mod ids {
    use takt_kernel::config::MAX_CPUS;

    /// Up to `MAX_CPUS` ids.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct ApicIds {
        ids: [u32; MAX_CPUS],
        len: usize,
    }

    impl ApicIds {
        pub(crate) fn push(&mut self, id: u32) {
            if let Some(slot) = self.ids.get_mut(self.len) {
                *slot = id;
                self.len += 1;
            }
        }

        pub(crate) fn as_slice(&self) -> &[u32] {
            &self.ids[..self.len]
        }
    }
}

/// What the kernel maps: the last gigabyte uncached, which is as good for reading.
const LIMIT: usize = 4 << 30;

/// The bytes of physical memory from `address`, if they are in the part that is mapped.
fn bytes(address: usize, len: usize) -> Option<&'static [u8]> {
    let end = address.checked_add(len)?;
    if address < 0x1000 || end > LIMIT {
        return None;
    }
    // SAFETY: memory below 4 GiB is identity-mapped; firmware tables do not change.
    Some(unsafe { core::slice::from_raw_parts(address as *const u8, len) })
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
    let (root, width) = match (revision, u64_at(rsdp, 24)) {
        (2.., Some(xsdt)) if xsdt != 0 => (table(xsdt as usize), 8),
        _ => (u32_at(rsdp, 16).and_then(|rsdt| table(rsdt as usize)), 4),
    };
    let Some(root) = root else { return found };
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

fn read_table(table: &[u8], found: &mut Tables) {
    match &table[..4] {
        b"APIC" => read_madt(table, found),
        b"HPET" => found.hpet = u64_at(table, 44).map(|address| address as usize),
        b"FACP" => {
            found.pm_timer = u32_at(table, 76)
                .filter(|port| *port != 0)
                .map(|port| port as u16)
        }
        _ => {}
    }
}

/// Entries of type 0: processor local APIC with id and flags (bit 0 enabled).
fn read_madt(table: &[u8], found: &mut Tables) {
    let mut rest = table.get(44..).unwrap_or(&[]);
    while let [kind, len, ..] = *rest {
        let len = usize::from(len);
        if len < 2 || len > rest.len() {
            return;
        }
        if kind == 0 && len >= 8 && u32_at(rest, 4).is_some_and(|flags| flags & 1 != 0) {
            found.cpus.push(u32::from(rest[3]));
        }
        rest = &rest[len..];
    }
}
