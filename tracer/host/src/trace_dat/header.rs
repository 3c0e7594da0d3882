//! What stands before the pages.

use std::collections::BTreeMap;

const MAGIC: &[u8] = b"\x17\x08\x44tracing6\0";
const LITTLE_ENDIAN: u8 = 0;
const LONG_SIZE: u8 = 8;

/// How a page begins.
const HEADER_PAGE: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
";

/// How an entry of a page begins.
const HEADER_EVENT: &str = "\
# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";

/// An event's description.
#[derive(Debug)]
pub(super) struct Part<'p> {
    /// The event's system.
    pub(super) system: &'p str,
    /// Its `format` text.
    pub(super) text: String,
}

/// What stands before the pages.
#[derive(Debug)]
pub(super) struct Header<'p> {
    /// The events.
    pub(super) parts: Vec<Part<'p>>,
    /// The symbols, a line each.
    pub(super) kallsyms: String,
    /// The names of threads, a line each.
    pub(super) cmdlines: String,
    /// Bytes of each CPU's pages.
    pub(super) sizes: Vec<u64>,
}

impl Header<'_> {
    /// The bytes, up to where the pages of the first CPU begin.
    pub(super) fn encode(&self, page: u64) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([LITTLE_ENDIAN, LONG_SIZE]);
        put32(&mut out, page as usize);
        for (name, text) in [("header_page", HEADER_PAGE), ("header_event", HEADER_EVENT)] {
            put_name(&mut out, name);
            put_text64(&mut out, text);
        }
        // ftrace's own events, of which there are none.
        put32(&mut out, 0);
        let mut systems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for part in &self.parts {
            systems.entry(part.system).or_default().push(&part.text);
        }
        put32(&mut out, systems.len());
        for (system, texts) in systems {
            put_name(&mut out, system);
            put32(&mut out, texts.len());
            for text in texts {
                put_text64(&mut out, text);
            }
        }
        put32(&mut out, self.kallsyms.len());
        out.extend(self.kallsyms.bytes());
        // Formats of printk, of which there are none.
        put32(&mut out, 0);
        put_text64(&mut out, &self.cmdlines);
        put32(&mut out, self.sizes.len());
        put_name(&mut out, "options  ");
        out.extend(0u16.to_le_bytes());
        put_name(&mut out, "flyrecord");
        let places = out.len() as u64 + 16 * self.sizes.len() as u64;
        let mut at = places.next_multiple_of(page);
        for size in &self.sizes {
            out.extend(at.to_le_bytes());
            out.extend(size.to_le_bytes());
            at += size;
        }
        out.resize(out.len().next_multiple_of(page as usize), 0);
        out
    }
}

fn put32(out: &mut Vec<u8>, number: usize) {
    out.extend((number as u32).to_le_bytes());
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.extend(name.bytes());
    out.push(0);
}

fn put_text64(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.bytes());
}
