//! The kernel's command line, held against a plain model of it.
//!
//! Input: a key, a zero byte, the command line.

use takt_tracer::control::cmdline::{BadValue, CommandLine};

/// Keys of the image that are asked for besides the input's.
const KEYS: [&str; 4] = ["period_ns", "workload", "events", ""];
/// Words of a choice.
const WORDS: [&str; 4] = ["timerlat", "cyclictest", "0", ""];

/// Asks for keys in every way.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let Ok(text) = core::str::from_utf8(input) else {
        return;
    };
    let (key, text) = text.split_once('\0').unwrap_or(("", text));
    for key in KEYS.into_iter().chain([key]) {
        ask(key, text);
    }
}

fn ask(key: &str, text: &str) {
    let line = CommandLine(text);
    let value = value_of(key, text);
    assert_eq!(line.get(key), value);

    let number = line.number(key, 7);
    match value {
        None => assert_eq!(number, Ok(7)),
        Some(value) => assert!(agree(number, value, text), "{number:?}"),
    }
    match (line.choice(key, &WORDS, 9), value) {
        (Ok(index), None) => assert_eq!(index, 9),
        (Ok(index), Some(value)) => assert_eq!(WORDS[index], value),
        (Err(bad), value) => assert!(points_at(bad, value.expect("it is bad"), text)),
    }
    let parts = value
        .unwrap_or("")
        .split(',')
        .filter(|part| !part.is_empty());
    let mut numbers = line.list(key);
    for part in parts {
        assert!(agree(
            numbers.next().expect("one for each part"),
            part,
            text
        ));
    }
    assert!(numbers.next().is_none());
}

/// The model of `get`: from behind, word by word.
fn value_of<'a>(key: &str, text: &'a str) -> Option<&'a str> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\x0c' | '\r');
    text.split(is_space).rev().find_map(|word| {
        let at = word.find('=')?;
        (&word[..at] == key).then_some(&word[at + 1..])
    })
}

/// Whether what was read is what the digits say, or the place where they say nothing.
fn agree(read: Result<u64, BadValue>, value: &str, text: &str) -> bool {
    match (read, number_of(value)) {
        (Ok(read), Some(number)) => read == number,
        (Err(bad), None) => points_at(bad, value, text),
        _ => false,
    }
}

/// The model of a number: digit by digit.
fn number_of(value: &str) -> Option<u64> {
    let (digits, radix) = match value.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (value, 10),
    };
    let mut number = (!digits.is_empty()).then_some(0u128)?;
    for digit in digits.chars() {
        number = number * u128::from(radix) + u128::from(digit.to_digit(radix)?);
        u64::try_from(number).ok()?;
    }
    u64::try_from(number).ok()
}

fn points_at(bad: BadValue, value: &str, text: &str) -> bool {
    text.get(bad.offset..)
        .is_some_and(|rest| rest.starts_with(value))
}

/// Command lines as the host tool writes them, good and bad.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "cpus\0workload=timerlat period_ns=1000000 duration_ns=5000000000 cpus=0x3 prio=95 load=none",
        "events\0events=4,6,0x103 smp=2 probe",
        "a\0a=1 a= a=0xg b",
        "n\0n=18446744073709551615 n=18446744073709551616 events=1,,+2,x",
    ]
    .map(|line| line.as_bytes().to_vec())
    .into()
}
