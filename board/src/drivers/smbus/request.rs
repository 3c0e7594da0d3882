//! Which transaction of an SMBus controller is asked for, and what it could do to a memory module.

use embedded_hal::i2c::Operation;
use heapless::Vec;

/// What the controller is told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Quick = 0,
    Byte = 1,
    ByteData = 2,
    Block = 5,
    I2cRead = 6,
}

/// What is asked for, as the controller is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) protocol: Protocol,
    pub(super) is_read: bool,
    /// The bytes before those of a block.
    pub(super) command: u8,
    pub(super) data: Vec<u8, 32>,
}

impl Request {
    /// `None` if no SMBus controller can do it.
    fn new(written: &[u8], nr_read: usize) -> Option<Self> {
        let (protocol, command, data): (_, u8, &[u8]) = match (written, nr_read) {
            ([], 0) => (Protocol::Quick, 0, &[]),
            ([], 1) => (Protocol::Byte, 0, &[]),
            (&[command], 0) => (Protocol::Byte, command, &[]),
            (&[command], 1) => (Protocol::ByteData, command, &[]),
            (&[command], 2..) => (Protocol::I2cRead, command, &[]),
            ([command, data @ ..], 0) if data.len() == 1 => (Protocol::ByteData, *command, data),
            ([command, data @ ..], 0) => (Protocol::Block, *command, data),
            _ => return None,
        };
        Some(Self {
            protocol,
            is_read: nr_read > 0,
            command,
            data: Vec::from_slice(data).ok()?,
        })
    }

    /// Of these operations, which have to be writes and then reads; and how many bytes they read.
    pub(super) fn of(operations: &[Operation<'_>]) -> Option<(Self, usize)> {
        let mut written = Vec::<u8, 33>::new();
        let mut nr_read = None;
        for operation in operations {
            match operation {
                Operation::Write(_) if nr_read.is_some() => return None,
                Operation::Write(bytes) => written.extend_from_slice(bytes).ok()?,
                Operation::Read(bytes) => *nr_read.get_or_insert(0) += bytes.len(),
            }
        }
        // No transaction reads nothing.
        let nr_read = match nr_read {
            Some(0) => return None,
            nr_read => nr_read.unwrap_or(0),
        };
        Some((Self::new(&written, nr_read)?, nr_read))
    }

    /// Whether it could change what a memory module at this address is or how it works: it writes data to its EEPROM, its voltage
    /// regulator (DDR5) or its clock driver, or is a command to it.
    pub(super) fn changes_module(&self, address: u8) -> bool {
        match address {
            0x30..=0x37 => true,
            0x48..=0x5f => !self.is_read && !self.data.is_empty(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_modules_are_read_but_not_changed() {
        let changes = |address, operations: &[Operation<'_>]| {
            Request::of(operations).map(|(request, _)| request.changes_module(address))
        };
        let mut bytes = [0; 16];
        for address in 0..0x80 {
            let is_part = [0x48, 0x50, 0x58].contains(&(address & 0x78));
            let is_command = address & 0x78 == 0x30;
            for written in [&[0, 1][..], &[0, 1, 2], &[0; 33]] {
                let changes = changes(address, &[Operation::Write(written)]);
                assert_eq!(changes, Some(is_part || is_command), "{address:#x}");
            }
            // Is it there; the place to read from; the ways to read.
            assert_eq!(changes(address, &[]), Some(is_command));
            let place = [Operation::Write(&[7])];
            assert_eq!(changes(address, &place), Some(is_command));
            let next = [Operation::Read(&mut bytes[..1])];
            assert_eq!(changes(address, &next), Some(is_command));
            for len in [1, 16] {
                let read = [Operation::Write(&[7]), Operation::Read(&mut bytes[..len])];
                assert_eq!(changes(address, &read), Some(is_command), "{address:#x}");
            }
        }
    }

    #[test]
    fn only_transactions_of_smbus_are_made() {
        let protocol = |operations: &[Operation<'_>]| {
            let (request, nr) = Request::of(operations)?;
            Some((
                request.protocol,
                request.is_read,
                request.command,
                request.data.len(),
                nr,
            ))
        };
        let mut bytes = [0; 40];
        assert_eq!(protocol(&[]), Some((Protocol::Quick, false, 0, 0, 0)));
        assert_eq!(
            protocol(&[Operation::Write(&[7])]),
            Some((Protocol::Byte, false, 7, 0, 0))
        );
        assert_eq!(
            protocol(&[Operation::Write(&[7]), Operation::Write(&[8])]),
            Some((Protocol::ByteData, false, 7, 1, 0))
        );
        assert_eq!(
            protocol(&[Operation::Write(&[7; 33])]),
            Some((Protocol::Block, false, 7, 32, 0))
        );
        assert_eq!(protocol(&[Operation::Write(&[7; 34])]), None);
        assert_eq!(
            protocol(&[Operation::Read(&mut bytes[..1])]),
            Some((Protocol::Byte, true, 0, 0, 1))
        );
        assert_eq!(protocol(&[Operation::Read(&mut bytes[..2])]), None);
        assert_eq!(protocol(&[Operation::Read(&mut [])]), None);
        assert_eq!(
            protocol(&[Operation::Write(&[7]), Operation::Read(&mut bytes[..1])]),
            Some((Protocol::ByteData, true, 7, 0, 1))
        );
        assert_eq!(
            protocol(&[Operation::Write(&[7]), Operation::Read(&mut bytes)]),
            Some((Protocol::I2cRead, true, 7, 0, 40))
        );
        assert_eq!(
            protocol(&[Operation::Write(&[7, 8]), Operation::Read(&mut bytes)]),
            None
        );
        assert_eq!(
            protocol(&[Operation::Read(&mut bytes), Operation::Write(&[7])]),
            None
        );
    }
}
