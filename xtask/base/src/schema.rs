//! The schema that a file of Takt's names in its field `schema`: `takt.NAME/VERSION`.

use anyhow::{Result, anyhow};
use serde_json::Value;

use crate::term::WithHelp;

/// Refuses a document that is not of the schema `ours`.
///
/// # Errors
///
/// Which it is of instead, with advice: it differs whether that is a newer version, an older one or something else.
pub fn check(document: &Value, ours: &str) -> Result<()> {
    let Some(found) = document["schema"].as_str() else {
        return Err(anyhow!("it names no schema, where this Takt reads {ours}"))
            .help("it is of an older Takt, damaged, or no file of Takt's: copy it again if it is a copy, else measure again");
    };
    if found == ours {
        return Ok(());
    }
    let by = match document["git"].as_str() {
        Some(revision) => format!("the Takt that wrote it, revision {revision}"),
        None => "the Takt that wrote it".into(),
    };
    Err(anyhow!("it has schema {found}, this Takt reads {ours}")).help(
        match (split(found), split(ours)) {
            (Some((name, version)), Some((our_name, our_version))) if name == our_name => {
                if version > our_version {
                    format!("it is of a newer Takt than this: update this one, or read it by {by}")
                } else {
                    format!("it is of an older Takt than this: read it by {by}, or measure again")
                }
            }
            _ => "it is something else than what is read here: name another file or folder".into(),
        },
    )
}

/// Name and version.
fn split(schema: &str) -> Option<(&str, u32)> {
    let (name, version) = schema.rsplit_once('/')?;
    Some((name, version.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::one_line;
    use serde_json::json;

    #[test]
    fn another_schema_is_told_from_another_version() {
        let says = |document: Value| check(&document, "takt.x/2").map_err(|it| one_line(&it));
        assert_eq!(says(json!({"schema": "takt.x/2"})), Ok(()));
        for (document, expected) in [
            (
                json!({"schema": "takt.x/10", "git": "0123"}),
                "a newer Takt than this",
            ),
            (
                json!({"schema": "takt.x/10", "git": "0123"}),
                "revision 0123",
            ),
            (
                json!({"schema": "takt.x/1"}),
                "an older Takt than this: read it by the Takt that wrote it, or",
            ),
            (json!({"schema": "takt.y/2"}), "something else"),
            (json!({"schema": "takt"}), "something else"),
            (json!({"schema": 2}), "names no schema"),
            (json!([]), "names no schema"),
        ] {
            let error = says(document).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
