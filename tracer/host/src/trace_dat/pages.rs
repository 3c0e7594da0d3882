//! A CPU's records in pages of ftrace's ring buffer.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// Bytes before its data: time stamp and commit word.
const PAGE_HEADER: usize = 16;
/// Bytes of the number of lost events, which stands behind the data.
const STORED: usize = 8;

/// Bits of the commit word: events are missing before this page; their number is stored.
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Bits of an entry's header for its kind; the rest is the time since the entry before.
const TYPE_BITS: u32 = 5;
const DELTA_BITS: u32 = 27;
const TIME_EXTEND: u32 = 30;
/// The longest payload whose length stands in the kind, in words.
const MAX_SHORT: usize = 28;

/// What is missing before a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lost {
    events: u64,
    sub_buffers: u64,
}

impl Lost {
    /// The bits for the commit word. The number is known only if no whole sub-buffer is missing.
    fn bits(self) -> u64 {
        match self {
            Self {
                events: 0,
                sub_buffers: 0,
            } => 0,
            Self { sub_buffers: 0, .. } => MISSED_EVENTS | MISSED_STORED,
            _ => MISSED_EVENTS,
        }
    }
}

/// A CPU.
#[derive(Debug)]
pub(super) struct Lane {
    spool: BufWriter<File>,
    nr_pages: u64,
    /// The data of the page in the making.
    data: Vec<u8>,
    /// Its time, and that of its last record, in ns.
    begin: u64,
    last: u64,
    /// What is missing before it.
    lost: Lost,
    lost_at: u64,
}

impl Lane {
    /// An empty one, whose pages go to a nameless file in `dir`.
    pub(super) fn new(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            spool: BufWriter::new(tempfile::tempfile_in(dir)?),
            nr_pages: 0,
            data: Vec::with_capacity(PAGE),
            begin: 0,
            last: 0,
            lost: Lost::default(),
            lost_at: 0,
        })
    }

    /// Adds a record.
    pub(super) fn record(&mut self, ns: u64, payload: &[u8]) -> io::Result<()> {
        // A delta has no sign: where a damaged trace goes back in time, a page begins.
        if self.data.is_empty() || ns < self.last {
            self.begin_page(ns)?;
        }
        let begin = self.data.len();
        self.encode(ns, payload);
        if self.data.len() > self.room() && begin > 0 {
            self.data.truncate(begin);
            self.begin_page(ns)?;
            self.encode(ns, payload);
        }
        if self.data.len() > self.room() {
            return Err(io::Error::other(format!(
                "a record of {} bytes is longer than a page of trace.dat",
                payload.len()
            )));
        }
        self.last = ns;
        Ok(())
    }

    /// Notes that something is missing before the next record.
    pub(super) fn lost(&mut self, ns: u64, events: u64, sub_buffers: u64) -> io::Result<()> {
        self.flush()?;
        self.lost.events = self.lost.events.saturating_add(events);
        self.lost.sub_buffers = self.lost.sub_buffers.saturating_add(sub_buffers);
        self.lost_at = ns;
        Ok(())
    }

    /// Ends it. A loss without a record behind it becomes an event of its own, of this id.
    pub(super) fn finish(&mut self, lost_id: u16) -> io::Result<()> {
        self.flush()?;
        if self.lost != Lost::default() {
            let lost = std::mem::take(&mut self.lost);
            self.record(self.lost_at.max(self.last), &lost_payload(lost_id, lost))?;
            self.flush()?;
        }
        self.spool.flush()
    }

    /// Bytes of its pages.
    pub(super) fn size(&self) -> u64 {
        self.nr_pages * PAGE as u64
    }

    /// The file with its pages.
    pub(super) fn spool(&mut self) -> io::Result<&mut File> {
        self.spool.flush()?;
        Ok(self.spool.get_mut())
    }

    /// Bytes of data that the page has room for.
    fn room(&self) -> usize {
        let stored = if self.lost.bits() & MISSED_STORED != 0 {
            STORED
        } else {
            0
        };
        PAGE - PAGE_HEADER - stored
    }

    fn begin_page(&mut self, ns: u64) -> io::Result<()> {
        self.flush()?;
        self.begin = ns;
        self.last = ns;
        Ok(())
    }

    fn encode(&mut self, ns: u64, payload: &[u8]) {
        let out = &mut self.data;
        let words = payload.len().div_ceil(4);
        let mut delta = ns - self.last;
        if delta >> DELTA_BITS != 0 {
            out.extend(head(TIME_EXTEND, delta).to_le_bytes());
            out.extend(((delta >> DELTA_BITS) as u32).to_le_bytes());
            delta = 0;
        }
        if (1..=MAX_SHORT).contains(&words) {
            out.extend(head(words as u32, delta).to_le_bytes());
        } else {
            out.extend(head(0, delta).to_le_bytes());
            // This word counts too.
            out.extend((4 * words as u32 + 4).to_le_bytes());
        }
        let end = out.len() + 4 * words;
        out.extend(payload);
        out.resize(end, 0);
    }

    /// Writes the page in the making, if there is anything in it.
    fn flush(&mut self) -> io::Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let lost = std::mem::take(&mut self.lost);
        let commit = self.data.len() as u64 | lost.bits();
        if lost.bits() & MISSED_STORED != 0 {
            self.data.extend(lost.events.to_le_bytes());
        }
        self.data.resize(PAGE - PAGE_HEADER, 0);
        self.spool.write_all(&self.begin.to_le_bytes())?;
        self.spool.write_all(&commit.to_le_bytes())?;
        self.spool.write_all(&self.data)?;
        self.data.clear();
        self.nr_pages += 1;
        Ok(())
    }
}

/// The header of an entry.
fn head(kind: u32, delta: u64) -> u32 {
    kind | (delta as u32) << TYPE_BITS
}

/// The description of the event for a loss at the end.
pub(super) fn lost_format(name: &str, id: u16) -> String {
    format!(
        "name: {name}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
         \tfield:u64 events;\toffset:8;\tsize:8;\tsigned:0;\n\
         \tfield:u64 sub_buffers;\toffset:16;\tsize:8;\tsigned:0;\n\n\
         print fmt: \"events=%llu sub_buffers=%llu\", REC->events, REC->sub_buffers\n"
    )
}

fn lost_payload(id: u16, lost: Lost) -> Vec<u8> {
    let mut out = id.to_le_bytes().to_vec();
    out.resize(8, 0);
    out.extend(lost.events.to_le_bytes());
    out.extend(lost.sub_buffers.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Lane {
        Lane::new(&std::env::temp_dir()).unwrap()
    }

    fn pages(mut lane: Lane) -> Vec<Vec<u8>> {
        use std::io::{Read, Seek};
        lane.finish(7).unwrap();
        let size = lane.size();
        let mut bytes = Vec::new();
        let spool = lane.spool().unwrap();
        spool.rewind().unwrap();
        spool.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, size);
        bytes.chunks(PAGE).map(<[u8]>::to_vec).collect()
    }

    fn word(page: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(page[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn a_page_has_its_time_its_length_and_its_entries() {
        let mut lane = lane();
        lane.record(1000, &[1; 8]).unwrap();
        lane.record(1005, &[2; 116]).unwrap();
        lane.record(1005 + (1 << 27), &[3; 4]).unwrap();
        let pages = pages(lane);
        let [page] = &pages[..] else {
            panic!("{} pages", pages.len())
        };
        assert_eq!((word(page, 0), word(page, 8)), (1000, 12 + 124 + 16));
        assert_eq!(page[16..20], 2u32.to_le_bytes());
        assert_eq!(page[28..32], (5u32 << 5).to_le_bytes());
        assert_eq!(page[32..36], 120u32.to_le_bytes());
        assert_eq!(page[152..160], [30, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(page[160..164], 1u32.to_le_bytes());
    }

    #[test]
    fn a_loss_begins_a_page_and_stores_its_number() {
        let mut lane = lane();
        lane.record(1, &[1; 8]).unwrap();
        lane.lost(2, 5, 0).unwrap();
        lane.lost(2, 12, 0).unwrap();
        lane.record(3, &[1; 8]).unwrap();
        lane.lost(4, 0, 2).unwrap();
        lane.record(5, &[1; 8]).unwrap();
        lane.lost(6, 1, 0).unwrap();
        let pages = pages(lane);
        assert_eq!(pages.len(), 4);
        let commits: Vec<_> = pages.iter().map(|page| word(page, 8)).collect();
        assert_eq!(commits, [12, 12 | 3 << 30, 12 | 1 << 31, 28]);
        assert_eq!(word(&pages[1], 16 + 12), 17);
        // The last one is an event of its own.
        assert_eq!(pages[3][20], 7);
        assert_eq!(word(&pages[3], 28), 1);
    }

    #[test]
    fn full_pages_follow_each_other_and_so_does_a_step_back_in_time() {
        let mut lane = lane();
        for n in 0..1000 {
            lane.record(n, &[0; 12]).unwrap();
        }
        lane.record(3, &[0; 12]).unwrap();
        let pages = pages(lane);
        assert_eq!(pages.len(), 1000_usize.div_ceil(255) + 1);
        assert_eq!(word(&pages[1], 0), 255);
        assert_eq!(word(pages.last().unwrap(), 0), 3);
    }
}
