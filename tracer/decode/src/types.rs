//! Field types: how the metadata writes them and how their values are shown.

use super::put;

/// The type of a field, which says how its value is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// `u`: unsigned, decimal.
    Unsigned,
    /// `i`: signed, decimal.
    Signed,
    /// `x`: hexadecimal.
    Hex,
    /// `tid`: a thread.
    Tid,
    /// `irq`: an interrupt's vector, whose handler has a name.
    Irq,
    /// `prio`: a priority.
    Prio,
    /// `cycles`: a number of cycles, shown in nanoseconds.
    Cycles,
    /// `sym`: an address, shown as symbol.
    Symbol,
    /// `block(BASE,SIZE)`: the number of a block of code; shown as the function that it belongs to, without an offset.
    Block {
        /// Address of block 0.
        base: u64,
        /// Bytes of a block.
        size: u64,
    },
    /// `enum(n=NAME,…)`.
    Enum(Vec<(u64, String)>),
    /// `flags("DELIMITER",mask=NAME,…)`, or `flags(mask=NAME,…)` with `|` between the names.
    Flags(Flags),
    /// `str`: bytes; `str(n)`: no more than `n` of them.
    Str(Option<u16>),
}

/// The masks of a `flags` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// What stands between two names.
    pub delimiter: String,
    /// The masks and their names, in the order in which they are looked for. None is 0.
    pub masks: Vec<(u64, String)>,
}

impl FieldType {
    /// The address of a block of code with this number, or the number itself where the type is another.
    pub const fn address_or_number(&self, number: u64) -> u64 {
        match self {
            Self::Block { base, size } => base.wrapping_add(number.wrapping_mul(*size)),
            _ => number,
        }
    }

    /// Whether the value is a place in the code.
    pub fn is_place(&self) -> bool {
        matches!(self, Self::Symbol | Self::Block { .. })
    }

    /// Whether it is bytes.
    pub const fn is_str(&self) -> bool {
        matches!(self, Self::Str(_))
    }

    /// Whether there are arrays of it.
    pub const fn can_be_element(&self) -> bool {
        matches!(
            self,
            Self::Unsigned | Self::Signed | Self::Hex | Self::Symbol
        )
    }

    /// Reads a type as the metadata writes it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let simple = match text {
            "u" => Some(Self::Unsigned),
            "i" => Some(Self::Signed),
            "x" => Some(Self::Hex),
            "tid" => Some(Self::Tid),
            "irq" => Some(Self::Irq),
            "prio" => Some(Self::Prio),
            "cycles" => Some(Self::Cycles),
            "sym" => Some(Self::Symbol),
            "str" => Some(Self::Str(None)),
            _ => None,
        };
        if let Some(simple) = simple {
            return Ok(simple);
        }
        let names = |kind: &str| {
            text.strip_prefix(kind)?
                .strip_prefix('(')?
                .strip_suffix(')')
        };
        if let Some(numbers) = names("block") {
            let numbers = numbers.split_once(',');
            return match numbers.map(|(base, size)| (number(base), number(size))) {
                Some((Some(base), Some(size))) => Ok(Self::Block { base, size }),
                _ => Err(format!(
                    "`{text}` does not say where blocks begin and how large they are"
                )),
            };
        }
        if let Some(max) = names("str") {
            return match number(max).and_then(|max| u16::try_from(max).ok()) {
                Some(max @ 1..) => Ok(Self::Str(Some(max))),
                _ => Err(format!("`{text}` does not say how long it may be")),
            };
        }
        match (names("enum"), names("flags")) {
            (Some(list), _) => Ok(Self::Enum(named_values(list)?)),
            (_, Some(list)) => Ok(Self::Flags(Flags::parse(list)?)),
            _ => Err(format!("there is no field type `{text}`")),
        }
    }

    /// The name that an `enum` value has.
    pub(super) fn name_of(names: &[(u64, String)], value: u64) -> Option<&str> {
        names
            .iter()
            .find(|(number, _)| *number == value)
            .map(|(_, name)| name.as_str())
    }
}

impl Flags {
    /// Reads what stands in the parentheses.
    fn parse(list: &str) -> Result<Self, String> {
        let (delimiter, list) = match list.strip_prefix('"') {
            None => ("|", list),
            Some(rest) => rest
                .split_once('"')
                .and_then(|(delimiter, rest)| Some((delimiter, rest.strip_prefix(',')?)))
                .ok_or_else(|| format!("`{list}` is not of the form \"DELIMITER\",mask=NAME"))?,
        };
        let masks = named_values(list)?;
        if let Some((_, name)) = masks.iter().find(|(mask, _)| *mask == 0) {
            return Err(format!(
                "the flag {name} has the mask 0; where no bit is set nothing is shown"
            ));
        }
        Ok(Self {
            delimiter: delimiter.to_owned(),
            masks,
        })
    }

    /// A value as Linux's `__print_flags` shows it: each mask that is in it is taken away and its name shown, in the order
    /// of the declaration; what is left is shown in hexadecimal. Of 0 nothing is shown.
    pub(super) fn put(&self, out: &mut String, value: u64) {
        let mut left = value;
        let mut is_first = true;
        let mut delimit = |out: &mut String| {
            if !core::mem::take(&mut is_first) {
                out.push_str(&self.delimiter);
            }
        };
        for (mask, name) in &self.masks {
            if left & mask == *mask {
                delimit(out);
                out.push_str(name);
                left &= !mask;
            }
        }
        if left != 0 {
            delimit(out);
            put::hex(out, left);
        }
    }
}

/// A number as C and Rust write it: decimal, or hexadecimal after `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn named_values(list: &str) -> Result<Vec<(u64, String)>, String> {
    let one = |item: &str| {
        let (value, name) = item.split_once('=')?;
        Some((number(value)?, name.trim().to_string()))
    };
    list.split(',')
        .filter(|item| !item.trim().is_empty())
        .map(|item| {
            one(item).ok_or_else(|| format!("`{}` is not of the form number=NAME", item.trim()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_joined_and_leftovers_shown() {
        let FieldType::Flags(flags) = FieldType::parse("flags(1=A,0x2=B, 12=CD)").unwrap() else {
            unreachable!()
        };
        let show = |value| put::alone(|out| flags.put(out, value));
        assert_eq!(show(3), "A|B");
        assert_eq!(show(12), "CD");
        assert_eq!(show(4), "0x4");
        assert_eq!(show(0x4d), "A|CD|0x40");
        assert_eq!(show(0), "");
    }

    /// As trace-event-part2 has it: `GFP_KERNEL` is several bits. It hides them if it is declared before them.
    #[test]
    fn masks_are_taken_away_as_they_match() {
        let show = |text, value| match FieldType::parse(text) {
            Ok(FieldType::Flags(flags)) => put::alone(|out| flags.put(out, value)),
            other => panic!("{text}: {other:?}"),
        };
        let whole_first = "flags(0xd0=KERNEL,0x10=WAIT,0x40=IO,0x80=FS,0x8000=ZERO)";
        assert_eq!(show(whole_first, 0x80d0), "KERNEL|ZERO");
        assert_eq!(show(whole_first, 0x8050), "WAIT|IO|ZERO");
        let whole_last = "flags(0x10=WAIT,0xd0=KERNEL,0x40=IO,0x80=FS)";
        assert_eq!(show(whole_last, 0xd0), "WAIT|IO|FS");
        // As the taint flags of `module_load` are shown.
        assert_eq!(show("flags(\"\",1=P,2=F,4=C)", 5), "PC");
        assert_eq!(show("flags(\"\",1=P)", 9), "P0x8");
        assert_eq!(show("flags(\", \",1=A,2=B)", 7), "A, B, 0x4");
        assert_eq!(show("flags(\", \",1=A,2=B)", 0), "");
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        assert!(
            FieldType::parse("enum(0=R,x=S)")
                .unwrap_err()
                .contains("`x=S`")
        );
        assert!(FieldType::parse("float").unwrap_err().contains("`float`"));
        assert!(FieldType::parse("enum(").is_err());
        for bad in ["flags(0=NONE,1=A)", "flags(\"|1=A)", "flags(\"|\"1=A)"] {
            assert!(FieldType::parse(bad).is_err(), "{bad}");
        }
        assert!(
            FieldType::parse("block(5)")
                .unwrap_err()
                .contains("`block(5)`")
        );
        for bad in ["str(0)", "str()", "str(65536)", "str(x)"] {
            assert!(FieldType::parse(bad).unwrap_err().contains(bad));
        }
        assert_eq!(FieldType::parse("str(16)"), Ok(FieldType::Str(Some(16))));
        let block = FieldType::Block {
            base: 0x20_0000,
            size: 32,
        };
        assert_eq!(FieldType::parse("block(0x200000,32)"), Ok(block));
    }
}
