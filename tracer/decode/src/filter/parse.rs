//! From the text to the tree.

use super::error::FilterError;
use super::token::{Token, Tokens};
use super::tree::{Expr, Filter, Literal, Spanned, Test};

/// Parentheses and `!` in each other: nobody needs more, and nobody shall be able to use up the stack.
const MAX_DEPTH: usize = 64;

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// [`FilterError`] with the place, if it cannot be understood.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut parser = Parser::new(text)?;
        let event = parser.event()?;
        let expr = parser.any(0)?;
        match &parser.token {
            Token::End => Ok(Self { event, expr }),
            Token::Close => Err(parser.error("nothing is open that `)` could close")),
            _ => Err(parser.error("here `&&`, `||` or the end should be")),
        }
    }
}

struct Parser<'t> {
    tokens: Tokens<'t>,
    /// The word that comes next, and where it begins.
    token: Token,
    at: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Self, FilterError> {
        let mut tokens = Tokens::new(text);
        let (at, token) = tokens.next()?;
        Ok(Self { tokens, token, at })
    }

    fn error(&self, reason: impl Into<String>) -> FilterError {
        FilterError::new(self.at, reason)
    }

    /// Takes the word that comes next.
    fn take(&mut self) -> Result<(usize, Token), FilterError> {
        let (at, token) = self.tokens.next()?;
        Ok((
            core::mem::replace(&mut self.at, at),
            core::mem::replace(&mut self.token, token),
        ))
    }

    /// `event:` or `system:event:`, if the filter begins so.
    fn event(&mut self) -> Result<Option<Spanned<String>>, FilterError> {
        let Token::Word(name) = &self.token else {
            return Ok(None);
        };
        // What comes behind is looked at by a copy. What is wrong there is said when it is its turn.
        let mut ahead = self.tokens.clone();
        let mut name = name.clone();
        let Ok((_, Token::Colon)) = ahead.next() else {
            return Ok(None);
        };
        let mut beyond = ahead.clone();
        if let (Ok((_, Token::Word(event))), Ok((_, Token::Colon))) = (beyond.next(), beyond.next())
        {
            name = format!("{name}:{event}");
            ahead = beyond;
        }
        let at = self.at;
        self.tokens = ahead;
        self.take()?;
        Ok(Some(Spanned { at, node: name }))
    }

    fn any(&mut self, depth: usize) -> Result<Expr, FilterError> {
        let mut parts = Vec::from([self.all(depth)?]);
        while self.token == Token::Or {
            self.take()?;
            parts.push(self.all(depth)?);
        }
        Ok(joined(parts, Expr::Any))
    }

    fn all(&mut self, depth: usize) -> Result<Expr, FilterError> {
        let mut parts = Vec::from([self.one(depth)?]);
        while self.token == Token::And {
            self.take()?;
            parts.push(self.one(depth)?);
        }
        Ok(joined(parts, Expr::All))
    }

    fn one(&mut self, depth: usize) -> Result<Expr, FilterError> {
        if depth > MAX_DEPTH {
            return Err(self.error(format!("more than {MAX_DEPTH} levels")));
        }
        match &self.token {
            Token::Not => {
                self.take()?;
                Ok(Expr::Not(Box::new(self.one(depth + 1)?)))
            }
            Token::Open => {
                let (open, _) = self.take()?;
                let inside = self.any(depth + 1)?;
                match &self.token {
                    Token::Close => self.take().map(|_| inside),
                    Token::End => Err(FilterError::new(open, "this `(` is never closed")),
                    _ => Err(self.error("here `&&`, `||` or `)` should be")),
                }
            }
            Token::Word(_) => self.test().map(Expr::Test),
            _ => Err(self.error("here the name of a field should be")),
        }
    }

    fn test(&mut self) -> Result<Test, FilterError> {
        let field = match self.take()? {
            (at, Token::Word(node)) => Spanned { at, node },
            (at, _) => return Err(FilterError::new(at, "here the name of a field should be")),
        };
        let op = match self.token {
            Token::Op(node) => Spanned { at: self.at, node },
            _ => {
                return Err(self.error(format!(
                    "behind `{}` should be ==, !=, <, <=, >, >=, & or ~",
                    field.node
                )));
            }
        };
        self.take()?;
        let node = match &self.token {
            Token::Number(number) => Literal::Number(*number),
            Token::Text(text) | Token::Word(text) => Literal::Text(text.clone()),
            _ => {
                return Err(self.error(format!(
                    "behind `{}` should be a number or a string",
                    op.node
                )));
            }
        };
        let value = Spanned { at: self.at, node };
        self.take()?;
        Ok(Test { field, op, value })
    }
}

/// Several as one; one alone is itself.
fn joined(mut parts: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Expr {
    match parts.len() {
        1 => parts.remove(0),
        _ => join(parts),
    }
}
