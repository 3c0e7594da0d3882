//! ftrace's text, and JSON lines.

use std::io::{self, Write};

use takt_decode::{Item, Names, write_header, write_item, write_json};

use super::{Export, Facts};

/// What `cat /sys/kernel/tracing/trace` would show.
pub(super) struct Text<'o> {
    out: &'o mut dyn Write,
    tracer: &'o str,
}

impl<'o> Text<'o> {
    pub(super) fn new(out: &'o mut dyn Write, tracer: &'o str) -> Self {
        Self { out, tracer }
    }
}

impl Export for Text<'_> {
    fn begin(&mut self, facts: Facts) -> io::Result<()> {
        let written = facts.in_file + facts.lost;
        let out = &mut self.out;
        write_header(out, self.tracer, facts.in_file, written, facts.nr_cpus)
    }

    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        write_item(&mut self.out, item, names)
    }
}

/// One object a line.
pub(super) struct Json<'o> {
    out: &'o mut dyn Write,
}

impl<'o> Json<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out }
    }
}

impl Export for Json<'_> {
    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        write_json(&mut self.out, item, names)
    }
}
