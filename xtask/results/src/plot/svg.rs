//! The colours of roles, light and dark.

use std::fmt::Write;

/// The colours, by the numbers of roles: light, dark.
const COLORS: &[(u8, &str, &str)] = &[
    (0, "#1b1f24", "#e6e8eb"),
    (1, "#e3e6ea", "#33383f"),
    (2, "#8a929c", "#79828c"),
    (3, "#0a7d78", "#3cc4bc"),
    (4, "#a3480f", "#f2995a"),
    (5, "#c2182b", "#ff7b86"),
    (6, "#b9c0c8", "#4d555e"),
    (7, "#8a2f9e", "#d48ae6"),
    // Series.
    (20, "#1f63b5", "#6aaef5"),
    (21, "#b5560b", "#f4a052"),
    (22, "#187a3c", "#5cc784"),
    (23, "#8a2f9e", "#d48ae6"),
    (24, "#b01f4d", "#f5819f"),
    (25, "#0a7d78", "#3cc4bc"),
    (26, "#6f5a00", "#d6ba3f"),
    (27, "#4f4fb8", "#a3a3f7"),
    // Causes, as in `crate::analysis::causes`.
    (40, "#9aa3ad", "#6f7883"),
    (41, "#c2182b", "#ff6b78"),
    (42, "#e07a1f", "#f7a04f"),
    (43, "#7fb5e6", "#33679c"),
    (44, "#1f63b5", "#5a9fe8"),
    (45, "#d8b400", "#e3c540"),
    (46, "#187a3c", "#4fbf79"),
    (47, "#8a2f9e", "#cf7fe3"),
    (48, "#0a7d78", "#35b5ad"),
    (49, "#b01f4d", "#f06d92"),
    (50, "#4f4fb8", "#9696f0"),
    (51, "#3f7d0c", "#93d35a"),
    (52, "#6f5a00", "#d6ba3f"),
    (53, "#3d444d", "#aab4be"),
    (54, "#5c3d00", "#f0d9a8"),
];

/// The style sheet of the colours, which follows the reader's wish for light or dark.
#[must_use]
pub fn style() -> String {
    let mut css = String::from(":root{color-scheme:light dark;");
    for (number, light, _) in COLORS {
        // Writing to a String does not fail.
        let _ = write!(css, "--p{number}:{light};");
    }
    css.push_str("}\n@media (prefers-color-scheme:dark){:root{");
    for (number, _, dark) in COLORS {
        let _ = write!(css, "--p{number}:{dark};");
    }
    css.push_str("}}\n");
    for (number, ..) in COLORS {
        let _ = write!(
            css,
            ".f{number}{{fill:var(--p{number});background:var(--p{number})}}.s{number}{{stroke:var(--p{number})}}"
        );
    }
    css.push('\n');
    css
}

/// A picture with its own colours, for a file of its own.
#[must_use]
pub fn standalone(svg: &str) -> String {
    let style = format!(
        "<style>{}svg{{background:Canvas}}text{{font-family:sans-serif}}</style>",
        style()
    );
    match svg.find('>') {
        Some(at) => format!("{}{style}{}\n", &svg[..=at], &svg[at + 1..]),
        None => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;

    #[test]
    fn every_role_has_its_colours() {
        let roles = [
            Role::Ink,
            Role::Grid,
            Role::Axis,
            Role::Irq,
            Role::Thread,
            Role::Mark,
            Role::Quiet,
        ]
        .into_iter()
        .chain((0..super::super::NR_SERIES).map(Role::Series))
        .chain((0..crate::analysis::causes::Cause::ALL.len()).map(Role::Cause));
        for role in roles {
            let number = role.number();
            assert!(
                COLORS.iter().any(|(known, ..)| *known == number),
                "{role:?}"
            );
        }
    }
}
