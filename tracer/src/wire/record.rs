//! The word that begins a record after its time stamp.

/// Longest dynamic field, in bytes. A writer cuts what is longer.
pub const MAX_BYTES: usize = 512;
/// Longest record: time stamp, word, eight words of fixed fields, length and bytes of the dynamic one.
pub const MAX_RECORD: usize = 8 + 32 + 4 + MAX_BYTES;

/// What the word of a record says about the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// No record: padding to the end of the sub-buffer.
    Padding,
    /// A core event, id 2, 4 … 254; bits 8..=31 belong to the class.
    Core(u8),
    /// A wide event, id 1, 3 … 65535; bits 16..=31 are the context.
    Wide(u16),
}

impl Event {
    /// The id as a number; 0 for padding.
    pub const fn id(self) -> u32 {
        match self {
            Self::Padding => 0,
            Self::Core(id) => id as u32,
            Self::Wide(id) => id as u32,
        }
    }
}

/// Takes the event out of a record's word.
pub const fn event_of(word: u32) -> Event {
    let [low, high, ..] = word.to_le_bytes();
    match low {
        0 => Event::Padding,
        _ if low & 1 == 0 => Event::Core(low),
        _ => Event::Wide(u16::from_le_bytes([low, high])),
    }
}
