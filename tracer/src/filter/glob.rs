//! Patterns: `*` is anything, `?` one character, `[a-c]` and `[!a-c]` one of these or of the others, `\` takes the next
//! character as it is.
//!
//! Texts are bytes of UTF-8, which whoever made them has checked; what is none ends all the same. A character is compared
//! as the number that its bytes are, which is in the order of characters.

/// Whether the whole text has the pattern. Takes time in proportion to both lengths multiplied at worst.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Behind the last `*`, and where the text went on when it had taken as much as it has by now.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((rest, text));
            continue;
        }
        let Some((c, behind_c)) = next(text) else {
            // What is left of the pattern cannot be nothing.
            return pattern.is_empty();
        };
        if let Some(rest) = one(pattern, c) {
            pattern = rest;
            text = behind_c;
            continue;
        }
        let Some((behind, from)) = retry else {
            return false;
        };
        let Some((_, rest)) = next(from) else {
            return false;
        };
        pattern = behind;
        text = rest;
        retry = Some((behind, text));
    }
}

/// A character, and what is behind it.
#[inline(never)]
fn next(text: &[u8]) -> Option<(u32, &[u8])> {
    let (first, mut rest) = text.split_first()?;
    let mut c = u32::from(*first);
    // How many follow is said by the ones that the first byte begins with.
    for _ in 1..first.leading_ones() {
        let [byte, behind @ ..] = rest else { break };
        c = c << 8 | u32::from(*byte);
        rest = behind;
    }
    Some((c, rest))
}

const QUESTION_MARK: u32 = b'?' as u32;
const BACKSLASH: u32 = b'\\' as u32;
const BRACKET: u32 = b'[' as u32;
const CLOSING_BRACKET: u32 = b']' as u32;
const HYPHEN: u32 = b'-' as u32;

/// The rest of the pattern behind what takes this one character.
fn one(pattern: &[u8], c: u32) -> Option<&[u8]> {
    let (first, rest) = next(pattern)?;
    let (wanted, rest) = match first {
        QUESTION_MARK => (c, rest),
        // Where nothing closes it, it stands for itself.
        BRACKET => match set(rest, c) {
            Some((is_in, rest)) => return is_in.then_some(rest),
            None => (first, rest),
        },
        BACKSLASH => next(rest).unwrap_or((first, rest)),
        _ => (first, rest),
    };
    (wanted == c).then_some(rest)
}

/// Whether the character is in the set, and what is behind the set.
fn set(pattern: &[u8], c: u32) -> Option<(bool, &[u8])> {
    let (is_other, mut inside) = match pattern {
        [b'!' | b'^', inside @ ..] => (true, inside),
        _ => (false, pattern),
    };
    let mut is_in = false;
    let mut is_first = true;
    loop {
        let (from, rest) = next(inside)?;
        inside = rest;
        if from == CLOSING_BRACKET && !is_first {
            return Some((is_in != is_other, inside));
        }
        is_first = false;
        let mut to = from;
        if let Some((HYPHEN, rest)) = next(inside)
            && let Some((last, rest)) = next(rest)
            && last != CLOSING_BRACKET
        {
            to = last;
            inside = rest;
        }
        is_in |= from <= c && c <= to;
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_are_ftraces() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*sh", "bash", true),
            ("*sh", "bash-1", false),
            ("ba*", "bash", true),
            ("*as*", "bash", true),
            ("b?sh", "bash", true),
            ("b?sh", "bsh", false),
            ("timerlat/[0-3]", "timerlat/2", true),
            ("timerlat/[!0-3]", "timerlat/2", false),
            ("timerlat/[^0-3]", "timerlat/7", true),
            ("[]a]", "]", true),
            ("[", "[", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*a*b*c", "xaxbxbxc", true),
            ("*ab", "aab", true),
            ("a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("ü?", "üä", true),
            ("[a-ü]x", "öx", true),
            ("[ä-ü]", "a", false),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }
}
