//! [`Value`]: what is known of a word of 64 bits.

/// What is known of a word: bits of it, that it is not zero, or that it is an address on a stack, or is that or something of
/// which nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value {
    /// A stack by its number, 0 for none: then `bits` is the offset from where it began. All of `known` is set, or nothing
    /// where it may also be something else.
    pub(crate) stack: u32,
    /// The instruction that has loaded it, 0 for none: words of the same one are equal.
    pub(crate) origin: u32,
    /// It is this much at least, without sign.
    least: u64,
    /// Which bits are known.
    pub(crate) known: u64,
    /// Their values; zeros elsewhere.
    pub(crate) bits: u64,
}

/// The bits of a word of so many bytes.
pub(crate) const fn mask(size: u32) -> u64 {
    if size >= 8 {
        u64::MAX
    } else {
        (1 << (8 * size)) - 1
    }
}

impl Value {
    /// Nothing is known.
    pub(crate) const UNKNOWN: Self = Self::bits(0, 0);

    /// Some bits are known.
    pub(crate) const fn bits(known: u64, bits: u64) -> Self {
        let bits = bits & known;
        Self {
            stack: 0,
            origin: 0,
            least: bits,
            known,
            bits,
        }
    }

    /// All of it is known.
    pub(crate) const fn constant(bits: u64) -> Self {
        Self::bits(u64::MAX, bits)
    }

    /// An address on a stack.
    pub(crate) const fn on_stack(stack: u32, offset: i64) -> Self {
        Self {
            stack,
            origin: 0,
            least: 1,
            known: u64::MAX,
            bits: offset.cast_unsigned(),
        }
    }

    /// A word of so many bytes of which nothing is known, without sign.
    pub(crate) const fn of_size(size: u32) -> Self {
        Self::bits(!mask(size), 0)
    }

    /// The value, if all of it is known.
    pub(crate) const fn as_constant(self) -> Option<u64> {
        if self.stack == 0 && self.known == u64::MAX {
            Some(self.bits)
        } else {
            None
        }
    }

    /// The stack and the offset there.
    pub(crate) const fn as_stack(self) -> Option<(u32, i64)> {
        if self.known == u64::MAX {
            self.maybe_stack()
        } else {
            None
        }
    }

    /// The stack and the offset there, if it is an address on a stack, which it need not be.
    pub(crate) const fn maybe_stack(self) -> Option<(u32, i64)> {
        if self.stack == 0 {
            None
        } else {
            Some((self.stack, self.bits.cast_signed()))
        }
    }

    /// That address on a stack, or something else.
    const fn or_none(stack: u32, offset: i64) -> Self {
        Self {
            least: 0,
            known: 0,
            ..Self::on_stack(stack, offset)
        }
    }

    /// Whether who has this has all that the other one leads to.
    pub(crate) fn leads_where(self, other: Self) -> bool {
        other.stack == 0 || self.maybe_stack() == other.maybe_stack()
    }

    /// Whether it is known to be different from zero.
    pub(crate) const fn is_nonzero(self) -> bool {
        self.least > 0
    }

    /// The same, known to be different from zero.
    pub(crate) const fn nonzero(self) -> Self {
        self.at_least(1)
    }

    /// The same, known to be this much at least.
    pub(crate) const fn at_least(mut self, least: u64) -> Self {
        if self.least < least {
            self.least = least;
        }
        self
    }

    /// The same, loaded by an instruction.
    pub(crate) const fn loaded_by(mut self, origin: u32) -> Self {
        if self.stack == 0 && self.known != u64::MAX {
            self.origin = origin;
        }
        self
    }

    /// What is known of its bits alone: an address on a stack is any that is not zero.
    pub(crate) const fn plain(self) -> Self {
        if self.stack == 0 {
            self
        } else {
            Self::UNKNOWN.at_least(self.least)
        }
    }

    /// The least value without sign.
    pub(crate) const fn min(self) -> u64 {
        self.least
    }

    /// The greatest value without sign.
    pub(crate) const fn max(self) -> u64 {
        if self.stack != 0 {
            u64::MAX
        } else {
            self.bits | !self.known
        }
    }

    /// Its low bytes, without sign.
    pub(crate) const fn truncate(self, size: u32) -> Self {
        if size >= 8 {
            return self;
        }
        let low = mask(size);
        let plain = self.plain();
        let result = Self::bits(plain.known & low | !low, plain.bits & low);
        // Where all that is cut off is known to be zero, nothing is.
        if plain.known & !low == !low && plain.bits & !low == 0 {
            return plain;
        }
        result
    }

    /// Its low bytes, with sign.
    pub(crate) const fn extend(self, size: u32) -> Self {
        if size >= 8 {
            return self;
        }
        let low = mask(size);
        let sign = 1 << (8 * size - 1);
        let it = self.truncate(size);
        if it.known & sign == 0 {
            let result = Self::bits(it.known & low, it.bits);
            return if it.is_nonzero() {
                result.nonzero()
            } else {
                result
            };
        }
        if it.bits & sign == 0 {
            it
        } else {
            Self::bits(it.known, it.bits | !low)
        }
    }

    /// What is true of both.
    pub(crate) fn join(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        if let Some((stack, offset)) = self.maybe_stack().or(other.maybe_stack())
            && [self, other]
                .iter()
                .all(|it| it.stack == 0 || it.maybe_stack() == Some((stack, offset)))
        {
            return Self::or_none(stack, offset).at_least(self.least.min(other.least));
        }
        let (a, b) = (self.plain(), other.plain());
        let result = Self::bits(a.known & b.known & !(a.bits ^ b.bits), a.bits);
        let result = result.at_least(a.least.min(b.least));
        if a.origin == b.origin {
            result.loaded_by(a.origin)
        } else {
            result
        }
    }

    /// What is known of both at once, of the same word. `None` if that is nothing: they contradict each other.
    pub(crate) fn meet(self, other: Self) -> Option<Self> {
        if self.as_stack().is_some() {
            return (other.max() != 0).then_some(self);
        }
        if self.stack != 0 {
            // No stack is at 0.
            return Some(if other.max() == 0 {
                other
            } else {
                self.at_least(other.least)
            });
        }
        if (self.bits ^ other.bits) & self.known & other.known != 0 {
            return None;
        }
        let result = Self::bits(self.known | other.known, self.bits | other.bits);
        let result = result.at_least(self.least).at_least(other.least);
        (result.least <= result.max()).then_some(result.loaded_by(self.origin))
    }

    /// Known where a bit of it says which of two is meant, by the least and the greatest value.
    fn range(least: u64, greatest: u64) -> Self {
        let differ = least ^ greatest;
        let known = if differ == 0 {
            u64::MAX
        } else {
            !(u64::MAX >> differ.leading_zeros())
        };
        Self::bits(known, least).at_least(least)
    }

    /// Low bits that are known of both.
    fn low_bits(self, other: Self) -> u64 {
        let known = self.known & other.known;
        match (!known).trailing_zeros() {
            64 => u64::MAX,
            nr => (1 << nr) - 1,
        }
    }

    /// The sum of two words of so many bytes.
    pub(crate) fn add(self, other: Self, size: u32) -> Self {
        if size == 8 {
            if let (Some((stack, offset)), Some(by)) = (self.as_stack(), other.as_constant()) {
                return Self::on_stack(stack, offset.wrapping_add(by.cast_signed()));
            }
            if let (Some(by), Some((stack, offset))) = (self.as_constant(), other.as_stack()) {
                return Self::on_stack(stack, offset.wrapping_add(by.cast_signed()));
            }
            if let (Some((stack, offset)), Some(by)) = (self.maybe_stack(), other.as_constant()) {
                return Self::or_none(stack, offset.wrapping_add(by.cast_signed()));
            }
            if let (Some(by), Some((stack, offset))) = (self.as_constant(), other.maybe_stack()) {
                return Self::or_none(stack, offset.wrapping_add(by.cast_signed()));
            }
        }
        let (a, b) = (self.plain().truncate(size), other.plain().truncate(size));
        let low = a.low_bits(b);
        let by_low = Self::bits(low, a.bits.wrapping_add(b.bits));
        let of_size = Self::of_size(size);
        let by_low = by_low.meet(of_size).unwrap_or(of_size);
        match (a.min().checked_add(b.min()), a.max().checked_add(b.max())) {
            (Some(least), Some(greatest)) if greatest <= mask(size) => {
                let by_range = Self::range(least, greatest);
                by_range.meet(by_low).unwrap_or(by_range)
            }
            _ => by_low.truncate(size),
        }
    }

    /// The difference of two words of so many bytes.
    pub(crate) fn sub(self, other: Self, size: u32) -> Self {
        if size == 8 {
            if let (Some((stack, offset)), Some(by)) = (self.as_stack(), other.as_constant()) {
                return Self::on_stack(stack, offset.wrapping_sub(by.cast_signed()));
            }
            if let (Some((stack, offset)), Some(by)) = (self.maybe_stack(), other.as_constant()) {
                return Self::or_none(stack, offset.wrapping_sub(by.cast_signed()));
            }
            if let (Some((one, a)), Some((two, b))) = (self.as_stack(), other.as_stack())
                && one == two
            {
                return Self::constant(a.wrapping_sub(b).cast_unsigned());
            }
        }
        let (a, b) = (self.plain().truncate(size), other.plain().truncate(size));
        if a.min() >= b.max() {
            let by_range = Self::range(a.min() - b.max(), a.max() - b.min());
            let by_low = Self::bits(a.low_bits(b), a.bits.wrapping_sub(b.bits));
            return by_range.meet(by_low).unwrap_or(by_range);
        }
        Self::bits(a.low_bits(b), a.bits.wrapping_sub(b.bits)).truncate(size)
    }

    /// The product of two words of so many bytes, without sign.
    pub(crate) fn mul(self, other: Self, size: u32) -> Self {
        let (a, b) = (self.plain().truncate(size), other.plain().truncate(size));
        match (a.min().checked_mul(b.min()), a.max().checked_mul(b.max())) {
            (Some(least), Some(greatest)) if greatest <= mask(size) => Self::range(least, greatest),
            _ => Self::of_size(size),
        }
    }

    /// Both bits set.
    pub(crate) fn and(self, other: Self) -> Self {
        let (a, b) = (self.plain(), other.plain());
        let zeros = a.known & !a.bits | b.known & !b.bits;
        Self::bits(a.known & b.known | zeros, a.bits & b.bits)
    }

    /// One of the bits set.
    pub(crate) fn or(self, other: Self) -> Self {
        let (a, b) = (self.plain(), other.plain());
        let result = Self::bits(a.known & b.known | a.bits | b.bits, a.bits | b.bits);
        result.at_least(a.least.max(b.least))
    }

    /// One of the bits set, not both.
    pub(crate) fn xor(self, other: Self) -> Self {
        let (a, b) = (self.plain(), other.plain());
        Self::bits(a.known & b.known, a.bits ^ b.bits)
    }

    /// Shifted to the left, in a word of so many bytes.
    pub(crate) fn shl(self, by: u32, size: u32) -> Self {
        let it = self.plain();
        Self::bits(it.known << by | ((1 << by) - 1), it.bits << by).truncate(size)
    }

    /// Shifted to the right without sign, in a word of so many bytes.
    pub(crate) fn shr(self, by: u32, size: u32) -> Self {
        let it = self.truncate(size).plain();
        Self::bits(it.known >> by | !(u64::MAX >> by), it.bits >> by)
    }

    /// Shifted to the right with sign, in a word of so many bytes.
    pub(crate) fn sar(self, by: u32, size: u32) -> Self {
        let it = self.plain().extend(size);
        let known = (it.known.cast_signed() >> by).cast_unsigned();
        let bits = (it.bits.cast_signed() >> by).cast_unsigned();
        Self::bits(known, bits).truncate(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values and what they stand for, small enough to try all.
    fn all() -> Vec<(Value, Vec<u64>)> {
        let mut found = Vec::new();
        for known in [0, 1, 3, 5, 0xf0, 0xfe, 0xff, 0x80] {
            for bits in 0..=255u64 {
                if bits & !known != 0 {
                    continue;
                }
                let value = Value::bits(known | !0xff, bits);
                let is = |it: &u64| it & known == bits;
                found.push((value, (0..=255).filter(is).collect()));
                let rest = (1..=255).filter(is).collect::<Vec<_>>();
                if !rest.is_empty() {
                    found.push((value.nonzero(), rest));
                }
            }
        }
        found
    }

    fn holds(value: Value, it: u64) -> bool {
        (value.bits ^ it) & value.known == 0
            && (it != 0 || !value.is_nonzero())
            && (value.min()..=value.max()).contains(&it)
    }

    type Both = (&'static str, fn(Value, Value) -> Value, fn(u64, u64) -> u64);

    #[test]
    fn no_result_is_left_out() {
        let both: [Both; 6] = [
            ("add", |a, b| a.add(b, 1), |a, b| a.wrapping_add(b) & 0xff),
            ("sub", |a, b| a.sub(b, 1), |a, b| a.wrapping_sub(b) & 0xff),
            ("and", Value::and, |a, b| a & b),
            ("or", Value::or, |a, b| a | b),
            ("xor", Value::xor, |a, b| a ^ b),
            ("mul", |a, b| a.mul(b, 1), |a, b| a.wrapping_mul(b) & 0xff),
        ];
        let all = all();
        let few: Vec<_> = all.iter().step_by(5).collect();
        for (a, of_a) in &all {
            for (b, of_b) in &few {
                let joined = a.join(*b);
                assert!(of_a.iter().chain(of_b).all(|it| holds(joined, *it)));
                for (name, abstractly, concretely) in both {
                    let result = abstractly(*a, *b);
                    for one in of_a.iter().step_by(3).chain(of_a.last()) {
                        for two in of_b.iter().step_by(7).chain(of_b.last()) {
                            let exact = concretely(*one, *two);
                            assert!(holds(result, exact), "{name} {a:?} {b:?}: {one} {two}");
                        }
                    }
                }
            }
            for by in 0..8 {
                for one in of_a {
                    assert!(holds(a.shl(by, 1), (one << by) & 0xff));
                    assert!(holds(a.shr(by, 1), one >> by));
                    let signed = u64::from(*one as u8 as i8 as u64 as u8);
                    let exact = u64::from(((signed as u8 as i8) >> by) as u8);
                    assert!(holds(a.sar(by, 1), exact), "{a:?} {one} sar {by}");
                }
            }
            for one in of_a {
                assert!(holds(a.extend(1), *one as u8 as i8 as u64));
                assert!(holds(a.truncate(1), *one));
            }
        }
    }

    #[test]
    fn an_address_on_a_stack_is_followed_where_it_is_not_sure() {
        let address = Value::on_stack(1, -8);
        let joined = address.join(Value::UNKNOWN);
        assert_eq!(
            (joined.as_stack(), joined.maybe_stack()),
            (None, Some((1, -8)))
        );
        assert_eq!(joined.as_constant(), None);
        assert!(!joined.is_nonzero() && joined.max() == u64::MAX);
        assert!(address.join(Value::constant(1)).is_nonzero());
        for it in [address, joined, Value::constant(3)] {
            assert!(joined.leads_where(it) && joined.join(it).leads_where(it));
        }
        let moved = joined
            .add(Value::constant(4), 8)
            .sub(Value::constant(16), 8);
        assert_eq!(
            (moved.as_stack(), moved.maybe_stack()),
            (None, Some((1, -20)))
        );
        // Zero is no stack's, anything else may be.
        assert_eq!(joined.meet(Value::constant(0)), Some(Value::constant(0)));
        let nonzero = joined.meet(Value::UNKNOWN.nonzero()).unwrap();
        assert!(nonzero.is_nonzero() && nonzero.leads_where(address));
        // Of two of them nothing is left.
        let other = joined.join(Value::on_stack(1, 8));
        assert!(other.maybe_stack().is_none() && !other.leads_where(address));
        assert!(joined.truncate(4).maybe_stack().is_none());
    }
}
