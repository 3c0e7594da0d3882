//! The words of `tracefs shell`: commands separated by `;` or newlines, `|` between commands, words with quotes, `>` and
//! `>>`, comments, `\` at a line's end.

use std::fmt;

/// Where a command's output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The file.
    pub file: String,
    /// `>>`, not `>`.
    pub is_append: bool,
}

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Its name and its arguments.
    pub words: Vec<String>,
    /// Where its output goes, if not to stdout or to the next command.
    pub redirect: Option<Redirect>,
}

/// Commands of which each reads what the one before writes; one at least.
pub type Pipeline = Vec<Command>;

/// Why a text is none that can be carried out, as a shell says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// More lines would make it one.
    Incomplete(String),
    /// It is wrong.
    Wrong(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Incomplete(text) | Self::Wrong(text)) = self;
        f.write_str(text)
    }
}

/// Reads commands.
///
/// # Errors
///
/// What is wrong.
pub fn parse(text: &str) -> Result<Vec<Pipeline>, Error> {
    let mut pipelines = Vec::new();
    let mut pipeline = Pipeline::new();
    let mut now = Command::default();
    let mut tokens = tokens(text)?.into_iter();
    while let Some(token) = tokens.next() {
        let is_empty = now == Command::default();
        match token {
            Token::Word(word) => now.words.push(word),
            Token::Redirect { is_append } => match tokens.next() {
                Some(Token::Word(file)) => now.redirect = Some(Redirect { file, is_append }),
                other => return Err(unexpected(other.as_ref().unwrap_or(&Token::Newline))),
            },
            Token::Pipe if is_empty => return Err(unexpected(&token)),
            Token::Pipe => pipeline.push(std::mem::take(&mut now)),
            // A pipe goes on in the next line.
            Token::Newline if is_empty && !pipeline.is_empty() => {}
            Token::Semicolon if is_empty && !pipeline.is_empty() => return Err(unexpected(&token)),
            Token::Newline | Token::Semicolon if is_empty => {}
            Token::Newline | Token::Semicolon => {
                pipeline.push(std::mem::take(&mut now));
                pipelines.push(std::mem::take(&mut pipeline));
            }
        }
    }
    if !pipeline.is_empty() {
        return Err(end_of_file());
    }
    Ok(pipelines)
}

fn unexpected(token: &Token) -> Error {
    let text = match token {
        Token::Word(word) => word,
        Token::Redirect { is_append: true } => ">>",
        Token::Redirect { is_append: false } => ">",
        Token::Pipe => "|",
        Token::Semicolon => ";",
        Token::Newline => "newline",
    };
    unexpected_text(text)
}

fn unexpected_text(text: &str) -> Error {
    Error::Wrong(format!("syntax error near unexpected token `{text}'"))
}

fn end_of_file() -> Error {
    Error::Incomplete("syntax error: unexpected end of file".into())
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Redirect { is_append: bool },
    Pipe,
    Semicolon,
    Newline,
}

/// Cuts a text into tokens; the last is a newline.
fn tokens(text: &str) -> Result<Vec<Token>, Error> {
    let mut tokens = Vec::new();
    // The word in the making; an empty one in quotes is one too.
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err(unmatched('\'')),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('\\') if chars.next_if_eq(&'\n').is_some() => {}
                        Some('\\') if matches!(chars.peek(), Some('"' | '\\' | '$' | '`')) => {
                            word.extend(chars.next());
                        }
                        Some(c) => word.push(c),
                        None => return Err(unmatched('"')),
                    }
                }
            }
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err(end_of_file()),
            },
            '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            '>' | '|' | ';' | '\n' => {
                tokens.extend(word.take().map(Token::Word));
                tokens.push(match c {
                    '>' => Token::Redirect {
                        is_append: chars.next_if_eq(&'>').is_some(),
                    },
                    '|' => Token::Pipe,
                    ';' => Token::Semicolon,
                    _ => Token::Newline,
                });
            }
            '&' | '<' | '(' | ')' => return Err(unexpected_text(&c.to_string())),
            c if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            c => word.get_or_insert_default().push(c),
        }
    }
    tokens.extend(word.map(Token::Word));
    tokens.push(Token::Newline);
    Ok(tokens)
}

fn unmatched(quote: char) -> Error {
    Error::Incomplete(format!(
        "unexpected EOF while looking for matching `{quote}'"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The words of commands of which none reads another's.
    fn words(text: &str) -> Vec<Vec<String>> {
        let one = |mut pipeline: Pipeline| {
            assert_eq!(pipeline.len(), 1);
            pipeline.remove(0).words
        };
        parse(text).unwrap().into_iter().map(one).collect()
    }

    #[test]
    fn words_quotes_and_comments() {
        assert_eq!(
            words("echo a  'b c'\"d \\\" e\" f\\ g; ls # no\ncat x;;"),
            vec![
                vec!["echo", "a", "b cd \" e", "f g"],
                vec!["ls"],
                vec!["cat", "x"]
            ]
        );
        assert_eq!(words("echo '' a#b"), [["echo", "", "a#b"]]);
        assert!(words(" ; \n # x").is_empty());
    }

    #[test]
    fn redirections() {
        let one = |text: &str| parse(text).unwrap().remove(0).remove(0).redirect.unwrap();
        for (text, is_append) in [("echo 1 >f", false), ("echo 1>> f", true)] {
            let file = "f".to_owned();
            assert_eq!(one(text), Redirect { file, is_append });
        }
    }

    #[test]
    fn pipes() {
        let read = parse("cat a|head -5 | wc > f; ls\ncat b |\n\n grep 'x|y'").unwrap();
        let words: Vec<Vec<_>> = read
            .iter()
            .map(|pipeline| pipeline.iter().map(|it| it.words.join(" ")).collect())
            .collect();
        let expected = [
            &["cat a", "head -5", "wc"][..],
            &["ls"],
            &["cat b", "grep x|y"],
        ];
        assert_eq!(words, expected);
        assert!(read[0][2].redirect.is_some() && read[0][1].redirect.is_none());
    }

    #[test]
    fn what_goes_on_in_the_next_line() {
        for text in [
            "echo a \\",
            "echo 'a",
            "echo \"a",
            "cat a |",
            "cat a | # why\n",
        ] {
            assert!(matches!(parse(text), Err(Error::Incomplete(_))), "{text}");
        }
        for text in ["echo a # \\", "echo >", "a & \\"] {
            assert!(!matches!(parse(text), Err(Error::Incomplete(_))), "{text}");
        }
        assert_eq!(
            words("echo a \\\n b\\\nc \"d\\\ne\""),
            [["echo", "a", "bc", "de"]]
        );
    }

    #[test]
    fn nonsense_is_refused_as_a_shell_does() {
        for (text, says) in [
            ("echo 'a", "matching `''"),
            ("echo \"a", "matching `\"'"),
            ("echo >", "`newline'"),
            ("echo > ; ls", "`;'"),
            ("echo > > x", "`>'"),
            ("| b", "`|'"),
            ("cat a || b", "`|'"),
            ("cat a |; b", "`;'"),
            ("cat a > | b", "`|'"),
            ("a & b", "`&'"),
            ("a \\", "end of file"),
            ("cat a |", "end of file"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_itself(text in any::<String>()) {
            let quoted = text.replace('\'', r"'\''");
            prop_assert_eq!(words(&format!("echo '{quoted}'")), [["echo", &text]]);
        }
    }
}
