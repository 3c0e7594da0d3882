//! What an image's sections take.

use anyhow::{Context, Result};
use object::{Object, ObjectSection, ObjectSymbol};

use super::Values;
use crate::image::Elf;

/// The images of the event footprint experiment.
pub(super) const FOOTPRINTS: [&str; 6] = [
    "events-0",
    "events-1",
    "events-100-shared",
    "events-100-own",
    "events-200-shared",
    "events-200-own",
];

/// Notes text, rodata, data, bss and loaded bytes of an image.
///
/// The linker script fills text and bss up to whole pages; that is not counted, so each ends with its last symbol.
pub(super) fn of_image(prefix: &str, elf: &Elf, values: &mut Values) -> Result<()> {
    let file = object::File::parse(&*elf.data).context("the image cannot be read")?;
    let used = |name: &str| {
        let Some(section) = file.section_by_name(name) else {
            return 0;
        };
        let (start, size) = (section.address(), section.size());
        let end = file
            .symbols()
            .filter(|symbol| symbol.section_index() == Some(section.index()) && symbol.size() > 0)
            .map(|symbol| symbol.address() + symbol.size())
            .max();
        end.map_or(0, |end| (end - start).min(size))
    };
    let whole = |name: &str| {
        file.section_by_name(name)
            .map_or(0, |section| section.size())
    };
    let (text, rodata, data) = (used(".text"), whole(".rodata"), whole(".data"));
    let mut add = |what: &str, value| values.insert(format!("{prefix}-{what}"), value);
    add("text", text);
    add("rodata", rodata);
    add("data", data);
    add("bss", used(".bss"));
    add("code", text + rodata);
    add("loaded", text + rodata + data);
    Ok(())
}

/// Notes what one more event takes, from 100 to 200.
pub(super) fn per_event(values: &mut Values) {
    for kind in ["shared", "own"] {
        let loaded = |nr: u32| {
            values
                .get(&format!("footprint-{nr}-{kind}-loaded"))
                .copied()
        };
        if let (Some(fewer), Some(more)) = (loaded(100), loaded(200)) {
            let each = more.saturating_sub(fewer).div_ceil(100);
            values.insert(format!("footprint-per-event-{kind}"), each);
        }
    }
}
