//! [`Session`]: a guest, and what is remembered between accesses.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use rustix::io::Errno;
use takt_decode::{EventTable, TscClock};
use takt_tracer::control::Setting;
use takt_tracer::control::{ControlView, MAX_CPUS};

use super::buffer::{Position, Progress};
use super::counts::{Counts, counts, entries_before};
use super::errors::ErrorLog;
use super::guest::Guest;
use super::tree::Of;
use super::{buffer, files, render};
use takt_guest::events;
use takt_guest::functions::Functions;
use takt_guest::options::Options;
use takt_guest::patterns::Known;
use takt_guest::symbolize::{Inlined, SymbolNames};
use takt_guest::words;
use takt_host::graph::Graph;

/// A guest whose tracer is looked at.
#[derive(Debug)]
pub struct Session {
    /// The guest.
    pub guest: Guest,
    /// How a trace is shown.
    pub options: Options,
    pub(super) table: Arc<EventTable>,
    pub(super) symbols: Arc<SymbolNames>,
    /// What is inlined in them.
    pub(super) inlined: Arc<Inlined>,
    /// The functions that can be traced, if the image has the tracers for it.
    pub(super) functions: Option<Arc<Functions>>,
    /// The list that is being written.
    open: Option<Open>,
    /// What the pipes have shown of function_graph so far.
    pub(super) graph: Graph<Vec<u8>>,
    /// The events that have a name.
    pub(super) known: Vec<Known>,
    /// The name of the clock that was chosen.
    pub(super) clock: &'static str,
    pub(super) errors: ErrorLog,
    /// The filters that were refused since one was accepted there, and what is wrong with them.
    pub(super) refused: BTreeMap<Of, String>,
    /// How far the pipes have read, on each CPU.
    pub(super) consumed: [Progress; MAX_CPUS],
    /// Events that the pipes have read, on each CPU.
    pub(super) nr_read: [u64; MAX_CPUS],
    /// The counters when the trace was last cleared.
    pub(super) cleared: [Counts; MAX_CPUS],
}

/// A list that is being written.
#[derive(Debug)]
struct Open {
    file: &'static str,
    /// It was opened with `>` and not written yet: what is written replaces what there was.
    is_truncated: bool,
    /// What was written without a newline behind it.
    rest: String,
}

/// A pipe that is open.
#[derive(Clone, Copy, Debug)]
pub struct OpenPipe {
    /// How often a tracer was chosen before.
    nr_chosen: u32,
    /// Something was read.
    has_read: bool,
}

/// What reading a pipe comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piped {
    /// Something new.
    Text(Vec<u8>),
    /// Nothing new.
    Nothing,
    /// Nothing new, and there will be none: the tracer has changed since the pipe was opened, or the guest has ended.
    End,
}

impl Session {
    /// Looks at `guest`.
    ///
    /// # Errors
    ///
    /// If the image's event descriptions cannot be read.
    pub fn new(guest: Guest, options: Options) -> Result<Self> {
        let table = events::table(&guest.elf)?;
        let known = words::known(&table)
            .into_iter()
            .filter(|event| guest.has_event(event.id))
            .collect();
        Ok(Self {
            functions: Functions::of(&guest.elf).ok().map(Arc::new),
            open: None,
            graph: Graph::default(),
            symbols: Arc::new(SymbolNames::new(&guest.elf)),
            inlined: Arc::new(Inlined::new(&guest.elf)),
            table: Arc::new(table),
            known,
            guest,
            options,
            clock: files::CLOCK,
            errors: ErrorLog::default(),
            refused: BTreeMap::new(),
            consumed: [Progress::default(); MAX_CPUS],
            nr_read: [0; MAX_CPUS],
            cleared: [Counts::default(); MAX_CPUS],
        })
    }

    /// The guest's state.
    pub(super) fn view(&self) -> super::Result<ControlView> {
        self.guest.view()
    }

    /// The name of the current tracer.
    pub(super) fn tracer(&self) -> super::Result<String> {
        let view = self.view()?;
        let name = view.tracers().nth(view.tracer as usize);
        Ok(name.unwrap_or("nop").to_owned())
    }

    /// The guest's time, in nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        self.view()
            .map_or(0, |view| TscClock::new(view.tsc_hz).ns(view.now))
    }

    /// Carries out a setting that was written to `file` as `command`, and notes an error at byte `at` of it.
    pub(super) fn set(
        &mut self,
        setting: Setting<'_>,
        file: &str,
        command: &str,
        at: usize,
        what: &str,
    ) -> super::Result<()> {
        let done = self.guest.set(setting);
        if done == Err(Errno::INVAL) {
            self.complain(file, command, at, what);
        }
        done
    }

    /// A list was opened with `>`. Not emptied yet: in between, every function would be traced.
    pub(super) fn truncate(&mut self, file: &'static str) -> super::Result<()> {
        self.close()?;
        self.open = Some(Open {
            file,
            is_truncated: true,
            rest: String::new(),
        });
        Ok(())
    }

    /// A list is written: `choose` is told whether it replaces what there was, and its whole lines with what was left of the
    /// write before. What is behind the last of them waits: writers cut names. What is written next is added.
    ///
    /// # Errors
    ///
    /// What closing another list says, and `choose`'s.
    pub(super) fn write_list(
        &mut self,
        file: &'static str,
        text: &str,
        choose: impl FnOnce(&mut Self, bool, &str) -> super::Result<()>,
    ) -> super::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.file != file) {
            self.close()?;
        }
        let open = self.open.get_or_insert_with(|| Open {
            file,
            is_truncated: false,
            rest: String::new(),
        });
        open.rest.push_str(text);
        let end = open.rest.rfind('\n').map_or(0, |at| at + 1);
        let behind = open.rest.split_off(end);
        let lines = std::mem::replace(&mut open.rest, behind);
        if lines.is_empty() {
            return Ok(());
        }
        let is_new = open.is_truncated;
        let done = choose(self, is_new, &lines);
        if let Some(open) = &mut self.open {
            open.is_truncated = false;
        }
        done
    }

    /// A writer has closed this file.
    ///
    /// # Errors
    ///
    /// As [`Session::close`].
    pub fn close_file(&mut self, path: &str) -> super::Result<()> {
        match &self.open {
            Some(open) if open.file == path => self.close(),
            _ => Ok(()),
        }
    }

    /// A file was closed: a list is given what still waits, or is empty if it was opened with `>` and not written.
    ///
    /// # Errors
    ///
    /// Whatever the guest says; `EINVAL` for a name that is none.
    pub fn close(&mut self) -> super::Result<()> {
        match self.open.take() {
            Some(open) if open.is_truncated || !open.rest.is_empty() => {
                files::finish_list(self, open.file, open.is_truncated, &open.rest)
            }
            _ => Ok(()),
        }
    }

    /// Notes an error.
    pub(super) fn complain(&mut self, file: &str, command: &str, at: usize, what: &str) {
        let now = self.now_ns();
        self.errors.add(now, file, command, at, what);
    }

    /// The CPUs that have a ring.
    pub(super) fn cpus(view: &ControlView) -> impl Iterator<Item = usize> + use<> {
        0..(view.nr_cpus as usize).clamp(1, MAX_CPUS)
    }

    /// Empties the rings.
    pub(super) fn clear(&mut self) -> super::Result<()> {
        self.guest.set(Setting::Clear(()))?;
        let view = self.view()?;
        for cpu in Self::cpus(&view) {
            if let Some(ring) = self.guest.ring(&view, cpu) {
                let begin = buffer::live_start(&ring)?;
                let mut cleared = counts(&ring, &view)?;
                // Where the guest has filled the ring meanwhile, what it has overwritten counts as cleared as well.
                if let Some(entries) = entries_before(&ring, &view, begin)? {
                    cleared.entries = entries;
                }
                self.cleared[cpu] = cleared;
                // Whoever goes on reading misses nothing.
                let begin = Position {
                    seq: begin,
                    index: 0,
                };
                let consumed = &mut self.consumed[cpu];
                if consumed.place < begin {
                    *consumed = Progress {
                        place: begin,
                        entries: cleared.entries,
                        // As the sub-buffers' headers count.
                        lost: Some((cleared.dropped + cleared.commit_overrun) as u32),
                    };
                }
            }
            self.nr_read[cpu] = 0;
        }
        Ok(())
    }

    /// Opens a pipe.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the guest has ended.
    pub fn open_pipe(&self) -> super::Result<OpenPipe> {
        Ok(OpenPipe {
            nr_chosen: self.view()?.nr_chosen,
            has_read: false,
        })
    }

    /// Reads a pipe: of one CPU or of all. It ends when another tracer is chosen, and where nothing is recorded any more once
    /// something was read, as Linux's does.
    ///
    /// # Errors
    ///
    /// If the guest's memory cannot be read.
    pub fn pipe(&mut self, cpu: Option<usize>, opened: &mut OpenPipe) -> super::Result<Piped> {
        // Asked before reading, so that nothing that came before the end is missed.
        let is_alive = self.guest.is_alive();
        let view = self.view()?;
        let text = render::pipe(self, &view, cpu)?;
        let is_over = view.nr_chosen != opened.nr_chosen || !view.is_on && opened.has_read;
        opened.has_read |= !text.is_empty();
        Ok(match text {
            text if !text.is_empty() => Piped::Text(files::shown(self, text)),
            _ if is_over || !is_alive => match render::pipe_rest(self)? {
                rest if !rest.is_empty() => Piped::Text(files::shown(self, rest)),
                _ => Piped::End,
            },
            _ => Piped::Nothing,
        })
    }
}
