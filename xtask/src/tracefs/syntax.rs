//! The words of `tracefs shell`: commands separated by `;` or newlines, words with quotes, `>` and `>>`, comments.

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
    /// Where its output goes, if not to stdout.
    pub redirect: Option<Redirect>,
}

/// Reads commands.
///
/// # Errors
///
/// What is wrong, as a shell says it.
pub fn parse(text: &str) -> Result<Vec<Command>, String> {
    let mut commands = Vec::new();
    let mut now = Command::default();
    // A redirection whose file is not named yet.
    let mut pending: Option<bool> = None;
    for token in tokens(text)? {
        match (token, pending) {
            (Token::Word(file), Some(is_append)) => {
                now.redirect = Some(Redirect { file, is_append });
                pending = None;
            }
            (Token::Word(word), None) => now.words.push(word),
            (Token::Redirect { is_append }, None) => pending = Some(is_append),
            (Token::End, None) => {
                if now != Command::default() {
                    commands.push(std::mem::take(&mut now));
                }
            }
            (Token::End, Some(_)) => return Err(unexpected("newline")),
            (Token::Redirect { .. }, Some(_)) => return Err(unexpected(">")),
        }
    }
    Ok(commands)
}

fn unexpected(what: &str) -> String {
    format!("syntax error near unexpected token `{what}'")
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Redirect { is_append: bool },
    End,
}

/// Cuts a text into tokens; the last is an end.
fn tokens(text: &str) -> Result<Vec<Token>, String> {
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
                None => return Err("syntax error: unexpected end of file".into()),
            },
            '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            '>' | ';' | '\n' => {
                tokens.extend(word.take().map(Token::Word));
                tokens.push(match c {
                    '>' => Token::Redirect {
                        is_append: chars.next_if_eq(&'>').is_some(),
                    },
                    _ => Token::End,
                });
            }
            '|' | '&' | '<' | '(' | ')' => return Err(unexpected(&c.to_string())),
            c if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            c => word.get_or_insert_default().push(c),
        }
    }
    tokens.extend(word.map(Token::Word));
    tokens.push(Token::End);
    Ok(tokens)
}

fn unmatched(quote: char) -> String {
    format!("unexpected EOF while looking for matching `{quote}'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        parse(text)
            .unwrap()
            .into_iter()
            .map(|it| it.words)
            .collect()
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
        let one = |text: &str| parse(text).unwrap().remove(0).redirect.unwrap();
        for (text, is_append) in [("echo 1 >f", false), ("echo 1>> f", true)] {
            let file = "f".to_owned();
            assert_eq!(one(text), Redirect { file, is_append });
        }
    }

    #[test]
    fn nonsense_is_refused_as_a_shell_does() {
        for (text, says) in [
            ("echo 'a", "matching `''"),
            ("echo \"a", "matching `\"'"),
            ("echo >", "`newline'"),
            ("echo > ; ls", "`newline'"),
            ("echo > > x", "`>'"),
            ("cat a | b", "`|'"),
            ("a & b", "`&'"),
            ("a \\", "end of file"),
        ] {
            let error = parse(text).unwrap_err();
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
