//! A filter as a program that the target can run over a record's raw words.
//!
//! It is tests, one behind the other, each with a place to go on at if it holds and one if it does not. Places only lie
//! further on, so a program comes to its end after as many steps as it has tests. A test of a byte (a thread, a CPU, the
//! context) is a set of 256 bits: whatever the host knows of threads' names and numbers is worked out beforehand.
//!
//! A set that is about threads' names says which behind its bits, so that the target can work it out for a thread that gets
//! its name later ([`Program::named`]). Whoever runs the program looks at the bits only.
//!
//! | words | |
//! |---|---|
//! | 0 | where the program begins |
//! | then for each test: 0 | bits 0..8 the kind (0 set, 1 range, 2 mask), 8..16 the source (0 CPU, 1 context, 2 thread, 3 field) |
//! | 1 | bits 0..16 where to go on if it holds, 16..32 if not: a word's number, or `ACCEPT` or `REJECT` |
//! | 2 | the field: bits 0..8 its word in the record, 8..16 its lowest bit, 16..24 its width, 24 signed, 25 the test is turned round |
//! | 3.. | set: 8 words, and a name of as many words as bits 16..24 of word 0 say; range: the least and the greatest as `u64`, signed ones with their highest bit turned round; mask: a `u64` |
//! | name: 0 | bits 0..8 its length in bytes, 8.. how it is compared (0 equal, 1 different, 2 a pattern) |
//! | 1.. | its bytes |
//!
//! # Context
//! IRQ-safe, NMI-safe: nothing is written, nothing blocks.

use super::glob;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The place of what gets through.
pub const ACCEPT: u16 = 0xffff;
/// The place of what does not.
pub const REJECT: u16 = 0xfffe;
/// Words of the longest program.
pub const MAX_WORDS: usize = 1024;

/// Kind of a test: the byte is in a set.
pub const SET: u32 = 0;
/// Kind of a test: the number lies in a range.
pub const RANGE: u32 = 1;
/// Kind of a test: the number has a bit of a mask.
pub const MASK: u32 = 2;

/// Source of a test: the CPU.
pub const FROM_CPU: u32 = 0;
/// Source of a test: the preempt-count byte.
pub const FROM_CTX: u32 = 1;
/// Source of a test: the thread.
pub const FROM_TID: u32 = 2;
/// Source of a test: a field.
pub const FROM_FIELD: u32 = 3;

/// Of a test's field: it has a sign.
pub const SIGNED: u32 = 1 << 24;
/// Of a test: it is turned round.
pub const TURNED: u32 = 1 << 25;

/// How a set's name is compared: it is the thread's.
pub const NAME_EQUAL: u32 = 0;
/// How a set's name is compared: it is not the thread's.
pub const NAME_DIFFERENT: u32 = 1;
/// How a set's name is compared: it is a pattern of the thread's.
pub const NAME_GLOB: u32 = 2;
/// Bytes of the longest name or pattern.
pub const MAX_NAME: usize = 255;

/// Words of a set's bits.
const SET_WORDS: usize = 8;
/// Words of a test before its operands.
const HEAD: usize = 3;

/// A word of a program, which may lie where others can change it.
pub trait Word {
    /// The word.
    fn get(&self) -> u32;
}

impl Word for u32 {
    #[inline(always)]
    fn get(&self) -> u32 {
        *self
    }
}

impl Word for AtomicU32 {
    #[inline(always)]
    fn get(&self) -> u32 {
        self.load(Relaxed)
    }
}

/// A record as it is when it is written.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'r> {
    /// Its word and its extra words.
    pub words: &'r [u32],
    /// The CPU.
    pub cpu: u8,
    /// The running thread.
    pub tid: u8,
    /// The preempt-count byte as in a record.
    pub ctx: u8,
}

impl Raw<'_> {
    /// The number that a test is about; none if there is no such source.
    pub(crate) fn number(&self, source: u32, field: u32) -> Option<u64> {
        Some(match source {
            FROM_CPU => self.cpu.into(),
            FROM_CTX => self.ctx.into(),
            FROM_TID => self.tid.into(),
            FROM_FIELD => load(field, self.words),
            _ => return None,
        })
    }
}

/// A program that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program<'p, W = u32> {
    code: &'p [W],
}

impl<'p, W: Word> Program<'p, W> {
    /// A program that was checked before. If it was not, or has changed since, running it ends all the same.
    pub const fn assume(code: &'p [W]) -> Self {
        Self { code }
    }

    /// Checks a program: every test is whole, and what follows it is a test further on or the end.
    pub fn new(code: &'p [W]) -> Option<Self> {
        if code.len() > MAX_WORDS {
            return None;
        }
        let mut begins = [0u32; MAX_WORDS / 32];
        let mut at = 1;
        while at < code.len() {
            *begins.get_mut(at / 32)? |= 1 << (at % 32);
            let head = code.get(at)?.get();
            let end = at + HEAD + operands(head)?;
            if nr_name_words(head) != 0 {
                let name = at + HEAD + SET_WORDS;
                let (_, len) = name_of(code.get(name)?.get(), end - name - 1)?;
                check_text(code.get(name + 1..end)?, len)?;
            }
            at = end;
        }
        if at != code.len().max(1) {
            return None;
        }
        let is_place = |place: u16, behind: usize| {
            let place = usize::from(place);
            place >= usize::from(REJECT)
                || place > behind
                    && begins
                        .get(place / 32)
                        .is_some_and(|word| word >> (place % 32) & 1 == 1)
        };
        if !is_place(u16::try_from(code.first()?.get()).ok()?, 0) {
            return None;
        }
        let mut at = 1;
        while at < code.len() {
            let (then, otherwise) = places(code.get(at + 1)?.get());
            if !is_place(then, at) || !is_place(otherwise, at) {
                return None;
            }
            at += HEAD + operands(code.get(at)?.get())?;
        }
        Some(Self { code })
    }

    /// Whether a record gets through. A field that the record does not have is 0.
    pub fn run(&self, raw: &Raw<'_>) -> bool {
        let mut at = self.code.first().map_or(ACCEPT, |place| place.get() as u16);
        while at < REJECT {
            // It was checked; and a filter had better let too much through than too little.
            let Some(step) = self.step(usize::from(at), raw) else {
                return true;
            };
            if step <= at {
                return true;
            }
            at = step;
        }
        at == ACCEPT
    }

    fn step(&self, at: usize, raw: &Raw<'_>) -> Option<u16> {
        let [head, places_of, field, operands @ ..] = self.code.get(at..)? else {
            return None;
        };
        let (head, field) = (head.get(), field.get());
        let number = raw.number(head >> 8 & 0xff, field)?;
        let holds = match head & 0xff {
            SET => {
                let byte = number as u8;
                operands.get(usize::from(byte / 32))?.get() >> (byte % 32) & 1 == 1
            }
            RANGE => {
                let bias = if field & SIGNED != 0 { 1 << 63 } else { 0 };
                let number = number ^ bias;
                pair(operands, 0)? <= number && number <= pair(operands, 2)?
            }
            MASK => number & pair(operands, 0)? != 0,
            _ => return None,
        };
        let (then, otherwise) = places(places_of.get());
        Some(if holds != (field & TURNED != 0) {
            then
        } else {
            otherwise
        })
    }
}

impl Program<'_, AtomicU32> {
    /// Whether a test is about threads' names.
    pub fn has_names(&self) -> bool {
        self.tests().any(|(_, head)| nr_name_words(head) != 0)
    }

    /// A thread has this name from now on: the tests that are about names know it. `change` does what [`change_set`] does, unless the program was
    /// changed meanwhile.
    ///
    /// # Context
    /// IRQ-safe, NMI-safe.
    pub fn named(&self, tid: u8, name: &str, change: &mut dyn FnMut(&AtomicU32, u32, bool)) {
        for (at, head) in self.tests() {
            let operands = self.code.get(at + HEAD..).unwrap_or_default();
            let Some((set, behind)) = operands.split_at_checked(SET_WORDS) else {
                return;
            };
            let words = behind.get(..nr_name_words(head)).unwrap_or_default();
            let is_met = is_met_by(words, name.as_bytes());
            if let (Some(is_met), Some(word)) = (is_met, set.get(usize::from(tid / 32))) {
                let bit = 1 << (tid % 32);
                change(word, bit, is_met);
            }
        }
    }

    /// Where each test begins, and its first word.
    fn tests(&self) -> impl Iterator<Item = (usize, u32)> {
        let mut at = 1;
        core::iter::from_fn(move || {
            let (begin, head) = (at, self.code.get(at)?.get());
            at += HEAD + operands(head)?;
            Some((begin, head))
        })
    }
}

/// How a name is compared, and its length; `None` if that is no way, or not the length of the name in so many words
/// behind `head`.
fn name_of(head: u32, nr_words: usize) -> Option<(u32, usize)> {
    let (len, how) = ((head & 0xff) as usize, head >> 8);
    (how <= NAME_GLOB && nr_words == len.div_ceil(4)).then_some((how, len))
}

/// Whether the first `len` bytes of these words are characters, each with as many bytes as its first one says.
fn check_text<W: Word>(words: &[W], len: usize) -> Option<()> {
    let mut nr_missing = 0;
    for at in 0..len {
        let byte = (words.get(at / 4)?.get() >> (8 * (at % 4))) as u8;
        let nr_ones = byte.leading_ones();
        if (nr_ones == 1) != (nr_missing != 0) || nr_ones > 4 {
            return None;
        }
        nr_missing = if nr_ones > 1 { nr_ones } else { nr_missing }.saturating_sub(1);
    }
    (nr_missing == 0).then_some(())
}

/// Puts a bit's thread into the set that this word is of, or takes it out.
#[inline(always)]
pub fn change_set(word: &AtomicU32, bit: u32, is_in: bool) {
    _ = match is_in {
        true => word.fetch_or(bit, Relaxed),
        false => word.fetch_and(!bit, Relaxed),
    }
}

/// Whether a thread's name is as the words want it.
#[inline(never)]
fn is_met_by(words: &[AtomicU32], name: &[u8]) -> Option<bool> {
    let (head, words) = words.split_first()?;
    let (how, len) = name_of(head.get(), words.len())?;
    let mut bytes = [0; MAX_NAME + 1];
    for (four, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *four = word.get().to_le_bytes();
    }
    let wanted = bytes.get(..len)?;
    Some(match how {
        NAME_EQUAL => wanted == name,
        NAME_DIFFERENT => wanted != name,
        _ => glob::matches(wanted, name),
    })
}

/// Words of the name behind a set's bits; 0 if it is not about names.
fn nr_name_words(head: u32) -> usize {
    (head >> 16 & 0xff) as usize
}

/// Words of operands that a test has; none if there is no such test.
fn operands(head: u32) -> Option<usize> {
    let name = nr_name_words(head);
    if head >> 24 != 0 || head >> 8 & 0xff > FROM_FIELD {
        return None;
    }
    match head & 0xff {
        SET => Some(SET_WORDS + name),
        RANGE if name == 0 => Some(4),
        MASK if name == 0 => Some(2),
        _ => None,
    }
}

fn places(word: u32) -> (u16, u16) {
    (word as u16, (word >> 16) as u16)
}

fn pair<W: Word>(words: &[W], at: usize) -> Option<u64> {
    Some(u64::from(words.get(at)?.get()) | u64::from(words.get(at + 1)?.get()) << 32)
}

/// The field's number, with its sign extended if it has one.
fn load(field: u32, words: &[u32]) -> u64 {
    let [at, shift, bits, _] = field.to_le_bytes();
    let word = |at: usize| u64::from(words.get(at).copied().unwrap_or(0));
    let at = usize::from(at);
    let unused = 64 - u32::from(bits.clamp(1, 64));
    let both = word(at) | if bits > 32 { word(at + 1) << 32 } else { 0 };
    let number = both >> (shift & 31) << unused;
    match field & SIGNED {
        0 => number >> unused,
        _ => (number.cast_signed() >> unused).cast_unsigned(),
    }
}
