//! The SMBus as an I2C bus, with the eight EEPROMs that QEMU puts there.

use eeprom24x::{Eeprom24x, SlaveAddr};
use embedded_hal::i2c::{ErrorKind, I2c, NoAcknowledgeSource, Operation};
use takt_board::drivers::smbus::{Error, SmBus};
use takt_board::drivers::spd;
use takt_tests::harness::Failure;
use takt_tests::{check, check_eq, target_test};

fn said<T>(result: Result<T, eeprom24x::Error<Error>>) -> Result<T, Failure> {
    result.map_err(|error| Failure::new(format_args!("{error:?}")))
}

target_test! {
    /// An EEPROM is written by a driver of the ecosystem, byte by byte and by pages, and read in all ways that there are.
    fn eeprom_on_smbus(Alone) {
        let Some(mut bus) = SmBus::take() else {
            return Err(Failure::new(format_args!("there is no SMBus")));
        };
        check!(SmBus::take().is_none());

        let mut eeprom = Eeprom24x::new_24x02(&mut bus, SlaveAddr::Alternative(false, true, true));
        let mut bytes = [1; 200];
        said(eeprom.read_data(0, &mut bytes))?;
        check!(bytes == [0; 200]);
        check_eq!(spd::decode(&bytes), Err(spd::Error::Kind(0)));
        said(eeprom.write_byte(0x21, 0xa5))?;
        said(eeprom.write_page(0x28, b"ABCDEFGH"))?;
        said(eeprom.write_page(0x30, b"ij"))?;
        said(eeprom.write_page(0x38, b"k"))?;
        check_eq!(said(eeprom.read_byte(0x21))?, 0xa5);
        check_eq!(said(eeprom.read_current_address())?, 0);
        said(eeprom.read_data(0x20, &mut bytes[..26]))?;
        check_eq!(&bytes[..26], b"\0\xa5\0\0\0\0\0\0ABCDEFGHij\0\0\0\0\0\0k\0");

        // Two parts of what is read, as one transaction.
        let (first, second) = bytes.split_at_mut(3);
        let mut operations = [
            Operation::Write(&[0x28]),
            Operation::Read(first),
            Operation::Read(&mut second[..2]),
        ];
        check_eq!(bus.transaction(0x53, &mut operations), Ok(()));
        check_eq!(&bytes[..5], b"ABCDE");
        // The other modules have EEPROMs of their own.
        check_eq!(bus.write_read(0x52, &[0x28], &mut bytes[..2]), Ok(()));
        check_eq!(&bytes[..2], b"\0\0");
        check_eq!((bus.write(0x57, &[]), bus.write(0x58, &[])), (Ok(()), Err(Error::NoAcknowledge)));

        let none = bus.write_read(0x20, &[0x28], &mut bytes[..1]);
        let kind = none.map_err(|error| embedded_hal::i2c::Error::kind(&error));
        check_eq!(kind, Err(ErrorKind::NoAcknowledge(NoAcknowledgeSource::Unknown)));
        check_eq!(bus.write_read(0x20, &[0x28], &mut bytes), Err(Error::NoAcknowledge));
        check_eq!(bus.write(0x20, &[1, 2, 3, 4]), Err(Error::NoAcknowledge));
        check_eq!(bus.write_read(0x53, &[0, 0x28], &mut bytes), Err(Error::Unsupported));
        check_eq!(bus.read(0x53, &mut bytes[..2]), Err(Error::Unsupported));
        // And works still.
        check_eq!(bus.write_read(0x53, &[0x28], &mut bytes[..1]), Ok(()));
        check_eq!(bytes[0], b'A');
        Ok(())
    }
}
