//! Where the fields of a class stand in a record: one rule for packing and for decoding.

use crate::wire::NEAR_BITS;

/// How a record's word is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// 8-bit id, 24 bits of fields, a fixed preempt-count byte that the class names.
    Core24(u8),
    /// 8-bit id, 8 bits of fields, 16 bits of context.
    Core8,
    /// 16-bit id, 16 bits of context.
    Wide,
    /// As wide, with 11 bits of fields within the id, and a time of 64 bits as the last field. A record has the time's
    /// lower half only, if its upper half is that of the record's own time and the record went straight through; all of it
    /// otherwise.
    Near,
}

/// What kind of id an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An even one of 8 bits.
    Core,
    /// An odd one of 16 bits.
    Wide,
    /// One of the four from 0x8001 up.
    Near,
}

impl Kind {
    /// Whether it is the same, at compile time.
    pub const fn is(self, other: Self) -> bool {
        self as u8 == other as u8
    }
}

impl Layout {
    /// The lowest bit of the word that belongs to fields, and how many there are.
    pub const fn inline_bits(self) -> (u32, u32) {
        match self {
            Self::Core24(_) => (8, 24),
            Self::Core8 => (8, 8),
            Self::Wide => (16, 0),
            Self::Near => (1, NEAR_BITS),
        }
    }

    /// What kind of id events with this layout have.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Core24(_) | Self::Core8 => Kind::Core,
            Self::Wide => Kind::Wide,
            Self::Near => Kind::Near,
        }
    }

    /// Whether a class of this layout can have fixed fields of which the last has so many bits, and so many extra words in
    /// all, and a dynamic field or none.
    pub const fn can_have(self, last_bits: u32, words: usize, has_dynamic: bool) -> bool {
        !matches!(self, Self::Near) || last_bits == 64 && words == 2 && !has_dynamic
    }
}

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the record's word, from this bit up.
    Word(u32),
    /// In the extra word of this number, from this bit up; 64 bits take that word and the next.
    Extra(usize, u32),
}

/// Gives fields their places, in the order of the class.
///
/// A field of fewer than 32 bits goes into the record's word if there is room; else into the newest extra word that
/// was begun for such fields, if there is room; else into a new extra word. 32 and 64 bits are new extra words. An array
/// is as many fields as it has elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placer {
    next: u32,
    end: u32,
    /// The extra word for small fields, and how many bits of it are used.
    open: (usize, u32),
    words: usize,
}

impl Placer {
    /// Most extra words of a class.
    pub const MAX_EXTRA: usize = 8;

    /// A record without fields.
    pub const fn new(layout: Layout) -> Self {
        let (next, room) = layout.inline_bits();
        Self {
            next,
            end: next + room,
            open: (0, 32),
            words: 0,
        }
    }

    /// The place of the next field, of `bits` bits (1 to 32, or 64).
    pub const fn place(&mut self, bits: u32) -> Place {
        if bits >= 32 {
            self.words += bits as usize / 32;
            return Place::Extra(self.words - bits as usize / 32, 0);
        }
        if self.next + bits <= self.end {
            self.next += bits;
            return Place::Word(self.next - bits);
        }
        if self.open.1 + bits > 32 {
            self.open = (self.words, 0);
            self.words += 1;
        }
        self.open.1 += bits;
        Place::Extra(self.open.0, self.open.1 - bits)
    }

    /// How many extra words there are so far.
    pub const fn words(&self) -> usize {
        self.words
    }

    /// Gives as many fields of these widths their places as are said behind each.
    const fn place_all(mut self, fields: &[(u32, usize)]) -> Self {
        let mut at = 0;
        while at < fields.len() {
            let (bits, count) = fields[at];
            let mut nr = 0;
            while nr < count {
                self.place(bits);
                nr += 1;
            }
            at += 1;
        }
        self
    }

    /// The place of a field of `bits` bits after those in `before`, each a width and how many there are of it.
    pub const fn place_after(layout: Layout, before: &[(u32, usize)], bits: u32) -> Place {
        Self::new(layout).place_all(before).place(bits)
    }

    /// The places of `N` fields of `bits` bits after those in `before`.
    pub const fn places_after<const N: usize>(
        layout: Layout,
        before: &[(u32, usize)],
        bits: u32,
    ) -> [Place; N] {
        let mut placer = Self::new(layout).place_all(before);
        let mut places = [Place::Word(0); N];
        let mut at = 0;
        while at < N {
            places[at] = placer.place(bits);
            at += 1;
        }
        places
    }

    /// The number of extra words that these fields take, each a width and how many there are of it; refuses, at compile
    /// time, impossible ones.
    ///
    /// # Panics
    /// If a width is neither 1 to 32 nor 64, if an array is empty, or if more than [`MAX_EXTRA`](Self::MAX_EXTRA) extra
    /// words are needed.
    pub const fn words_of(layout: Layout, fields: &[(u32, usize)]) -> usize {
        let mut at = 0;
        while at < fields.len() {
            assert!(
                matches!(fields[at].0, 1..=32 | 64),
                "a field has 1 to 32 bits, or 64"
            );
            assert!(fields[at].1 > 0, "an array has an element at least");
            at += 1;
        }
        let placer = Self::new(layout).place_all(fields);
        assert!(
            placer.words <= Self::MAX_EXTRA,
            "the fields take too many extra words"
        );
        let last_bits = if at == 0 { 0 } else { fields[at - 1].0 };
        assert!(
            layout.can_have(last_bits, placer.words, false),
            "layout `near` has 11 bits of fields and then one of 64 bits"
        );
        placer.words
    }
}
