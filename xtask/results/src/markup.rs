//! Texts in HTML and SVG.

use takt_base::term::is_control;

/// Text that may stand anywhere in HTML and SVG, in attributes too.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No document may have these, and others change the direction of what is around them.
            control if is_control(control) && !matches!(control, '\n' | '\t') => {
                out.push('\u{fffd}');
            }
            other => out.push(other),
        }
    }
    out
}
