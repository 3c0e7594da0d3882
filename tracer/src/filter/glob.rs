//! Patterns: `*` is anything, `?` one character, `[a-c]` and `[!a-c]` one of these or of the others, `\` takes the next
//! character as it is.

/// Whether the whole text has the pattern. Takes time in proportion to both lengths multiplied at worst.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Behind the last `*`, and where the text went on when it had taken as much as it has by now.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix('*') {
            pattern = rest;
            retry = Some((rest, text));
            continue;
        }
        let mut chars = text.chars();
        let next = match chars.next() {
            None if pattern.is_empty() => return true,
            // What is left of the pattern cannot be nothing.
            None => return false,
            Some(c) => one(pattern, c),
        };
        if let Some(rest) = next {
            pattern = rest;
            text = chars.as_str();
            continue;
        }
        let Some((behind, from)) = retry else {
            return false;
        };
        let mut chars = from.chars();
        if chars.next().is_none() {
            return false;
        }
        pattern = behind;
        text = chars.as_str();
        retry = Some((behind, text));
    }
}

/// The rest of the pattern behind what takes this one character.
fn one(pattern: &str, c: char) -> Option<&str> {
    let mut chars = pattern.chars();
    let is_one = match chars.next()? {
        '?' => true,
        '[' => match set(chars.as_str(), c) {
            Some((is_in, rest)) => return is_in.then_some(rest),
            // Nothing closes it: it stands for itself.
            None => c == '[',
        },
        '\\' => match chars.next() {
            Some(plain) => plain == c,
            None => c == '\\',
        },
        plain => plain == c,
    };
    is_one.then_some(chars.as_str())
}

/// Whether the character is in the set, and what is behind the set.
fn set(pattern: &str, c: char) -> Option<(bool, &str)> {
    let (is_other, inside) = match pattern.strip_prefix(['!', '^']) {
        Some(inside) => (true, inside),
        None => (false, pattern),
    };
    let mut chars = inside.chars();
    let mut is_in = false;
    let mut is_first = true;
    loop {
        let from = chars.next()?;
        if from == ']' && !is_first {
            return Some((is_in != is_other, chars.as_str()));
        }
        is_first = false;
        let mut range = chars.clone();
        let to = match (range.next(), range.next()) {
            (Some('-'), Some(to)) if to != ']' => {
                chars = range;
                to
            }
            _ => from,
        };
        is_in |= (from..=to).contains(&c);
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
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
