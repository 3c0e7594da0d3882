//! Packing fields into a record.
//!
//! Everything is inlined and made of constants but for the values, so that what is left at the place of an event are
//! shifts by constants.

use super::Sink;

/// How a record's word is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 8-bit id, 24 bits of fields, a fixed preempt-count byte that the class names.
    Core24(u8),
    /// 8-bit id, 8 bits of fields, 16 bits of context.
    Core8,
    /// 16-bit id, 16 bits of context.
    Wide,
}

impl Layout {
    /// Where the fields begin in the word, and how many bits they have.
    pub const fn inline_bits(self) -> (u32, u32) {
        match self {
            Self::Core24(_) => (8, 24),
            Self::Core8 => (8, 8),
            Self::Wide => (16, 0),
        }
    }

    /// Whether events with this layout have a core id.
    pub const fn is_core(self) -> bool {
        !matches!(self, Self::Wide)
    }
}

/// The id of an event: the address of its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(*const [u8; 2]);

impl Id {
    /// The id that the symbol stands for. [`event!`](crate::event!) calls it.
    #[inline(always)]
    pub const fn of(symbol: &'static [u8; 2]) -> Self {
        Self(symbol)
    }

    /// The id as it stands in a record, an immediate operand in the linked image.
    #[inline(always)]
    pub fn number(self) -> u32 {
        self.0.addr() as u32
    }
}

/// What can be the value of a field: integers and `bool`, signed ones in two's complement.
pub trait Value: Copy {
    /// The value's bits.
    fn bits(self) -> u64;
}

macro_rules! value {
    ($($ty:ty)*) => {$(
        impl Value for $ty {
            #[inline(always)]
            fn bits(self) -> u64 {
                self as u64
            }
        }
    )*};
}
value!(bool u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

/// A record in the making. Used by the code that [`event_class!`](crate::event_class) generates.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    id: Id,
    fields: u32,
    shift: u32,
    extra: [u32; Self::MAX_EXTRA],
    len: usize,
}

impl Packed {
    /// Most extra words.
    pub const MAX_EXTRA: usize = 8;

    /// A record of event `id` without fields.
    #[inline(always)]
    pub const fn new(id: Id, layout: Layout) -> Self {
        Self {
            id,
            fields: 0,
            shift: layout.inline_bits().0,
            extra: [0; Self::MAX_EXTRA],
            len: 0,
        }
    }

    /// Adds a field of `bits` bits. What does not fit into them is cut off, so that a wrong value cannot damage
    /// another field.
    #[inline(always)]
    #[must_use]
    pub fn field(mut self, bits: u32, value: impl Value) -> Self {
        let value = value.bits();
        if bits < 32 {
            self.fields |= (value as u32 & ((1 << bits) - 1)) << self.shift;
            self.shift += bits;
            return self;
        }
        self.extra[self.len] = value as u32;
        self.len += 1;
        if bits == 64 {
            self.extra[self.len] = (value >> 32) as u32;
            self.len += 1;
        }
        self
    }

    /// Id and fields have no bit in common; a sum with an address is what the linker computes where all fields are
    /// constants, and what one `lea` computes elsewhere.
    #[inline(always)]
    fn word(&self) -> u32 {
        self.id.0.wrapping_byte_add(self.fields as usize).addr() as u32
    }

    #[inline(always)]
    fn pair(&self, at: usize) -> u64 {
        u64::from(self.extra[at]) | u64::from(self.extra[at + 1]) << 32
    }

    /// Hands the record to the sink.
    #[inline(always)]
    pub fn send<S: Sink>(self, layout: Layout) {
        let word = self.word();
        match (layout, self.len) {
            (Layout::Core24(_), 0) => S::rec8(word),
            (Layout::Core24(_), 1) => S::rec12(word, self.extra[0]),
            (Layout::Core24(_), 2) => S::rec16(word, self.pair(0)),
            (Layout::Core24(_), 3) => S::rec20(word, self.pair(0), self.extra[2]),
            (Layout::Core24(_), 4) => S::rec24(word, self.pair(0), self.pair(2)),
            (_, 0) => S::rec8_ctx(word),
            (_, 1) => S::rec12_ctx(word, self.extra[0]),
            (_, 2) => S::rec16_ctx(word, self.pair(0)),
            (_, 3) => S::rec20_ctx(word, self.pair(0), self.extra[2]),
            (_, 4) => S::rec24_ctx(word, self.pair(0), self.pair(2)),
            // More than 24 bytes: no event on a hot path is that long.
            (layout, _) => Self::send_bytes::<S>(self, layout, &[]),
        }
    }

    /// Hands the record to the sink together with its dynamic field.
    #[inline(always)]
    pub fn send_bytes<S: Sink>(self, layout: Layout, bytes: &[u8]) {
        match layout {
            Layout::Core24(_) => S::rec_bytes(self.word(), &self.extra[..self.len], bytes),
            Layout::Core8 | Layout::Wide => {
                S::rec_bytes_ctx(self.word(), &self.extra[..self.len], bytes)
            }
        }
    }
}

/// Refuses, at compile time, fixed fields that do not fit their layout.
///
/// # Panics
/// If a width is impossible, the word is too small for the fields packed into it, or there are too many extra words.
pub const fn check_fields(layout: Layout, bits: &[u32]) {
    let (mut inline, mut extra, mut at) = (0, 0, 0);
    while at < bits.len() {
        match bits[at] {
            0 => panic!("a field has at least one bit"),
            1..32 => inline += bits[at],
            32 => extra += 1,
            64 => extra += 2,
            _ => panic!("a field has fewer than 32 bits, 32 or 64"),
        }
        at += 1;
    }
    assert!(
        inline <= layout.inline_bits().1,
        "the fields do not fit into the word of this layout"
    );
    assert!(extra <= Packed::MAX_EXTRA, "too many extra words");
}
