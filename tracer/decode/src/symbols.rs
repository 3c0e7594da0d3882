//! The names of places in the code.

use std::cell::RefCell;
use std::collections::HashMap;

use super::put;

/// More names than these are not kept at a time: how many there are is up to the trace.
const MAX_KEPT: usize = 1 << 16;

/// What is at an address, as whoever has the image says.
type Lookup = Box<dyn Fn(u64) -> Option<String>>;

/// Names of addresses. What was looked up is kept: the places of a trace come again and again.
#[derive(Default)]
pub(super) struct Symbols {
    lookup: Option<Lookup>,
    kept: RefCell<HashMap<u64, Symbol>>,
}

/// A symbol, as it is shown.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    text: Box<str>,
    /// Where its name ends, and where what stands behind the offset begins.
    name: usize,
    behind: usize,
}

impl Symbols {
    /// With names by `lookup`.
    pub(super) fn new(lookup: impl Fn(u64) -> Option<String> + 'static) -> Self {
        Self {
            lookup: Some(Box::new(lookup)),
            kept: RefCell::default(),
        }
    }

    /// The symbol at an address, or the address.
    pub(super) fn with<T>(&self, address: u64, show: impl FnOnce(&Symbol) -> T) -> T {
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= MAX_KEPT && !kept.contains_key(&address) {
            kept.clear();
        }
        let symbol = kept.entry(address).or_insert_with(|| {
            let found = self.lookup.as_ref().and_then(|lookup| lookup(address));
            let address = || put::alone(|out| put::hex(out, address));
            Symbol::new(found.unwrap_or_else(address))
        });
        show(symbol)
    }
}

impl Symbol {
    fn new(text: String) -> Self {
        let (name, behind) = match text.rfind("+0x") {
            None => (text.len(), text.len()),
            Some(at) => {
                let behind = text[at..].find(" <").map_or(text.len(), |len| at + len);
                (at, behind)
            }
        };
        Self {
            text: text.into(),
            name,
            behind,
        }
    }

    /// All of it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Its name, how far into it that is (`+0x4` or `+0x4/0x20`, or nothing), and what stands behind, such as the address.
    pub(super) fn parts(&self) -> (&str, &str, &str) {
        let (rest, behind) = self.text.split_at(self.behind);
        let (name, place) = rest.split_at(self.name);
        (name, place, behind)
    }

    /// It without how far into it that is.
    pub(super) fn put_function(&self, out: &mut String) {
        let (name, _, behind) = self.parts();
        out.push_str(name);
        out.push_str(behind);
    }
}
