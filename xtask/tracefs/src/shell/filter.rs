//! `head`, `tail`, `grep` and `wc`: what reads lines and writes some of them, or a word about them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};

use regex::bytes::{Regex, RegexBuilder};

/// Lines that `head` and `tail` show unless they are told.
const NR_LINES: usize = 10;

/// What is done with lines.
#[derive(Clone, Debug)]
pub(super) enum Filter {
    /// Passes the first ones on.
    Head(usize),
    /// Passes the last ones on.
    Tail(usize),
    /// Passes on from this one, counted from 1.
    From(usize),
    /// Passes on those in which a pattern is found.
    Grep(Grep),
    /// Counts: lines, words, bytes, as far as they are wanted.
    Count([bool; 3]),
}

/// Flags of `grep`.
#[derive(Clone, Debug)]
pub(super) struct Grep {
    pattern: Regex,
    is_inverted: bool,
    is_count: bool,
    is_quiet: bool,
    has_numbers: bool,
    has_parts_only: bool,
}

/// The command of these words, and the files that it names; `None` if its name is none of these.
///
/// # Errors
///
/// What is wrong with its flags.
pub(super) fn parse(words: &[String]) -> Option<Result<(Filter, &[String]), String>> {
    let (name, arguments) = words.split_first()?;
    Some(match name.as_str() {
        "head" => lines_of(arguments, |nr, is_from| match is_from {
            false => Some(Filter::Head(nr)),
            true => None,
        }),
        "tail" => lines_of(arguments, |nr, is_from| {
            Some(if is_from {
                Filter::From(nr)
            } else {
                Filter::Tail(nr)
            })
        }),
        "grep" => grep(arguments),
        "wc" => count(arguments),
        _ => return None,
    })
}

fn invalid(flag: char) -> String {
    format!("invalid option -- '{flag}'")
}

/// `-5`, `-n 5`, `-n5`, and with `+` before the number where that is meant by something.
fn lines_of(
    arguments: &[String],
    filter: fn(usize, bool) -> Option<Filter>,
) -> Result<(Filter, &[String]), String> {
    let mut rest = arguments;
    let mut number = NR_LINES.to_string();
    while let Some((flag, behind)) = rest.split_first() {
        let Some(flag) = flag.strip_prefix('-').filter(|flag| !flag.is_empty()) else {
            break;
        };
        rest = behind;
        if flag == "-" {
            break;
        }
        number = match flag.strip_prefix('n') {
            Some("") => {
                let missing = "option requires an argument -- 'n'";
                let (value, behind) = rest.split_first().ok_or(missing)?;
                rest = behind;
                value.clone()
            }
            Some(value) => value.to_owned(),
            None if flag.bytes().all(|byte| byte.is_ascii_digit()) => flag.to_owned(),
            None => return Err(invalid(flag.chars().next().unwrap_or('-'))),
        };
    }
    let (digits, is_from) = match number.strip_prefix('+') {
        Some(digits) => (digits, true),
        None => (&*number, false),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = digits.parse().ok().filter(|_| is_number);
    parsed
        .and_then(|nr| filter(nr, is_from))
        .map(|filter| (filter, rest))
        .ok_or_else(|| format!("invalid number of lines: '{number}'"))
}

/// The letters of the flags, and what stands behind them.
fn letters(arguments: &[String]) -> (String, &[String]) {
    let mut letters = String::new();
    let mut rest = arguments;
    while let Some((word, behind)) = rest.split_first() {
        match word.strip_prefix('-') {
            Some("-") => return (letters, behind),
            Some(flags) if !flags.is_empty() => letters.push_str(flags),
            _ => break,
        }
        rest = behind;
    }
    (letters, rest)
}

fn count(arguments: &[String]) -> Result<(Filter, &[String]), String> {
    let (letters, files) = letters(arguments);
    let mut wanted = [false; 3];
    for letter in letters.chars() {
        let which = "lwc".find(letter).ok_or_else(|| invalid(letter))?;
        wanted[which] = true;
    }
    if wanted == [false; 3] {
        wanted = [true; 3];
    }
    Ok((Filter::Count(wanted), files))
}

fn grep(arguments: &[String]) -> Result<(Filter, &[String]), String> {
    let (letters, rest) = letters(arguments);
    if let Some(letter) = letters
        .chars()
        .find(|letter| !"EFcinoqvw".contains(*letter))
    {
        return Err(invalid(letter));
    }
    let has = |letter| letters.contains(letter);
    let (pattern, files) = rest.split_first().ok_or("no pattern is given")?;
    let expression = match (has('F'), has('E')) {
        (true, _) => regex::escape(pattern),
        (_, is_extended) => expression(pattern, is_extended),
    };
    let expression = match has('w') {
        true => format!(r"\b(?:{expression})\b"),
        false => expression,
    };
    let pattern = RegexBuilder::new(&expression)
        .unicode(false)
        .case_insensitive(has('i'))
        .build()
        .map_err(|_| format!("invalid pattern: {pattern}"))?;
    let grep = Grep {
        pattern,
        is_inverted: has('v'),
        is_count: has('c'),
        is_quiet: has('q'),
        has_numbers: has('n'),
        has_parts_only: has('o'),
    };
    Ok((Filter::Grep(grep), files))
}

/// A pattern as the crate `regex` writes it. In a basic one `+ ? | ( ) { }` are operators behind a backslash only.
fn expression(pattern: &str, is_extended: bool) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let is_operator = |c: char| !is_extended && "+?|(){}".contains(c);
        match c {
            '\\' => match chars.next() {
                Some(c) if is_operator(c) => out.push(c),
                Some(c) => out.extend(['\\', c]),
                None => out.push_str(r"\\"),
            },
            // Nothing to repeat is a star itself.
            '*' if matches!(&*out, "" | "^") => out.push_str(r"\*"),
            // What is no number of times is the brace itself.
            '{' if !chars.peek().is_some_and(char::is_ascii_digit) => out.push_str(r"\{"),
            c if is_operator(c) => out.extend(['\\', c]),
            '[' => {
                out.push('[');
                out.extend(chars.next_if_eq(&'^'));
                // The first one does not end it.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
                while let Some(c) = chars.next() {
                    match c {
                        '\\' => out.push_str(r"\\"),
                        '[' if chars.peek() == Some(&':') => {
                            out.push('[');
                            for c in chars.by_ref() {
                                out.push(c);
                                if c == ']' {
                                    break;
                                }
                            }
                        }
                        '[' => out.push_str(r"\["),
                        ']' => {
                            out.push(']');
                            break;
                        }
                        c => out.push(c),
                    }
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// Reads lines by one of these commands, and writes what it has to say to `out`.
#[derive(Debug)]
pub(super) struct Reader<W> {
    filter: Filter,
    /// Stands before what is found in this file, where there are several.
    label: Option<String>,
    pub(super) out: W,
    /// What was written without a newline behind it.
    rest: Vec<u8>,
    nr_lines: usize,
    nr_found: usize,
    /// Words and bytes.
    counts: [usize; 2],
    last: VecDeque<Vec<u8>>,
}

/// There is no need to read on.
fn enough() -> io::Error {
    ErrorKind::BrokenPipe.into()
}

impl<W: Write> Reader<W> {
    /// A reader of a file of this name.
    pub(super) fn new(filter: Filter, label: Option<String>, out: W) -> Self {
        Self {
            filter,
            label,
            out,
            rest: Vec::new(),
            nr_lines: 0,
            nr_found: 0,
            counts: [0; 2],
            last: VecDeque::new(),
        }
    }

    /// A line, with its newline if it has one.
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.nr_lines += 1;
        match &self.filter {
            Filter::Head(nr) => {
                if self.nr_lines <= *nr {
                    self.out.write_all(line)?;
                }
                if self.nr_lines >= *nr {
                    return Err(enough());
                }
            }
            Filter::Tail(nr) => {
                self.last.push_back(line.to_owned());
                if self.last.len() > *nr {
                    self.last.pop_front();
                }
            }
            Filter::From(nr) => {
                if self.nr_lines >= *nr {
                    self.out.write_all(line)?;
                }
            }
            Filter::Grep(grep) => {
                let grep = grep.clone();
                self.search(&grep, line)?;
            }
            Filter::Count(_) => {
                let words = line.split(u8::is_ascii_whitespace);
                self.counts[0] += words.filter(|word| !word.is_empty()).count();
                self.counts[1] += line.len();
            }
        }
        Ok(())
    }

    fn search(&mut self, grep: &Grep, line: &[u8]) -> io::Result<()> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        if grep.pattern.is_match(text) == grep.is_inverted {
            return Ok(());
        }
        self.nr_found += 1;
        if grep.is_quiet {
            return Err(enough());
        }
        if grep.is_count {
            return Ok(());
        }
        let parts: Vec<&[u8]> = match grep.has_parts_only {
            true if grep.is_inverted => Vec::new(),
            true => (grep.pattern.find_iter(text))
                .map(|found| found.as_bytes())
                .filter(|part| !part.is_empty())
                .collect(),
            false => vec![text],
        };
        for part in parts {
            if let Some(label) = &self.label {
                write!(self.out, "{label}:")?;
            }
            if grep.has_numbers {
                write!(self.out, "{}:", self.nr_lines)?;
            }
            self.out.write_all(part)?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// There are no more lines. Gives the exit status.
    ///
    /// # Errors
    ///
    /// If what there is to say cannot be written.
    pub(super) fn finish(&mut self) -> io::Result<u8> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            not_enough(self.line(&rest))?;
        }
        match &self.filter {
            Filter::Tail(_) => {
                for line in &self.last {
                    self.out.write_all(line)?;
                }
            }
            Filter::Grep(grep) if grep.is_count && !grep.is_quiet => {
                if let Some(label) = &self.label {
                    write!(self.out, "{label}:")?;
                }
                writeln!(self.out, "{}", self.nr_found)?;
            }
            Filter::Count(wanted) => {
                let row = row(*wanted, self.counted(), self.label.as_deref());
                writeln!(self.out, "{row}")?;
            }
            _ => {}
        }
        let is_grep = matches!(self.filter, Filter::Grep(_));
        Ok(u8::from(is_grep && self.nr_found == 0))
    }

    /// Newlines, words and bytes.
    pub(super) fn counted(&self) -> [usize; 3] {
        [self.nr_lines, self.counts[0], self.counts[1]]
    }
}

/// What `wc` says.
pub(super) fn row(wanted: [bool; 3], counts: [usize; 3], label: Option<&str>) -> String {
    let shown: Vec<_> = (wanted.iter().zip(counts))
        .filter(|(is_wanted, _)| **is_wanted)
        .map(|(_, count)| count)
        .collect();
    match (&*shown, label) {
        ([one], None) => one.to_string(),
        // What comes through a pipe has columns, as its size is not known.
        (shown, None) => shown
            .iter()
            .map(|count| format!("{count:7}"))
            .collect::<Vec<_>>()
            .join(" "),
        (shown, Some(label)) => {
            let counts: Vec<_> = shown.iter().map(ToString::to_string).collect();
            format!("{} {label}", counts.join(" "))
        }
    }
}

/// That a reader has seen enough is no error.
pub(super) fn not_enough(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

impl<W: Write> Write for Reader<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                self.line(&line)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
