//! The reader of the guest's RTT block: what it has not sent of its log, and commands to it.
//!
//! Input: the guest's memory from address 0 on. The block is at 0x40.

use takt_guest::Elf;
use takt_guest::Ram;
use takt_guest::rtt::{ID, Rtt};

use crate::image::{self, RTT};

thread_local! {
    static ELF: Elf = image::image("rzcobs");
}

/// Channels that are looked at: good ones, the last that can be, and beyond.
const CHANNELS: [u32; 6] = [0, 1, 2, 15, 16, u32::MAX];

/// Reads every channel and writes to every channel.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let ram = ram(input);
    ELF.with(|elf| {
        let rtt = Rtt::new(elf, &ram).expect("the image has the block");
        for channel in CHANNELS {
            if let Ok(bytes) = rtt.pending(channel) {
                assert!(bytes.len() < 1 << 24);
                let again = rtt.pending(channel).expect("nothing has changed");
                assert_eq!(bytes, again, "reading leaves it unread");
            }
        }
        for channel in CHANNELS {
            // As many as fit, or a few.
            let sent = (0..20).take_while(|byte| rtt.send(channel, *byte).is_ok());
            assert!(sent.count() <= 20);
        }
        for channel in CHANNELS {
            // Commands may have hit the block itself.
            let _ = rtt.pending(channel);
        }
    });
}

/// RAM that begins with `bytes`; the rest is zero.
pub(crate) fn ram(bytes: &[u8]) -> Ram {
    let ram = Ram::create(&std::env::temp_dir()).expect("there is room for a file");
    ram.unlink();
    ram.write_at(0, bytes).expect("inputs are small");
    ram
}

/// A block with one channel up and one down, empty, half full and full around its end.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let block = |size: u32, write: u32, read: u32| {
        let mut bytes = vec![0; RTT as usize];
        bytes.extend(ID);
        bytes.extend([1, 0, 0, 0, 1, 0, 0, 0]);
        for buffer in [0x200u64, 0x280] {
            bytes.extend([0; 8]);
            bytes.extend(buffer.to_le_bytes());
            for number in [size, write, read, 0] {
                bytes.extend(number.to_le_bytes());
            }
        }
        bytes.resize(0x300, 0x55);
        bytes
    };
    vec![block(128, 0, 0), block(128, 100, 3), block(128, 3, 100)]
}
