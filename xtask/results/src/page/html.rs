//! Small pieces of HTML.

use serde_json::Value;

pub(crate) use crate::markup::escape;
use crate::plot::Role;

/// A figure as the page shows it: whole numbers as they are, others with three decimals.
#[must_use]
pub(crate) fn figure(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.3}", number.as_f64().unwrap_or_default())
        }
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(figure).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The attributes that say where a figure comes from.
pub(crate) fn origin(run: usize, path: &str) -> String {
    format!("data-run=\"{run}\" data-path=\"{}\"", escape(path))
}

/// A figure of a run's document in a cell of a table.
pub(crate) fn cell(run: usize, document: &Value, path: &str) -> String {
    let value = document.pointer(path).unwrap_or(&Value::Null);
    format!(
        "<td class=\"n\" {}>{}</td>",
        origin(run, path),
        escape(&figure(value))
    )
}

/// A row of a table's head: the first columns are texts, the others numbers.
pub(crate) fn head(nr_texts: usize, titles: &[&str]) -> String {
    let cells = titles.iter().enumerate().map(|(nr, title)| {
        let class = if nr < nr_texts { "" } else { " class=\"n\"" };
        format!("<th scope=\"col\"{class}>{}</th>", escape(title))
    });
    format!("<thead><tr>{}</tr></thead>", cells.collect::<String>())
}

/// A table that scrolls where it is wider than the screen.
pub(crate) fn table(content: &str) -> String {
    format!("<div class=\"scroll\" tabindex=\"0\"><table>{content}</table></div>\n")
}

/// A picture with its title, and what is below it.
pub(crate) fn picture(title: &str, svg: &str, below: &str) -> String {
    format!(
        "<figure><figcaption>{}</figcaption>{svg}{below}</figure>\n",
        escape(title)
    )
}

/// What the colours mean.
pub(crate) fn legend(entries: &[(Role, String)]) -> String {
    let entries = entries.iter().map(|(role, text)| {
        format!(
            "<li><span class=\"swatch f{}\"></span>{}</li>",
            role.number(),
            escape(text)
        )
    });
    format!("<ul class=\"legend\">{}</ul>", entries.collect::<String>())
}

/// Something that the reader should know.
pub(crate) fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>\n", escape(text))
}

/// What is there for those who want it.
pub(crate) fn details(summary: &str, content: &str) -> String {
    format!(
        "<details><summary>{}</summary>{content}</details>\n",
        escape(summary)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_gets_out_of_its_place() {
        let hostile = "</td><script>alert(\"1\")</script>&'\u{0}";
        let safe = escape(hostile);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{0}']), "{safe}");
        assert!(safe.ends_with("&amp;&#39;\u{fffd}"), "{safe}");
        let cell = cell(0, &json!({"git": hostile}), "/git");
        assert_eq!(cell.matches('<').count(), 2, "{cell}");
    }

    #[test]
    fn figures_are_whole_or_have_three_decimals() {
        let shown = [json!(424), json!(14.7764), json!(null), json!([0, 1])];
        assert_eq!(shown.map(|it| figure(&it)), ["424", "14.776", "–", "0, 1"]);
    }
}
