//! [`Marks`]: what the sources say of places in the code that the code itself does not, in a section that is not loaded
//! (`takt_kernel::arch::proof`).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use iced_x86::FlowControl;

use crate::image::Image;

/// Bytes of an entry: an address of code, and a kind.
const ENTRY: usize = 8;
/// The key by which code of several CPUs is switched on.
const SMP: &str = "takt_kernel::cpus::SMP";
/// Functions that nobody calls while one CPU runs: one of them sends an interrupt to another CPU.
const ON_SEVERAL_CPUS: [&str; 2] = [
    "takt_kernel::cpus::kick",
    "takt_kernel::lock::locked_not_ready",
];

/// What the sources say.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Jumps that go on with another thread.
    resumes: BTreeSet<u64>,
    /// Where threads go on.
    resumed: BTreeSet<u64>,
    /// Those of them that stand behind such a jump.
    behind: BTreeSet<u64>,
    /// Where nobody comes while one CPU runs.
    on_several_cpus: BTreeSet<u64>,
    /// Words behind `gs` that are never 0.
    nonzero: BTreeSet<u64>,
    /// Calls of functions that are not the kernel's: what they take comes on top.
    handlers: BTreeSet<u64>,
    /// Closed sets of what indirect branches lead to, by the branch.
    targets: BTreeMap<u64, Vec<u64>>,
    /// Static keys that are off.
    off: BTreeSet<u16>,
}

impl Marks {
    /// Reads an image's.
    ///
    /// # Errors
    ///
    /// If one fits to nothing.
    pub(crate) fn new(image: &Image) -> Result<Self> {
        let mut marks = Self::default();
        for entry in image.marks.chunks_exact(ENTRY) {
            let (address, kind) = entry.split_at(4);
            let word = |it: &[u8]| it.try_into().map_or(0, u32::from_le_bytes);
            let address = u64::from(word(address));
            ensure!(
                word(kind) == 3 || image.is_code(address),
                "a mark at {address:#x}, where there is no code"
            );
            match word(kind) {
                1 => {
                    let jumps = image
                        .at(address)
                        .is_some_and(|it| it.it.flow_control() == FlowControl::IndirectBranch);
                    ensure!(
                        jumps,
                        "a mark says that a thread is left at {address:#x}, where no jump is"
                    );
                    marks.resumes.insert(address)
                }
                2 => marks.resumed.insert(address),
                3 => marks.nonzero.insert(address),
                4 => marks.handlers.insert(address),
                kind => anyhow::bail!("a mark at {address:#x} of a kind that is not known: {kind}"),
            };
        }
        for jump in &marks.resumes {
            let behind = image.at(*jump).map(|it| it.it.next_ip());
            marks
                .behind
                .extend(behind.filter(|it| marks.resumed.contains(it)));
        }
        marks.on_several_cpus = ON_SEVERAL_CPUS
            .iter()
            .filter_map(|it| image.symbol_of(it))
            .collect();
        let smp = image.symbol_of(SMP);
        marks.off.extend(smp.map(|address| address as u16));
        Ok(marks)
    }

    /// Where an indirect jump goes on with another thread, of which nothing is known.
    pub(crate) fn resumes(&self, ip: u64) -> Option<&BTreeSet<u64>> {
        self.resumes.contains(&ip).then_some(&self.resumed)
    }

    /// Whether a thread goes on there behind the jump by which it was left.
    pub(crate) fn is_behind_switch(&self, ip: u64) -> bool {
        self.behind.contains(&ip)
    }

    /// Where an indirect branch leads.
    pub(crate) fn targets(&self, ip: u64) -> Option<&[u64]> {
        self.targets.get(&ip).map(Vec::as_slice)
    }

    /// Whether nobody comes there while one CPU runs.
    pub(crate) fn is_unreached(&self, ip: u64) -> bool {
        self.on_several_cpus.contains(&ip)
    }

    /// Whether a word behind `gs` is never 0.
    pub(crate) fn is_nonzero(&self, displacement: u64) -> bool {
        self.nonzero.contains(&displacement)
    }

    /// Whether a function is called there that is not the kernel's.
    pub(crate) fn is_handler(&self, ip: u64) -> bool {
        self.handlers.contains(&ip)
    }

    /// Whether a static key is never on.
    pub(crate) fn is_off(&self, key: u16) -> bool {
        self.off.contains(&key)
    }
}
