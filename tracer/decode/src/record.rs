//! A decoded record.

use super::meta::{EventDef, FieldDef};
use super::put;
use takt_base::term::is_control;
use takt_tracer::wire::{CTX_DEPTH, CTX_HARDIRQ, CTX_IRQS_ON, CTX_NMI, CTX_NO_RESCHED};

/// The context in which a record was written: the preempt-count byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(pub u8);

impl Context {
    /// Whether interrupts were disabled.
    pub const fn is_irqs_off(self) -> bool {
        self.0 & CTX_IRQS_ON == 0
    }

    /// Whether a reschedule was due.
    pub const fn is_need_resched(self) -> bool {
        self.0 & CTX_NO_RESCHED == 0
    }

    /// Whether it was in a hardirq.
    pub const fn is_hardirq(self) -> bool {
        self.0 & CTX_HARDIRQ != 0
    }

    /// Whether it was in an NMI.
    pub const fn is_nmi(self) -> bool {
        self.0 & CTX_NMI != 0
    }

    /// The depth of `preempt_disable`.
    pub const fn depth(self) -> u8 {
        self.0 & CTX_DEPTH
    }

    /// The four columns of ftrace: irqs-off, need-resched, hardirq, preempt-depth.
    pub fn flags(self) -> String {
        put::alone(|out| self.put_columns(out))
    }

    /// Puts the [`flags`](Self::flags) behind `out`.
    pub fn put_columns(self, out: &mut String) {
        let irq = match (self.is_nmi(), self.is_hardirq()) {
            (true, true) => b'Z',
            (true, false) => b'z',
            (false, true) => b'h',
            (false, false) => b'.',
        };
        let dot = |is_set, letter| if is_set { letter } else { b'.' };
        let columns = [
            dot(self.is_irqs_off(), b'd'),
            dot(self.is_need_resched(), b'N'),
            irq,
            b".123456789abcdef"[usize::from(self.depth())],
        ];
        out.push_str(core::str::from_utf8(&columns).unwrap_or_default());
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, signed or not, as it stands in the record: not sign-extended.
    Number(u64),
    /// A string.
    Bytes(Vec<u8>),
    /// The elements of an array, as they stand in the record: not sign-extended.
    Array(Vec<u64>),
}

impl Value {
    /// The number, if it is one.
    pub const fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Bytes(_) | Self::Array(_) => None,
        }
    }

    /// The elements, if it is an array.
    pub fn elements(&self) -> Option<&[u64]> {
        match self {
            Self::Array(elements) => Some(elements),
            Self::Number(_) | Self::Bytes(_) => None,
        }
    }

    /// The bytes as text without anything that could do harm on a terminal; empty for numbers.
    pub fn text(&self) -> String {
        put::alone(|out| put_text(out, self))
    }
}

/// Puts a value's [`text`](Value::text) behind `out`.
pub(super) fn put_text(out: &mut String, value: &Value) {
    if let Value::Bytes(bytes) = value {
        let harmless = |c: char| match is_control(c) {
            true => char::REPLACEMENT_CHARACTER,
            false => c,
        };
        out.extend(String::from_utf8_lossy(bytes).chars().map(harmless));
    }
}

/// A record.
#[derive(Clone, Debug)]
pub struct Record<'t> {
    /// The CPU that wrote it.
    pub cpu: u8,
    /// When, in cycles of the TSC.
    pub ts: u64,
    /// In which context.
    pub context: Context,
    /// The running thread.
    pub tid: u8,
    /// How many bytes of the trace it takes.
    pub len: u32,
    /// The event.
    pub event: &'t EventDef,
    /// The values of its fields, in the order of the class.
    pub values: Vec<Value>,
    /// Whether its dynamic field was longer than what is recorded of one.
    pub is_cut: bool,
}

/// What stands for the rest of a field that was cut.
pub(super) const REST: char = '…';

/// The beginning of a text, `max` bytes at most. No character of UTF-8 is cut.
pub(super) fn beginning(bytes: &[u8], max: usize) -> &[u8] {
    if bytes.len() <= max {
        return bytes;
    }
    // What follows the first byte of a character is 10xxxxxx, three times at most; anything else is no UTF-8.
    let begins = |end: &usize| bytes[*end] & 0xc0 != 0x80;
    let end = (max.saturating_sub(3)..=max).rev().find(begins);
    &bytes[..end.unwrap_or(max)]
}

impl<'t> Record<'t> {
    /// Its fields with their values.
    pub fn fields(&self) -> impl Iterator<Item = (&'t FieldDef, &Value)> {
        self.event.fields.iter().zip(&self.values)
    }

    /// The value of the field of that name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(self.event.field(name)?)
    }

    /// The number in the field of that name.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_the_columns_of_ftrace() {
        assert_eq!(Context(0x80).flags(), "d...");
        assert_eq!(Context(0xc0).flags(), "....");
        assert_eq!(Context(0x11).flags(), "dNh1");
        assert_eq!(Context(0xaa).flags(), "d.za");
        assert_eq!(Context(0xb0).flags(), "d.Z.");
    }

    #[test]
    fn no_character_is_cut() {
        let text = "aä€😀";
        let cut = |max| core::str::from_utf8(beginning(text.as_bytes(), max));
        let expected = [
            "", "a", "a", "aä", "aä", "aä", "aä€", "aä€", "aä€", "aä€", text, text,
        ];
        for (max, expected) in expected.into_iter().enumerate() {
            assert_eq!(cut(max), Ok(expected), "{max}");
        }
        assert_eq!(beginning(&[0x80; 9], 7), [0x80; 7]);
        assert_eq!(beginning(b"abc", 0), b"");
    }

    #[test]
    fn text_is_harmless() {
        assert_eq!(
            Value::Bytes(b"a\x1b[2J\n\xff".to_vec()).text(),
            "a\u{fffd}[2J\u{fffd}\u{fffd}"
        );
    }
}
