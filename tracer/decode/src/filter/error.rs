//! What is wrong with a filter, and where.

/// A filter cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FilterError {
    /// Where, in bytes from the beginning of the text.
    pub at: usize,
    /// What is wrong there.
    pub reason: String,
}

impl FilterError {
    pub(super) fn new(at: usize, reason: impl Into<String>) -> Self {
        Self {
            at,
            reason: reason.into(),
        }
    }

    /// The text, and below it a caret under the place.
    pub fn caret(&self, text: &str) -> String {
        let before = text.get(..self.at).unwrap_or(text).chars().count();
        // What would move the caret becomes a space.
        let shown: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        format!("{shown}\n{:before$}^", "")
    }
}
