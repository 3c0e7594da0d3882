//! Texts in HTML and SVG.

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
            // No document may have these.
            control if control.is_control() && !matches!(control, '\n' | '\t') => {
                out.push('\u{fffd}');
            }
            other => out.push(other),
        }
    }
    out
}
