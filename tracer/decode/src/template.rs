//! Print templates: `comm={tid:comm} prio={prio}`.

/// A template, cut into its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Template(pub(super) Vec<Part>);

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// What stands in braces: of whom, and what of it.
    Hole(Subject, Show),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The field of this number.
    Field(usize),
    /// The running thread.
    Current,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// By its type, at least so wide, filled up.
    Value { width: usize, fill: Fill },
    /// A thread's name, at least so wide, with leading spaces.
    Comm { width: usize },
    /// A thread's number.
    Pid,
    /// An interrupt's name.
    Name,
    /// Cycles of the clock, as seconds with nine decimals.
    Time,
}

/// What a value is filled up with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Spaces before it.
    Spaces,
    /// Zeros before it.
    Zeros,
    /// Spaces behind it.
    Behind,
}

impl Fill {
    /// Fills a text up.
    pub(super) fn up(self, text: &str, width: usize) -> String {
        match self {
            Self::Spaces => format!("{text:>width$}"),
            Self::Zeros => format!("{text:0>width$}"),
            Self::Behind => format!("{text:<width$}"),
        }
    }
}

/// Nobody needs more, and nobody shall be able to ask for gigabytes.
const MAX_WIDTH: usize = 64;

impl Template {
    /// Reads a template; `field` finds the number of a field by its name.
    pub(super) fn parse(text: &str, field: impl Fn(&str) -> Option<usize>) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            let brace = &from[..1];
            if from[1..].starts_with(brace) {
                plain.push_str(brace);
                rest = &from[2..];
                continue;
            }
            let Some(end) = from.find('}').filter(|_| brace == "{") else {
                return Err(format!("unpaired `{brace}` in `{text}`"));
            };
            if !plain.is_empty() {
                parts.push(Part::Text(core::mem::take(&mut plain)));
            }
            parts.push(hole(&from[1..end], &field)?);
            rest = &from[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }
}

fn hole(text: &str, field: &impl Fn(&str) -> Option<usize>) -> Result<Part, String> {
    let (name, show) = text.split_once(':').unwrap_or((text, ""));
    let wide = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse().ok().filter(|width| *width <= MAX_WIDTH),
    };
    let value = |digits, fill| wide(digits).map(|width| Show::Value { width, fill });
    let known = match (show, show.strip_prefix("comm"), show.strip_prefix('<')) {
        ("pid", ..) => Some(Show::Pid),
        ("name", ..) => Some(Show::Name),
        ("time", ..) => Some(Show::Time),
        (_, Some(digits), _) => wide(digits).map(|width| Show::Comm { width }),
        (_, _, Some(digits)) => value(digits, Fill::Behind),
        _ if show.starts_with('0') => value(show, Fill::Zeros),
        _ => value(show, Fill::Spaces),
    };
    let Some(show) = known else {
        return Err(format!(
            "`{{{text}}}` asks for `{show}`, which is neither comm, pid, name, time nor a width"
        ));
    };
    let subject = match field(name) {
        Some(number) => Subject::Field(number),
        None if name == "current" => Subject::Current,
        None => return Err(format!("`{{{text}}}` names no field of the class")),
    };
    Ok(Part::Hole(subject, show))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Template, String> {
        Template::parse(text, |name| {
            ["a", "b"].iter().position(|field| *field == name)
        })
    }

    #[test]
    fn a_template_is_cut_into_parts() {
        let text = |text: &str| Part::Text(text.into());
        assert_eq!(
            parse("a={a} {{x}} {b:comm}{current:pid}{a:03}").unwrap().0,
            [
                text("a="),
                Part::Hole(
                    Subject::Field(0),
                    Show::Value {
                        width: 0,
                        fill: Fill::Spaces
                    }
                ),
                text(" {x} "),
                Part::Hole(Subject::Field(1), Show::Comm { width: 0 }),
                Part::Hole(Subject::Current, Show::Pid),
                Part::Hole(
                    Subject::Field(0),
                    Show::Value {
                        width: 3,
                        fill: Fill::Zeros
                    }
                ),
            ]
        );
        assert_eq!(
            parse("{a:<5}{a:time}{current:comm8}").unwrap().0,
            [
                Part::Hole(
                    Subject::Field(0),
                    Show::Value {
                        width: 5,
                        fill: Fill::Behind
                    }
                ),
                Part::Hole(Subject::Field(0), Show::Time),
                Part::Hole(Subject::Current, Show::Comm { width: 8 }),
            ]
        );
        assert_eq!(parse("").unwrap().0, []);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "{",
            "}",
            "{a",
            "a}",
            "{c}",
            "{a:x}",
            "{a:99999999999}",
            "{a:<x}",
            "{a:comma}",
            "{}",
            "{a{b}",
            "{ä}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
