//! What the latency tracers and the function tracers keep in the guest's RAM ([`LatencyBlock`], [`FunctionBlock`]): read
//! each time, so it is right whoever has set it.

use rustix::io::Errno;
use takt_tracer::control::setting::List;
use takt_tracer::control::{
    CommandView, Commands, FunctionBlock, FunctionView, LatencyBlock, LatencyView, OsnoiseBlock,
    OsnoiseView, TRACER_EVENTS, Tracer,
};
use takt_tracer::named::Named;

use super::Result;
use super::guest::Guest;
use takt_guest::functions::Selection;

/// Readings of the latency block until two in a row agree.
const TRIES: u32 = 100;
/// Threads that a set of them has bits for.
const NR_THREADS: usize = 256;

/// What function_graph could not record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphCounters {
    /// The shadow stack was full.
    pub overrun: u64,
    /// Functions that never returned.
    pub missed_returns: u64,
    /// Functions on no known stack, or inside the tracer.
    pub skipped: u64,
}

impl Guest {
    /// Whether the image has the latency tracers.
    #[must_use]
    pub fn has_latency_tracers(&self) -> bool {
        self.elf.physical(LatencyBlock::SYMBOL).is_ok()
    }

    /// What the latency tracers are set to and have found.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the image has none.
    pub fn latency(&self) -> Result<LatencyView> {
        let block = self
            .elf
            .physical(LatencyBlock::SYMBOL)
            .map_err(|_| Errno::NOENT)?;
        let read = || {
            let mut bytes = [0; LatencyView::SIZE];
            self.read(block, &mut bytes)?;
            LatencyView::decode(&bytes).ok_or(Errno::NODEV)
        };
        let mut last = read()?;
        for _ in 0..TRIES {
            let again = read()?;
            if last.nr_kept == again.nr_kept && again.nr_kept % 2 == 0 {
                return Ok(again);
            }
            last = again;
        }
        Ok(last)
    }

    /// What the tracers timerlat and osnoise are set to.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the image has none.
    pub fn osnoise(&self) -> Result<OsnoiseView> {
        let block = self
            .elf
            .physical(OsnoiseBlock::SYMBOL)
            .map_err(|_| Errno::NOENT)?;
        let mut bytes = [0; OsnoiseView::SIZE];
        self.read(block, &mut bytes)?;
        OsnoiseView::decode(&bytes).ok_or(Errno::NODEV)
    }

    fn functions(&self) -> Result<FunctionView> {
        let block = self
            .elf
            .physical(FunctionBlock::SYMBOL)
            .map_err(|_| Errno::NOENT)?;
        let mut bytes = [0; FunctionView::SIZE];
        self.read(block, &mut bytes)?;
        FunctionView::decode(&bytes).ok_or(Errno::NODEV)
    }

    /// The functions in a list, of which an image has `nr`; `None` where nothing was chosen.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the image has no function tracers.
    pub fn list(&self, list: List, nr: usize) -> Result<Option<Selection>> {
        let view = self.functions()?;
        let address = match list {
            List::Filter => view.filter,
            List::Notrace => view.notrace,
            List::GraphFilter => view.graph,
            List::GraphNotrace => view.graph_notrace,
            List::StackFilter => view.stack,
        };
        if list == List::GraphFilter && self.byte(view.has_graph)? == 0 {
            return Ok(None);
        }
        // Whole words: where nothing was chosen even the bits behind the last function are set.
        let (set, is_full) = self.bits(address, nr.next_multiple_of(64))?;
        let is_nothing = match list {
            List::Filter | List::StackFilter => is_full,
            _ => set.is_empty(),
        };
        Ok((!is_nothing).then(|| set.into_iter().filter(|id| *id < nr).collect()))
    }

    /// The threads in `set_ftrace_pid`; `None` for all.
    ///
    /// # Errors
    ///
    /// As [`Guest::list`].
    pub fn traced_threads(&self) -> Result<Option<Selection>> {
        let view = self.functions()?;
        if self.byte(view.has_pids)? == 0 {
            return Ok(None);
        }
        Ok(Some(self.bits(view.pids, NR_THREADS)?.0))
    }

    /// The commands of functions.
    ///
    /// # Errors
    ///
    /// As [`Guest::list`].
    pub fn commands(&self) -> Result<Vec<CommandView>> {
        let address = self.functions()?.commands;
        let mut bytes = vec![0; Commands::SIZE];
        self.read(self.elf.to_physical(address), &mut bytes)?;
        Ok(CommandView::all(&bytes).collect())
    }

    /// How deep function_graph looks; 0 for all the way.
    ///
    /// # Errors
    ///
    /// As [`Guest::list`].
    pub fn graph_depth(&self) -> Result<u32> {
        let depth = self.word_at(self.functions()?.max_depth)?;
        Ok(if depth == u32::MAX { 0 } else { depth })
    }

    /// The events that are on for this tracer alone, which is the current one.
    ///
    /// # Errors
    ///
    /// `EIO` if the guest's memory cannot be read.
    pub fn tracer_events(&self, tracer: &str) -> Result<Vec<&'static str>> {
        let events = Tracer::from_name(tracer).map_or(&[][..], Tracer::events);
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let address = self.elf.symbol(TRACER_EVENTS).map_err(|_| Errno::IO)?;
        let bits = self.word_at(address)?;
        let events = events.iter().enumerate();
        let ours = events.filter(|(bit, _)| bits >> bit & 1 != 0);
        Ok(ours.map(|(_, name)| *name).collect())
    }

    /// What function_graph could not record since the guest booted.
    ///
    /// # Errors
    ///
    /// As [`Guest::list`].
    pub fn graph_counters(&self) -> Result<GraphCounters> {
        let view = self.functions()?;
        let read = |address| self.u64_at(self.elf.to_physical(address)).ok_or(Errno::IO);
        Ok(GraphCounters {
            overrun: read(view.overrun)?,
            missed_returns: read(view.missed_returns)?,
            skipped: read(view.skipped)?,
        })
    }

    /// The bits of a set that are 1, and whether all are.
    fn bits(&self, address: u64, nr: usize) -> Result<(Selection, bool)> {
        let mut bytes = vec![0; nr.div_ceil(8)];
        self.read(self.elf.to_physical(address), &mut bytes)?;
        let is_set = |id: &usize| bytes[id / 8] >> (id % 8) & 1 != 0;
        let is_full = bytes.iter().all(|byte| *byte == u8::MAX);
        Ok(((0..nr).filter(is_set).collect(), is_full))
    }

    fn byte(&self, address: u64) -> Result<u8> {
        let mut byte = [0];
        self.read(self.elf.to_physical(address), &mut byte)?;
        Ok(byte[0])
    }

    fn word_at(&self, address: u64) -> Result<u32> {
        let mut word = [0; 4];
        self.read(self.elf.to_physical(address), &mut word)?;
        Ok(u32::from_le_bytes(word))
    }
}
