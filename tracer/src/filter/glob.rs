//! Patterns: `*` is anything, `?` one character, `[a-c]` and `[!a-c]` one of these or of the others, `\` takes the next
//! character as it is.
//!
//! Texts are bytes of UTF-8, which whoever made them has checked; what is none ends all the same. A character is compared
//! as the number that its bytes are, which is in the order of characters.

/// Whether the whole text has the pattern. Takes time in proportion to both lengths multiplied at worst.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // How far both were gone through.
    let (mut at, mut text_at) = (0, 0);
    // Behind the last `*`, and where the text went on when it had taken as much as it has by now.
    let mut retry = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            retry = Some((at, text_at));
            continue;
        }
        let mut behind = text_at;
        let Some(c) = next(text, &mut behind) else {
            // What is left of the pattern cannot be nothing.
            return at >= pattern.len();
        };
        if let Some(rest) = one(pattern, at, c) {
            (at, text_at) = (rest, behind);
            continue;
        }
        let Some((star, mut from)) = retry else {
            return false;
        };
        if next(text, &mut from).is_none() {
            return false;
        }
        (at, text_at) = (star, from);
        retry = Some((star, from));
    }
}

/// The character there; behind it is what is next.
#[inline(never)]
fn next(text: &[u8], at: &mut usize) -> Option<u32> {
    let first = *text.get(*at)?;
    let mut c = u32::from(first);
    *at += 1;
    // How many follow is said by the ones that the first byte begins with.
    for _ in 1..first.leading_ones() {
        let Some(byte) = text.get(*at) else { break };
        c = c << 8 | u32::from(*byte);
        *at += 1;
    }
    Some(c)
}

const QUESTION_MARK: u32 = b'?' as u32;
const BACKSLASH: u32 = b'\\' as u32;
const BRACKET: u32 = b'[' as u32;
const CLOSING_BRACKET: u32 = b']' as u32;
const HYPHEN: u32 = b'-' as u32;

/// Where the pattern goes on behind what takes this one character.
fn one(pattern: &[u8], mut at: usize, c: u32) -> Option<usize> {
    let first = next(pattern, &mut at)?;
    let is_one = match first {
        QUESTION_MARK => true,
        // Where nothing closes it, it stands for itself.
        BRACKET => {
            let mut behind = at;
            match set(pattern, &mut behind, c) {
                Some(is_in) => {
                    at = behind;
                    is_in
                }
                None => c == BRACKET,
            }
        }
        BACKSLASH => next(pattern, &mut at).unwrap_or(first) == c,
        _ => first == c,
    };
    is_one.then_some(at)
}

/// Whether the character is in the set that begins there.
fn set(pattern: &[u8], at: &mut usize, c: u32) -> Option<bool> {
    let is_other = matches!(pattern.get(*at), Some(b'!' | b'^'));
    *at += usize::from(is_other);
    let mut is_in = false;
    let mut is_first = true;
    loop {
        let from = next(pattern, at)?;
        if from == CLOSING_BRACKET && !is_first {
            return Some(is_in != is_other);
        }
        is_first = false;
        let mut to = from;
        let mut behind = *at;
        if next(pattern, &mut behind) == Some(HYPHEN)
            && let Some(last) = next(pattern, &mut behind)
            && last != CLOSING_BRACKET
        {
            to = last;
            *at = behind;
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
