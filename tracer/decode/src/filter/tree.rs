//! The syntax tree, as it was written: nothing is known of events yet.

use core::fmt::{self, Display, Formatter};

/// A filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The event or the system that it is for; all of them if there is none.
    pub event: Option<Spanned<String>>,
    /// What has to hold.
    pub expr: Expr,
}

/// Something and where it begins, in bytes. Two are equal wherever they stand.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    /// Where it begins.
    pub at: usize,
    /// What it is.
    pub node: T,
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl<T: Eq> Eq for Spanned<T> {}

/// An expression. It is as deep as there are parentheses and `!`, not as long as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A field against a value.
    Test(Test),
    /// `!a`
    Not(Box<Expr>),
    /// `a && b && c`, at least two.
    All(Vec<Expr>),
    /// `a || b || c`, at least two.
    Any(Vec<Expr>),
}

/// A field against a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The field's name.
    pub field: Spanned<String>,
    /// How it is compared.
    pub op: Spanned<Op>,
    /// The value.
    pub value: Spanned<Literal>,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `&`: some bit is set in both.
    Bits,
    /// `~`: a string of this pattern.
    Glob,
}

impl Op {
    /// All of them, with how they are written; none is the beginning of one before it.
    pub(super) const ALL: [(&'static str, Self); 8] = [
        ("==", Self::Eq),
        ("!=", Self::Ne),
        ("<=", Self::Le),
        ("<", Self::Lt),
        (">=", Self::Ge),
        (">", Self::Gt),
        ("&", Self::Bits),
        ("~", Self::Glob),
    ];
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// A number, from the least of `i64` to the greatest of `u64`.
    Number(i128),
    /// A string or a word.
    Text(String),
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut known = Self::ALL.iter();
        f.write_str(
            known
                .find(|(_, op)| op == self)
                .map_or("?", |(text, _)| text),
        )
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            // The parser takes either mark, and no string has both.
            Self::Text(text) if text.contains('"') => write!(f, "'{text}'"),
            Self::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // No more levels than were read: the parser counts every parenthesis.
        let join = |f: &mut Formatter<'_>, parts: &[Expr], between: &str| {
            for (number, part) in parts.iter().enumerate() {
                if number > 0 {
                    f.write_str(between)?;
                }
                match (self, part) {
                    // `&&` binds the tighter of the two.
                    (Self::Any(_), Self::All(_)) | (_, Self::Test(_) | Self::Not(_)) => {
                        write!(f, "{part}")?;
                    }
                    (_, Self::All(_) | Self::Any(_)) => write!(f, "({part})")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Test(test) => write!(
                f,
                "{} {} {}",
                test.field.node, test.op.node, test.value.node
            ),
            Self::Not(inner) => match &**inner {
                Self::All(_) | Self::Any(_) => write!(f, "!({inner})"),
                Self::Test(_) | Self::Not(_) => write!(f, "!{inner}"),
            },
            Self::All(parts) => join(f, parts, " && "),
            Self::Any(parts) => join(f, parts, " || "),
        }
    }
}

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(event) = &self.event {
            write!(f, "{}: ", event.node)?;
        }
        write!(f, "{}", self.expr)
    }
}
