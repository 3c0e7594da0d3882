//! The commands, by what those of coreutils and grep say to the same.

use super::*;

const TEXT: &str = "one two\nthree\nfour (5)\n6\n";

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// What a command says to the lines, and its status.
fn said(command: &str, input: &str) -> (String, u8) {
    let words = words(command);
    let (filter, files) = parse(&words).unwrap().unwrap();
    assert!(files.is_empty(), "{command}: {files:?}");
    let mut out = Vec::new();
    let mut reader = Reader::new(filter, None, &mut out);
    // In pieces, as a writer may cut it.
    for piece in input.as_bytes().chunks(3) {
        if reader.write_all(piece).is_err() {
            break;
        }
    }
    let status = reader.finish().unwrap();
    (String::from_utf8(out).unwrap(), status)
}

#[test]
fn lines_are_chosen() {
    for (command, expected) in [
        ("head -2", "one two\nthree\n"),
        ("head -n 1", "one two\n"),
        ("head", TEXT),
        ("head -n0", ""),
        ("tail -1", "6\n"),
        ("tail -n2", "four (5)\n6\n"),
        ("tail -n +3", "four (5)\n6\n"),
        ("tail -n 0", ""),
        ("wc", "      4       6      25\n"),
        ("wc -l", "4\n"),
        ("wc -wl", "      4       6\n"),
    ] {
        assert_eq!(said(command, TEXT), (expected.to_owned(), 0), "{command}");
    }
}

#[test]
fn patterns_are_found() {
    for (command, expected) in [
        ("grep t", "one two\nthree\n"),
        ("grep -v t", "four (5)\n6\n"),
        ("grep -c t", "2\n"),
        ("grep -in THREE", "2:three\n"),
        ("grep (5)", "four (5)\n"),
        ("grep -E (5|6)", "four (5)\n6\n"),
        ("grep -E ^{|e{2}", "three\n"),
        (r"grep \(5\|6\)", "four (5)\n6\n"),
        ("grep -F (", "four (5)\n"),
        ("grep ^[0-9]$", "6\n"),
        ("grep [[:digit:]])", "four (5)\n"),
        ("grep -o [eo]*e", "e\nee\n"),
        ("grep -w on", ""),
        ("grep -w one", "one two\n"),
        ("grep -q o", ""),
        ("grep *", ""),
        ("grep o[]n]e", "one two\n"),
        ("grep -c [^]n]e", "1\n"),
        ("grep -- -1", ""),
    ] {
        let found = TEXT.lines().any(|_| !expected.is_empty()) || command.contains("-q");
        assert_eq!(
            said(command, TEXT),
            (expected.to_owned(), u8::from(!found)),
            "{command}"
        );
    }
}

#[test]
fn what_is_wrong_is_said() {
    for (command, says) in [
        ("head -x", "invalid option -- 'x'"),
        ("head -n x", "invalid number of lines: 'x'"),
        ("head -n +3", "invalid number of lines: '+3'"),
        ("tail -n", "requires an argument"),
        ("wc -x", "invalid option -- 'x'"),
        ("grep", "no pattern"),
        ("grep -x y", "invalid option -- 'x'"),
        ("grep -E (", "invalid pattern"),
    ] {
        let words = words(command);
        let error = parse(&words).unwrap().unwrap_err();
        assert!(error.contains(says), "{command}: {error}");
    }
    assert!(parse(&words("cat x")).is_none());
    assert!(parse(&[]).is_none());
}

#[test]
fn files_stand_behind_the_flags() {
    for (command, files) in [
        ("head -5 trace", 1),
        ("grep -c a trace README", 2),
        ("wc -l -- -x", 1),
        ("tail -n 3", 0),
    ] {
        let words = words(command);
        assert_eq!(parse(&words).unwrap().unwrap().1.len(), files, "{command}");
    }
}

/// `head` says that it has seen enough with its last line, not with the one behind it, which may never come.
#[test]
fn head_ends_with_its_last_line() {
    let mut out = Vec::new();
    let mut reader = Reader::new(Filter::Head(2), None, &mut out);
    assert!(reader.write_all(b"a\nb").is_ok());
    assert!(reader.write_all(b"\n").is_err());
    assert_eq!(out, b"a\nb\n");
}
