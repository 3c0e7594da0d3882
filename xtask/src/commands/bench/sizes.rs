//! What an image's sections take.

use anyhow::{Context, Result};
use object::{Object, ObjectSection, ObjectSymbol};

use super::Values;
use takt_guest::Elf;
use takt_guest::place::short;
use takt_sweep::budget::file::Functions;

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

/// The bytes of an image's functions, the most of which are parts of `-text`; those of one name together.
pub(super) fn functions(elf: &Elf) -> Result<Functions> {
    let file = object::File::parse(&*elf.data).context("the image cannot be read")?;
    let mut found = Functions::new();
    let mut counted_to = 0;
    let mut symbols: Vec<_> = file
        .symbols()
        .filter(|it| elf.is_code(it.address()) && !it.name().unwrap_or_default().is_empty())
        .collect();
    symbols.sort_by_key(|it| (it.address(), std::cmp::Reverse(it.size())));
    let addresses: Vec<_> = symbols.iter().map(ObjectSymbol::address).collect();
    for symbol in symbols {
        // Those of assembly have no size: they end where the next one begins.
        let begin = symbol.address();
        let next = addresses[addresses.partition_point(|it| *it <= begin)..].first();
        let length = match symbol.size() {
            0 => next.map_or(0, |next| next - begin),
            size => size,
        };
        // Identical functions may have been made one.
        let end = begin + length;
        let size = end.saturating_sub(begin.max(counted_to));
        counted_to = counted_to.max(end);
        let name = addr2line::demangle_auto(symbol.name().unwrap_or_default().into(), None);
        if size > 0 {
            *found.entry(short(&name)).or_default() += size;
        }
    }
    Ok(found)
}

/// What a mangled name of the tracer has in it: the modules of the kernel and the crate.
const TRACER: [&str; 8] = [
    "11takt_tracer",
    "11takt_kernel5trace",
    "takt_kernel..trace",
    "takt_tracer..",
    "6x86_6410jump_label",
    "6x86_644stop",
    "6x86_646divert",
    "6x86_6414divert_records",
];

/// What the tracer's symbols in assembly begin with.
const TRACER_ASSEMBLY: [&str; 7] = [
    "takt_rec",
    "takt_function_",
    "takt_graph_",
    "takt_irq_return_traced",
    "takt_irq_return_copy",
    "takt_irq_device_traced",
    "takt_place_",
];

/// What a mangled name of what is for rules has in it.
const RULES: [&str; 4] = [
    "5trace5rules",
    "11takt_tracer5rules",
    "11takt_tracer6filter",
    "14divert_records",
];

/// The parser of settings, which is not the tracer's: an image without a host has none.
const SETTINGS: &str = "11takt_tracer7control7setting";

/// The tracers `timerlat` and `osnoise`, which are counted apart.
const OSNOISE: &str = "5trace7osnoise";

/// What of the tracer is for rules: filters and triggers.
fn is_for_rules(name: &str) -> bool {
    let is_assembly = name.starts_with("takt_rec");
    RULES.iter().any(|part| name.contains(part))
        || is_assembly && (name.contains("_diverted") || name.ends_with("_copy"))
}

/// Notes the text of the tracer: that of its functions, wherever they come from, with and without what is for rules, and apart
/// from it that of the tracers `timerlat` and `osnoise`. What
/// was inlined into others is part of those.
pub(super) fn of_tracer(name: &str, elf: &Elf, values: &mut Values) -> Result<()> {
    let file = object::File::parse(&*elf.data).context("the image cannot be read")?;
    let text = file
        .section_by_name(".text")
        .context("the image has no text")?;
    let in_text = |symbol: &object::Symbol<'_, '_>| symbol.section_index() == Some(text.index());
    let mut symbols: Vec<_> = file.symbols().filter(in_text).collect();
    symbols.sort_by_key(ObjectSymbol::address);
    let (mut all, mut rules, mut osnoise) = (0, 0, 0);
    let mut counted_to = 0;
    for (i, symbol) in symbols.iter().enumerate() {
        let (begin, symbol_name) = (symbol.address(), symbol.name().unwrap_or_default());
        let is_rust = TRACER.iter().any(|part| symbol_name.contains(part));
        let is_assembly = || TRACER_ASSEMBLY.iter().any(|p| symbol_name.starts_with(p));
        if symbol_name.contains(SETTINGS) || !(is_rust || is_assembly()) {
            continue;
        }
        // Assembly has no sizes: up to whatever comes next.
        let next = symbols[i..].iter().map(ObjectSymbol::address);
        let end = match symbol.size() {
            0 => next.into_iter().find(|next| *next > begin).unwrap_or(begin),
            size => begin + size,
        };
        // Identical functions may have been made one.
        let size = end.saturating_sub(begin.max(counted_to));
        counted_to = counted_to.max(end);
        if symbol_name.contains(OSNOISE) {
            osnoise += size;
            continue;
        }
        all += size;
        rules += if is_for_rules(symbol_name) { size } else { 0 };
    }
    values.insert(name.into(), all);
    values.insert(format!("{name}-osnoise"), osnoise);
    values.insert(format!("{name}-without-rules"), all - rules);
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
