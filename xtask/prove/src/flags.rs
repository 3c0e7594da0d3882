//! [`Flags`], conditions, and what a branch that was taken says of what was compared.

use iced_x86::ConditionCode;

use crate::value::{Value, mask};

/// What is known of the arithmetic flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Flags {
    /// ZF.
    pub(crate) zero: Option<bool>,
    /// CF.
    pub(crate) carry: Option<bool>,
    /// SF.
    pub(crate) sign: Option<bool>,
    /// OF.
    pub(crate) overflow: Option<bool>,
}

/// What the flags are made of, as long as it is as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Nothing that is followed.
    #[default]
    None,
    /// Of a word of so many bytes that was looked at through a mask.
    Masked(Word, u32, u64),
    /// Of a word of so many bytes less a constant.
    Less(Word, u32, u64),
    /// Carry is that bit.
    Bit(Word, u32),
}

/// A word that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Word {
    /// A register.
    Register(usize),
    /// On a stack, by its number and the offset.
    Slot(u32, i64),
}

impl Flags {
    /// Of a result of so many bytes without carry or overflow.
    pub(crate) fn of_result(result: Value, size: u32) -> Self {
        let result = result.truncate(size);
        let sign = 1 << (8 * size - 1);
        Self {
            zero: if result.max() == 0 {
                Some(true)
            } else {
                result.is_nonzero().then_some(false)
            },
            carry: Some(false),
            sign: (result.plain().known & sign != 0).then_some(result.bits & sign != 0),
            overflow: Some(false),
        }
    }

    /// Of the difference of two words of so many bytes.
    pub(crate) fn of_difference(a: Value, b: Value, size: u32) -> Self {
        let difference = a.sub(b, size);
        let (a, b) = (a.plain().truncate(size), b.plain().truncate(size));
        let carry = if a.max() < b.min() {
            Some(true)
        } else {
            (a.min() >= b.max()).then_some(false)
        };
        let differ = (a.bits ^ b.bits) & a.known & b.known != 0;
        let of = Self::of_result(difference, size);
        let zero = if differ || carry == Some(true) || a.min() > b.max() {
            Some(false)
        } else {
            of.zero
        };
        // Neither is negative: then there is no overflow.
        let positive = mask(size) >> 1;
        let (sign, overflow) = if a.max() <= positive && b.max() <= positive {
            (carry, Some(false))
        } else {
            match (a.as_constant(), b.as_constant()) {
                (Some(a), Some(b)) => {
                    let result = a.wrapping_sub(b);
                    let sign = positive + 1;
                    (
                        Some(result & sign != 0),
                        Some((a ^ b) & (a ^ result) & sign != 0),
                    )
                }
                _ => (None, None),
            }
        };
        Self {
            zero,
            carry,
            sign,
            overflow,
        }
    }

    /// Of the sum of two words of so many bytes.
    pub(crate) fn of_sum(a: Value, b: Value, size: u32) -> Self {
        let of = Self::of_result(a.add(b, size), size);
        let (a, b) = (a.plain().truncate(size), b.plain().truncate(size));
        let least = u128::from(a.min()) + u128::from(b.min());
        let greatest = u128::from(a.max()) + u128::from(b.max());
        let top = u128::from(mask(size));
        let carry = if greatest <= top {
            Some(false)
        } else {
            (least > top).then_some(true)
        };
        let overflow = match (a.as_constant(), b.as_constant()) {
            (Some(a), Some(b)) => {
                let sign = (mask(size) >> 1) + 1;
                Some(!(a ^ b) & (a ^ a.wrapping_add(b)) & sign != 0)
            }
            _ => None,
        };
        Self {
            carry,
            overflow,
            ..of
        }
    }

    /// What is true of both.
    pub(crate) fn join(self, other: Self) -> Self {
        let same = |a: Option<bool>, b| if a == b { a } else { None };
        Self {
            zero: same(self.zero, other.zero),
            carry: same(self.carry, other.carry),
            sign: same(self.sign, other.sign),
            overflow: same(self.overflow, other.overflow),
        }
    }

    /// Whether a condition holds.
    pub(crate) fn holds(self, condition: ConditionCode) -> Option<bool> {
        use ConditionCode as C;
        let Self {
            zero,
            carry,
            sign,
            overflow,
        } = self;
        let either = |a: Option<bool>, b: Option<bool>| match (a, b) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        let differ = match (sign, overflow) {
            (Some(a), Some(b)) => Some(a != b),
            _ => None,
        };
        match condition {
            C::o => overflow,
            C::no => overflow.map(|it| !it),
            C::b => carry,
            C::ae => carry.map(|it| !it),
            C::e => zero,
            C::ne => zero.map(|it| !it),
            C::be => either(carry, zero),
            C::a => either(carry, zero).map(|it| !it),
            C::s => sign,
            C::ns => sign.map(|it| !it),
            C::l => differ,
            C::ge => differ.map(|it| !it),
            C::le => either(differ, zero),
            C::g => either(differ, zero).map(|it| !it),
            _ => None,
        }
    }
}

impl Source {
    /// The word, and what is known of it besides where a condition holds. `None` if nothing is.
    pub(crate) fn told(self, condition: ConditionCode) -> Option<(Word, Value)> {
        use ConditionCode as C;
        let nonzero = Value::UNKNOWN.nonzero();
        match (self, condition) {
            (Self::Masked(word, _, mask), C::e) => Some((word, Value::bits(mask, 0))),
            (Self::Masked(word, _, mask), C::ne) if mask.is_power_of_two() => {
                Some((word, Value::bits(mask, mask)))
            }
            (Self::Masked(word, _, _), C::ne) => Some((word, nonzero)),
            (Self::Masked(word, size, seen), C::s | C::ns) => {
                let sign = 1 << (8 * size - 1);
                let bits = if condition == C::s { sign } else { 0 };
                (seen & sign != 0).then_some((word, Value::bits(sign, bits)))
            }
            (Self::Less(word, size, by), C::e) => Some((word, Value::bits(mask(size), by))),
            (Self::Less(word, _, 0), C::ne) => Some((word, nonzero)),
            (Self::Less(word, _, by), C::a) => {
                Some((word, Value::UNKNOWN.at_least(by.checked_add(1)?)))
            }
            (Self::Less(word, _, by @ 1..), C::ae) => Some((word, Value::UNKNOWN.at_least(by))),
            (Self::Less(word, size, by @ 1..), C::b) => Some((word, below(size, by - 1))),
            (Self::Less(word, size, by), C::be) => Some((word, below(size, by))),
            (Self::Bit(word, nr), C::b) => Some((word, Value::bits(1 << nr, 1 << nr))),
            (Self::Bit(word, nr), C::ae) => Some((word, Value::bits(1 << nr, 0))),
            _ => None,
        }
    }

    /// A register and the most that so many of its low bytes are where a condition holds.
    pub(crate) fn most(self, condition: ConditionCode) -> Option<(usize, u32, u64)> {
        match (self, condition) {
            (Self::Less(Word::Register(nr), size, by @ 1..), ConditionCode::b) => {
                Some((nr, size, by - 1))
            }
            (Self::Less(Word::Register(nr), size, by), ConditionCode::be) => Some((nr, size, by)),
            _ => None,
        }
    }

    /// The word that it is of.
    pub(crate) fn word(self) -> Option<Word> {
        match self {
            Self::None => None,
            Self::Masked(word, ..) | Self::Less(word, ..) | Self::Bit(word, _) => Some(word),
        }
    }
}

/// The low bytes are that much at most.
fn below(size: u32, most: u64) -> Value {
    let high = if most == 0 {
        u64::MAX
    } else {
        !(u64::MAX >> most.leading_zeros())
    };
    Value::bits(high & mask(size), 0)
}
