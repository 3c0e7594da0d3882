//! Packing fields into a record.
//!
//! Everything is inlined and made of constants but for the values, so that what is left at the place of an event are
//! shifts by constants.

use super::place::{Layout, Place, Placer};
use super::symbol::Byte;
use super::{Sink, Symbol};

/// The id of an event: the address of its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(*const ());

impl Id {
    /// The id that the symbol stands for. [`event!`](crate::event!) calls it.
    #[inline(always)]
    pub const fn of<const N: usize>(symbol: &'static Symbol<N>) -> Self {
        Self(core::ptr::from_ref(symbol).cast())
    }

    /// The id whose symbol begins there.
    pub(super) const fn at(symbol: &'static Byte) -> Self {
        Self(core::ptr::from_ref(symbol).cast())
    }

    /// The id with this number, for tests and tools: in an image the number is the linker's.
    pub const fn from_number(number: u16) -> Self {
        Self(core::ptr::without_provenance(number as usize))
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

/// A record in the making. Used by the code that [`event_class!`](crate::event_class) generates, which gives every place
/// as a constant.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    id: Id,
    fields: u32,
    extra: [u32; Placer::MAX_EXTRA],
}

impl Packed {
    /// A record of event `id` without fields.
    #[inline(always)]
    pub const fn new(id: Id) -> Self {
        Self::of(id, [0; Placer::MAX_EXTRA])
    }

    /// A record of event `id` with these extra words, where no field is in the record's word.
    #[inline(always)]
    pub const fn of(id: Id, extra: [u32; Placer::MAX_EXTRA]) -> Self {
        Self {
            id,
            fields: 0,
            extra,
        }
    }

    /// Adds a field of `bits` bits. What does not fit into them is cut off, so that a wrong value cannot damage
    /// another field.
    #[inline(always)]
    #[must_use]
    pub fn field(mut self, place: Place, bits: u32, value: impl Value) -> Self {
        let value = value.bits();
        let low = if bits < 32 {
            value as u32 & ((1 << bits) - 1)
        } else {
            value as u32
        };
        match place {
            Place::Word(shift) => self.fields |= low << shift,
            Place::Extra(word, shift) => {
                self.extra[word] |= low << shift;
                if bits == 64 {
                    self.extra[word + 1] = (value >> 32) as u32;
                }
            }
        }
        self
    }

    /// Adds an array of elements of `bits` bits, each as a field.
    #[inline(always)]
    #[must_use]
    pub fn array<const N: usize>(
        mut self,
        places: [Place; N],
        bits: u32,
        values: [impl Value; N],
    ) -> Self {
        let mut at = 0;
        while at < N {
            self = self.field(places[at], bits, values[at]);
            at += 1;
        }
        self
    }

    /// Id and fields have no bit in common; a sum with an address is what the linker computes where all fields are
    /// constants, and what one `lea` computes elsewhere; that is why nothing narrows it down to the word. So is what is
    /// known of the context.
    #[inline(always)]
    fn word(&self, context: u32) -> usize {
        let context = self.id.0.wrapping_byte_add(context as usize);
        context.wrapping_byte_add(self.fields as usize).addr()
    }

    #[inline(always)]
    fn pair(&self, at: usize) -> u64 {
        u64::from(self.extra[at]) | u64::from(self.extra[at + 1]) << 32
    }

    /// Hands the record with so many extra words, and with a dynamic field if there is one, to the sink.
    #[inline(always)]
    pub fn send<S: Sink>(self, layout: Layout, words: usize, bytes: Option<&[u8]>) {
        let word = match layout {
            Layout::Core24(_) => self.word(0),
            _ => self.word(S::CONTEXT),
        };
        // By itself, so that it alone has to be in memory where it has to.
        let extra = self.extra;
        let extra = &extra[..words];
        match (layout, words, bytes) {
            (Layout::Core24(_), ..) if S::RARE => S::rec_bytes(word, extra, bytes),
            (Layout::Near, ..) => S::rec_near_ctx(word, self.pair(0)),
            _ if S::RARE => S::rec_bytes_ctx(word, extra, bytes),
            (Layout::Core24(_), 0, None) => S::rec8(word),
            (Layout::Core24(_), 1, None) => S::rec12(word, self.extra[0]),
            (Layout::Core24(_), 2, None) => S::rec16(word, self.pair(0)),
            (Layout::Core24(_), 3, None) => S::rec20(word, self.pair(0), self.extra[2]),
            (Layout::Core24(_), 4, None) => S::rec24(word, self.pair(0), self.pair(2)),
            (Layout::Core24(_), 0, Some(text)) => S::rec_text(text, word),
            (Layout::Core24(_), 1, Some(text)) => S::rec_text1(text, word, self.extra[0]),
            (Layout::Core24(_), ..) => S::rec_bytes(word, extra, bytes),
            (_, 0, None) => S::rec8_ctx(word),
            (_, 1, None) => S::rec12_ctx(word, self.extra[0]),
            (_, 2, None) => S::rec16_ctx(word, self.pair(0)),
            (_, 3, None) => S::rec20_ctx(word, self.pair(0), self.extra[2]),
            (_, 4, None) => S::rec24_ctx(word, self.pair(0), self.pair(2)),
            (_, 0, Some(text)) => S::rec_text_ctx(text, word),
            (_, 1, Some(text)) => S::rec_text1_ctx(text, word, self.extra[0]),
            _ => S::rec_bytes_ctx(word, extra, bytes),
        }
    }
}
