//! The words of a filter.

use super::error::FilterError;
use super::tree::Op;

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, or a string without marks.
    Word(String),
    Number(i128),
    /// A string in marks.
    Text(String),
    Op(Op),
    And,
    Or,
    Not,
    Open,
    Close,
    Colon,
    End,
}

/// Takes the words from a text, one at a time.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

fn is_word(c: char) -> bool {
    // `/` is in the names of threads, `swapper/0`.
    c.is_alphanumeric() || matches!(c, '_' | '/' | '.' | '-')
}

impl<'t> Tokens<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The next word and where it begins.
    pub(super) fn next(&mut self) -> Result<(usize, Token), FilterError> {
        let rest = self.text.get(self.at..).unwrap_or("");
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        let at = self.at;
        let Some(first) = trimmed.chars().next() else {
            return Ok((at, Token::End));
        };
        for (text, token) in [
            ("&&", Token::And),
            ("||", Token::Or),
            ("(", Token::Open),
            (")", Token::Close),
            (":", Token::Colon),
        ] {
            if trimmed.starts_with(text) {
                return Ok((at, self.take(text.len(), token)));
            }
        }
        for (text, op) in Op::ALL {
            if trimmed.starts_with(text) {
                return Ok((at, self.take(text.len(), Token::Op(op))));
            }
        }
        match first {
            '!' => Ok((at, self.take(1, Token::Not))),
            '"' | '\'' => self.string(trimmed, first),
            _ if is_word(first) => {
                let len = trimmed.find(|c| !is_word(c)).unwrap_or(trimmed.len());
                let token = word(&trimmed[..len]).map_err(|reason| FilterError::new(at, reason))?;
                Ok((at, self.take(len, token)))
            }
            '=' => Err(FilterError::new(at, "`=` compares nothing; `==` does")),
            '|' => Err(FilterError::new(at, "`|` joins nothing; `||` does")),
            _ => Err(FilterError::new(
                at,
                format!("`{first}` means nothing here"),
            )),
        }
    }

    fn take(&mut self, len: usize, token: Token) -> Token {
        self.at += len;
        token
    }

    fn string(&mut self, from: &str, mark: char) -> Result<(usize, Token), FilterError> {
        let at = self.at;
        let inside = &from[1..];
        let Some(len) = inside.find(mark) else {
            return Err(FilterError::new(at, "this string has no end"));
        };
        Ok((
            at,
            self.take(len + 2, Token::Text(inside[..len].to_owned())),
        ))
    }
}

/// A word, which is a number if it begins like one.
fn word(text: &str) -> Result<Token, String> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(Token::Word(text.to_owned()));
    }
    let hex = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let number = match hex {
        // `from_str_radix` would take a sign.
        Some(hex) if hex.starts_with(['+', '-']) => None,
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        // ftrace takes these for octal numbers, and hardly anybody means one.
        None if digits.len() > 1 && digits.starts_with('0') => {
            return Err(format!(
                "`{text}` begins with 0: a number is decimal, or hexadecimal with 0x"
            ));
        }
        None => digits.parse().ok(),
    };
    let signed = |number: u64| match is_negative {
        true => -i128::from(number),
        false => i128::from(number),
    };
    number
        .map(signed)
        .filter(|number| *number >= i128::from(i64::MIN))
        .map(Token::Number)
        .ok_or_else(|| format!("`{text}` is no number of 64 bits"))
}
