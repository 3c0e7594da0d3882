//! The kernel's modules have an order: none imports one that imports it, by whatever way round.
//!
//! `cargo` does not check that within a crate. What a module imports is every path in it that begins with `crate`, `super`,
//! `self` or the name of a module below it. What assembly calls by name is no import: a place calls the hook that a tracer
//! provides, and so on.
//!
//! Nor has it more unsafe blocks than a limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module's path within the crate; the crate itself is empty.
type Module = Vec<String>;
/// What each module imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Reads the sources below a folder.
fn read(folder: &Path, above: &Module, into: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("the kernel's sources") {
        let path = entry.expect("an entry of a folder").path();
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a name");
        let mut module = above.clone();
        if !matches!(stem, "mod" | "lib") {
            module.push(stem.to_owned());
        }
        // `arch` shows what is in the one machine that there is.
        let is_shown = module == ["arch", "x86_64"];
        if path.is_dir() {
            read(&path, if is_shown { above } else { &module }, into);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            into.entry(module).or_default().push_str(&text);
        }
    }
}

/// Looks for paths in the tokens of a module, `inner` inline modules down.
struct Search<'a> {
    sources: &'a BTreeMap<Module, String>,
    module: &'a Module,
    found: BTreeSet<Module>,
}

impl Search<'_> {
    fn walk(&mut self, tokens: TokenStream, inner: usize) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let before = at.checked_sub(1).and_then(|at| tokens.get(at));
            match token {
                // `pub(in crate::x)` says who may import, and imports nothing.
                TokenTree::Group(group)
                    if group.delimiter() == Delimiter::Parenthesis && is(before, "pub") => {}
                TokenTree::Group(group) => {
                    let names_module = at >= 2 && is(tokens.get(at - 2), "mod");
                    self.walk(group.stream(), inner + usize::from(names_module));
                }
                TokenTree::Ident(first) if !is_punct(before, '$') && !is_punct(before, ':') => {
                    let first = first.to_string();
                    if let Some(base) = self.base(&first, inner)
                        && let Some(rest) = behind_colons(&tokens, at + 1)
                    {
                        self.path(&base, &tokens[rest..]);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Where a path that begins with this word begins.
    fn base(&self, first: &str, inner: usize) -> Option<Module> {
        let mut own = self.module.clone();
        let below = || {
            let mut below = own.clone();
            below.push(first.to_owned());
            self.sources.contains_key(&below).then_some(below)
        };
        match first {
            "crate" => Some(Vec::new()),
            "self" => Some(own),
            "super" if inner == 0 => {
                own.pop();
                Some(own)
            }
            "super" => Some(own),
            _ => below(),
        }
    }

    /// The rest of a path, which may be several in braces.
    fn path(&mut self, base: &Module, rest: &[TokenTree]) {
        match rest.first() {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let parts: Vec<_> = group.stream().into_iter().collect();
                for part in parts.split(|token| is_punct(Some(token), ',')) {
                    self.path(base, part);
                }
            }
            Some(TokenTree::Ident(word)) => {
                let mut base = base.clone();
                match word.to_string().as_str() {
                    "super" => {
                        base.pop();
                    }
                    "self" => {}
                    word => base.push(word.to_owned()),
                }
                match behind_colons(rest, 1) {
                    Some(at) => self.path(&base, &rest[at..]),
                    None => self.end(base),
                }
            }
            _ => self.end(base.clone()),
        }
    }

    /// The module that a path leads to, or that what it leads to is in. A macro is in none: `crate::trace_event!`.
    fn end(&mut self, mut path: Module) {
        while !self.sources.contains_key(&path) {
            path.pop();
        }
        if !path.is_empty() && path != *self.module {
            self.found.insert(path);
        }
    }
}

fn is(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(it)) if it == word)
}

fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(it)) if it.as_char() == sign)
}

/// The place behind `::`, if that stands there.
fn behind_colons(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let both = is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':');
    both.then_some(at + 2)
}

fn imports(sources: &BTreeMap<Module, String>) -> Imports {
    let of = |(module, text): (&Module, &String)| {
        let mut search = Search {
            sources,
            module,
            found: BTreeSet::new(),
        };
        let tokens = text.parse().expect("Rust");
        search.walk(tokens, 0);
        (module.clone(), search.found)
    };
    sources.iter().map(of).collect()
}

/// A way from a module back to itself, if there is one.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    fn follow<'i>(
        imports: &'i Imports,
        module: &'i Module,
        way: &mut Vec<&'i Module>,
        done: &mut BTreeSet<&'i Module>,
    ) -> bool {
        let is_met = way.contains(&module);
        way.push(module);
        if is_met {
            return true;
        }
        if done.insert(module) {
            let below = imports.get(module).into_iter().flatten();
            for next in below {
                if follow(imports, next, way, done) {
                    return true;
                }
            }
        }
        way.pop();
        false
    }
    let mut done = BTreeSet::new();
    for module in imports.keys() {
        let mut way = Vec::new();
        if follow(imports, module, &mut way, &mut done) {
            let last = way.pop()?;
            let begin = way.iter().position(|it| *it == last)?;
            let names = way[begin..].iter().map(|it| it.join("::"));
            return Some(names.collect());
        }
    }
    None
}

#[test]
fn the_kernels_modules_import_each_other_in_one_direction() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/src");
    let mut sources = BTreeMap::new();
    read(&folder, &Vec::new(), &mut sources);
    assert!(sources.len() > 80, "{} modules", sources.len());
    let imports = imports(&sources);
    // Some that have to be seen.
    for (from, to) in [
        ("switch", "section"),
        ("expiry", "quantum"),
        ("thread::create", "thread::tcb"),
        ("arch::entry", "irq"),
    ] {
        let path = |name: &str| name.split("::").map(str::to_owned).collect::<Module>();
        assert!(
            imports[&path(from)].contains(&path(to)),
            "{from} imports {to}: {:?}",
            imports[&path(from)]
        );
    }
    assert_eq!(circle(&imports), None, "each imports the next one");
    let page = include_str!("../../docs/KERNEL.md");
    let table = page.lines().filter(|line| line.starts_with("| "));
    let table: String = table
        .take_while(|line| !line.starts_with("| for "))
        .collect();
    for module in sources.keys().filter(|module| module.len() == 1) {
        let name = &module[0];
        assert!(
            table.contains(&format!("`{name}`")) || table.contains(&format!("`{name}::")),
            "docs/KERNEL.md has no layer for `{name}`"
        );
    }
}

/// How many unsafe blocks there may be without feature `tasks`, whatever macros make of them.
const MAX_UNSAFE: usize = 250;
/// How many more there may be with it.
const MAX_UNSAFE_OF_TASKS: usize = 95;

/// Counts the unsafe blocks in tokens, but for what feature `tasks` alone has; gives those modules to `skipped`.
fn unsafe_blocks(tokens: TokenStream, skipped: &mut BTreeSet<String>) -> usize {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let (mut at, mut nr) = (0, 0);
    while let Some(token) = tokens.get(at) {
        if let TokenTree::Group(group) = token {
            let is_attribute = is_punct(at.checked_sub(1).and_then(|at| tokens.get(at)), '#');
            let text = group.stream().to_string();
            if is_attribute
                && text.starts_with("cfg")
                && text.contains("feature = \"tasks\"")
                && !text.contains("not")
            {
                at = behind_item(&tokens, at + 1, skipped);
                continue;
            }
            let is_block = group.delimiter() == Delimiter::Brace;
            nr += usize::from(is_block && is(tokens.get(at.wrapping_sub(1)), "unsafe"));
            nr += unsafe_blocks(group.stream(), skipped);
        }
        at += 1;
    }
    nr
}

/// Where the item or the field ends that begins here.
fn behind_item(tokens: &[TokenTree], begin: usize, skipped: &mut BTreeSet<String>) -> usize {
    let mut has_generics = false;
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        has_generics |= ["fn", "impl"].iter().any(|word| is(Some(token), word));
        if is(Some(token), "mod")
            && let Some(TokenTree::Ident(name)) = tokens.get(at + 1)
        {
            skipped.insert(name.to_string());
        }
        let is_body = matches!(token, TokenTree::Group(it) if it.delimiter() == Delimiter::Brace);
        let is_end = is_punct(Some(token), ';') || is_punct(Some(token), ',') && !has_generics;
        if is_body || is_end {
            return at + 1;
        }
    }
    tokens.len()
}

#[test]
fn the_kernel_has_few_unsafe_blocks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/src");
    let mut sources = BTreeMap::new();
    read(&folder, &Vec::new(), &mut sources);
    let mut skipped = BTreeSet::new();
    let counts: Vec<_> = sources
        .iter()
        .map(|(module, text)| {
            (
                module,
                unsafe_blocks(text.parse().expect("Rust"), &mut skipped),
            )
        })
        .collect();
    let is_there = |module: &Module| !module.iter().any(|name| skipped.contains(name));
    let nr: usize = counts
        .iter()
        .filter(|(module, _)| is_there(module))
        .map(|(_, nr)| nr)
        .sum();
    assert!(
        skipped.contains("task") && skipped.contains("ring3"),
        "{skipped:?}"
    );
    let all: usize = sources
        .values()
        .map(|text| text.replace("\"tasks\"", "\"\"").parse())
        .map(|tokens| unsafe_blocks(tokens.expect("Rust"), &mut BTreeSet::new()))
        .sum();
    for (nr, limit) in [(nr, MAX_UNSAFE), (all - nr, MAX_UNSAFE_OF_TASKS)] {
        assert!(nr <= limit, "{nr} unsafe blocks, and not {limit}");
        assert!(nr > limit - 20, "{nr} unsafe blocks: the limit is too high");
    }
}

/// Where an unsafe block may hide, and what is none.
#[test]
fn every_unsafe_block_is_seen() {
    let nr = |text: &str| unsafe_blocks(text.parse().expect("Rust"), &mut BTreeSet::new());
    for text in [
        "fn f() { unsafe { g() } }",
        "macro_rules! m { () => { unsafe { g() } } }",
        "unsafe fn f() { let x = h(unsafe { g() }); }",
        "#[cfg(feature = \"tasks\")] fn f<A, B>(a: A, b: B) { unsafe { g() } } fn h() { unsafe { g() } }",
        "struct S { #[cfg(feature = \"tasks\")] a: u8, b: [u8; unsafe { N }] }",
    ] {
        assert_eq!(nr(text), 1, "{text}");
    }
    for text in [
        "/// unsafe { g() }\nunsafe fn f() {}",
        "unsafe impl Sync for X {}",
        "#[cfg(feature = \"tasks\")]\n// SAFETY: so.\nunsafe { g() };",
    ] {
        assert_eq!(nr(text), 0, "{text}");
    }
}

/// In sources that are made up, each way to write an import closes the circle.
#[test]
fn every_way_to_import_is_seen() {
    let named = |name: &str, text: &str| {
        let module = name.split("::").filter(|it| !it.is_empty());
        (module.map(str::to_owned).collect(), text.to_owned())
    };
    let with = |text: &str| {
        let sources = BTreeMap::from([
            named("", "pub mod a; mod b;"),
            named("a", "pub mod inner; pub fn f() {}"),
            named("a::inner", "use crate::b::g;"),
            named("b", text),
        ]);
        circle(&imports(&sources))
    };
    let both = Some(vec!["a::inner".to_owned(), "b".to_owned()]);
    for text in [
        "use crate::a::inner::X;",
        "use crate::{c, a::{f, inner as other}};",
        "use super::a::{self, inner::*};",
        "fn g() { crate::a::inner::f() }",
        "asm!(sym crate::a::inner::f);",
        "macro_rules! m { () => { $x::y(crate::a::inner::f) } }",
        "mod tests { use super::super::a::inner; }",
    ] {
        assert_eq!(with(text), both, "{text}");
    }
    for text in [
        "",
        "use crate::a::f;",
        "// use crate::a::inner::X;",
        "pub(in crate::a::inner) fn g() {}",
        "macro_rules! m { () => { $crate::a::inner::f() } }",
        "const TEXT: &str = \"crate::a::inner::f\";",
    ] {
        assert_eq!(with(text), None, "{text}");
    }
    let below = BTreeMap::from([
        named("a", "pub use inner::X; pub struct Y;"),
        named("a::inner", "use super::Y;"),
    ]);
    assert!(circle(&imports(&below)).is_some());
}
