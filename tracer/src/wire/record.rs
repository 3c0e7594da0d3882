//! The word that begins a record after its time stamp.

/// Longest dynamic field, in bytes. Of what is longer a writer records one byte more than this, by which a reader knows that
/// it was cut.
pub const MAX_BYTES: usize = 512;
/// Longest record: time stamp, word, eight words of fixed fields, length and bytes of a dynamic one that was cut.
pub const MAX_RECORD: usize = 8 + 32 + 4 + MAX_BYTES + 4;

/// What the word of a record says about the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// No record: padding to the end of the sub-buffer.
    Padding,
    /// A core event, id 2, 4 … 254; bits 8..=31 belong to the class.
    Core(u8),
    /// A wide event, id 1, 3 … 32767; bits 16..=31 are the context.
    Wide(u16),
    /// A near event, id 0x8001, 0xa001, 0xc001 or 0xe001, with a time of 64 bits of which the record has the lower half or
    /// all. Bits 1..=11 are fields, bits 16..=31 are the context.
    Near {
        /// The id.
        id: u16,
        /// Whether the record has all of the time: where its upper half is not that of the record's own time, and
        /// where the record did not go straight through.
        is_far: bool,
    },
}

/// The least id of a near event.
pub const NEAR_FIRST: u16 = 0x8001;
/// How many bits of a near event's word are fields, from bit 1 up.
pub const NEAR_BITS: u32 = 11;
/// In the word of a near event: two words of time follow, not one.
pub const NEAR_FAR: u32 = 1 << (1 + NEAR_BITS);
/// How many ids a near event takes: its own, and those that differ from it in the bits above.
pub const NEAR_IDS: u16 = 1 << (1 + NEAR_BITS);

impl Event {
    /// The id as a number; 0 for padding.
    pub const fn id(self) -> u32 {
        match self {
            Self::Padding => 0,
            Self::Core(id) => id as u32,
            Self::Wide(id) | Self::Near { id, .. } => id as u32,
        }
    }
}

/// Takes the event out of a record's word.
#[inline]
pub const fn event_of(word: u32) -> Event {
    let [low, high, ..] = word.to_le_bytes();
    match low {
        0 => Event::Padding,
        _ if low & 1 == 0 => Event::Core(low),
        _ => match u16::from_le_bytes([low, high]) {
            id if id < NEAR_FIRST => Event::Wide(id),
            id => Event::Near {
                id: id & !(2 * (NEAR_IDS - 1)),
                is_far: word & NEAR_FAR != 0,
            },
        },
    }
}
