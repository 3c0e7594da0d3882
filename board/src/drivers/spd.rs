//! Serial presence detect: what a memory module says of itself in the EEPROM that it has on the SMBus, at 0x50 to 0x57.
//!
//! Source: JEDEC 21-C, annex K (DDR3 SDRAM, release 6) and annex L (DDR4 SDRAM, release 4), base configuration.

/// The kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, defmt::Format)]
pub enum Kind {
    /// DDR3 SDRAM.
    Ddr3,
    /// DDR4 SDRAM.
    Ddr4,
}

/// A module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, defmt::Format)]
pub struct Module {
    /// Its kind.
    pub kind: Kind,
    /// Its size in MiB, without what is for error correction.
    pub mib: u32,
    /// Ranks.
    pub ranks: u8,
    /// Whether it has bits for error correction.
    pub has_ecc: bool,
    /// The shortest clock cycle in picoseconds; there are two transfers in each.
    pub cycle_ps: u32,
}

/// Why bytes are no module's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, defmt::Format)]
pub enum Error {
    /// There are fewer than 128.
    TooShort,
    /// Of another kind than DDR3 and DDR4: the number of the kind, 0 in an empty EEPROM.
    Kind(u8),
    /// The checksum is another one.
    Checksum,
    /// A value that the standard does not define.
    Reserved,
}

/// CRC-16 of XMODEM.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| match crc >> 15 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    })
}

/// Reads the first 128 bytes or more of a module's EEPROM.
///
/// # Errors
/// What they are instead.
pub fn decode(bytes: &[u8]) -> Result<Module, Error> {
    let bytes = bytes.first_chunk::<128>().ok_or(Error::TooShort)?;
    let kind = match bytes[2] {
        0x0b => Kind::Ddr3,
        0x0c => Kind::Ddr4,
        other => return Err(Error::Kind(other)),
    };
    // A DDR3 module may leave out what tells of its maker.
    let covered = match kind {
        Kind::Ddr3 if bytes[0] & 0x80 != 0 => 117,
        _ => 126,
    };
    if checksum(&bytes[..covered]) != u16::from_le_bytes([bytes[126], bytes[127]]) {
        return Err(Error::Checksum);
    }
    let (organisation, bus) = match kind {
        Kind::Ddr3 => (bytes[7], bytes[8]),
        Kind::Ddr4 => (bytes[12], bytes[13]),
    };
    let chip_log = match (kind, bytes[4] & 0xf) {
        // 256 Mbit to 16 Gbit, and to 32 Gbit.
        (Kind::Ddr3, log @ 0..=6) | (Kind::Ddr4, log @ 0..=7) => log,
        _ => return Err(Error::Reserved),
    };
    let (width_log, bus_log) = (organisation & 7, bus & 7);
    if width_log > 3 || bus_log > 3 {
        return Err(Error::Reserved);
    }
    let ranks = (organisation >> 3 & 7) + 1;
    // Chips of 32 MiB and more, 4 bits wide and more, as many as make a bus of 8 bits and more.
    let mib = ((32u32 << chip_log) << (bus_log + 1) >> width_log) * u32::from(ranks);
    let cycle_ps = match kind {
        Kind::Ddr3 => {
            // In units of bytes 10 and 11 in nanoseconds, and of byte 9 in picoseconds.
            let (dividend, divisor) = (u32::from(bytes[10]), u32::from(bytes[11]));
            let coarse = u32::from(bytes[12]) * dividend * 1_000;
            let coarse = coarse.checked_div(divisor).ok_or(Error::Reserved)?;
            let (fine, fine_divisor) = (i32::from(bytes[9] >> 4), i32::from(bytes[9] & 0xf));
            let fine = i32::from(bytes[34] as i8) * fine;
            coarse.checked_add_signed(fine.checked_div(fine_divisor).unwrap_or(0))
        }
        // In units of 125 ps and of 1 ps.
        Kind::Ddr4 => (u32::from(bytes[18]) * 125).checked_add_signed(i32::from(bytes[125] as i8)),
    };
    Ok(Module {
        kind,
        mib,
        ranks,
        has_ecc: bus >> 3 & 3 == 1,
        cycle_ps: cycle_ps.filter(|ps| *ps != 0).ok_or(Error::Reserved)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spd(values: &[(usize, u8)], covered: usize) -> [u8; 128] {
        let mut bytes = [0; 128];
        for (at, value) in values {
            bytes[*at] = *value;
        }
        let [low, high] = checksum(&bytes[..covered]).to_le_bytes();
        (bytes[126], bytes[127]) = (low, high);
        bytes
    }

    /// DDR3-1866, 4 GiB: two ranks of eight chips of 2 Gbit. Nine eighths of a nanosecond less 54 ps are 1,071 ps.
    fn ddr3() -> [u8; 128] {
        let values = [
            (0, 0x92),
            (2, 0x0b),
            (4, 0x03),
            (7, 0x09),
            (8, 0x03),
            (9, 0x11),
            (10, 1),
            (11, 8),
            (12, 9),
            (34, 0xca),
        ];
        spd(&values, 117)
    }

    /// DDR4-2666, 16 GiB with error correction: two ranks of nine chips of 8 Gbit. 6 times 125 ps are 750 ps.
    fn ddr4() -> [u8; 128] {
        let values = [
            (0, 0x23),
            (2, 0x0c),
            (4, 0x85),
            (12, 0x09),
            (13, 0x0b),
            (18, 6),
        ];
        spd(&values, 126)
    }

    #[test]
    fn the_checksum_is_xmodems() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
    }

    #[test]
    fn modules_are_decoded() {
        assert_eq!(
            decode(&ddr3()),
            Ok(Module {
                kind: Kind::Ddr3,
                mib: 4_096,
                ranks: 2,
                has_ecc: false,
                cycle_ps: 1_071
            })
        );
        assert_eq!(
            decode(&ddr4()),
            Ok(Module {
                kind: Kind::Ddr4,
                mib: 16_384,
                ranks: 2,
                has_ecc: true,
                cycle_ps: 750
            })
        );
    }

    #[test]
    fn what_is_no_module_is_refused() {
        assert_eq!(decode(&[0; 127]), Err(Error::TooShort));
        assert_eq!(decode(&[0; 256]), Err(Error::Kind(0)));
        assert_eq!(decode(&[0xff; 128]), Err(Error::Kind(0xff)));
        for at in 0..126 {
            let mut bytes = ddr4();
            bytes[at] ^= 0x40;
            assert!(decode(&bytes).is_err(), "{at}");
        }
        assert_eq!(
            decode(&spd(&[(2, 0x0c), (4, 8), (18, 6)], 126)),
            Err(Error::Reserved)
        );
        // A cycle of no length, and one in units of nothing.
        assert_eq!(decode(&spd(&[(2, 0x0c)], 126)), Err(Error::Reserved));
        assert_eq!(
            decode(&spd(&[(2, 0x0b), (12, 9)], 126)),
            Err(Error::Reserved)
        );
    }
}
