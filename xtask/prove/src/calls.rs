//! [`Calls`]: who calls whom, as far as the code says so by itself.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{FlowControl, OpKind, Register};

use crate::image::{Image, demangled};

/// Functions with which everything ends, besides those that can but call such a one.
const FATAL: [&str; 6] = [
    "core::panicking::",
    "rust_begin_unwind",
    "__rustc::rust_begin_unwind",
    "takt_kernel::fault::panic",
    "takt_kernel::arch::x86_64::exceptions::stop",
    "takt_kernel::machine::exit",
];

/// Who calls whom.
#[derive(Debug)]
pub(crate) struct Calls {
    /// Regions whose address is used.
    by_address: BTreeSet<u64>,
    /// Regions by what they call.
    callers: BTreeMap<u64, BTreeSet<u64>>,
    /// Where calls come back, by what is called.
    backs: BTreeMap<u64, BTreeSet<u64>>,
    /// Regions from which nobody comes back: what is called reports a fault and exits.
    fatal: BTreeSet<u64>,
    /// Regions that are called, or whose address is used.
    entered: BTreeSet<u64>,
    /// Regions that others end in.
    after: BTreeMap<u64, BTreeSet<u64>>,
}

impl Calls {
    pub(crate) fn new(image: &Image) -> Self {
        let mut entered: BTreeSet<u64> = image.taken.iter().copied().collect();
        let mut callers: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut backs: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut after: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for decoded in image.all() {
            let it = &decoded.it;
            let region = image.region(it.ip());
            let target = it.near_branch_target();
            if it.flow_control() == FlowControl::Call {
                entered.insert(target);
                callers.entry(target).or_default().insert(region);
                backs.entry(target).or_default().insert(it.next_ip());
            }
            let falls = !matches!(
                it.flow_control(),
                FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
                    | FlowControl::Return
                    | FlowControl::Exception
            );
            let jumps = matches!(
                it.flow_control(),
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
            );
            let next = (falls && !image.is_compiled(it.next_ip())).then_some(it.next_ip());
            let target = jumps.then_some(target);
            for to in next
                .into_iter()
                .chain(target)
                .chain(decoded.branch.map(|(to, _)| to))
            {
                if image.is_code(to) && image.region(to) != region {
                    after.entry(image.region(to)).or_default().insert(region);
                }
            }
        }
        Self {
            by_address: image.taken.clone(),
            callers,
            backs,
            fatal: fatal(image),
            entered,
            after,
        }
    }

    /// Whether a region is a function, which is called.
    pub(crate) fn is_function(&self, target: u64) -> bool {
        self.entered.contains(&target)
    }

    /// Where code enters a region: at its beginning, or at that of those that end in it.
    pub(crate) fn entries(&self, region: u64) -> BTreeSet<u64> {
        let mut found = self.ending_in(region);
        found.retain(|it| !self.after.contains_key(it) || self.entered.contains(it));
        found
    }

    /// Where a region comes back to: behind its calls, and those of the regions that end in it. `None` if one of them may be called
    /// from anywhere.
    pub(crate) fn backs(&self, region: u64) -> Option<BTreeSet<u64>> {
        let all = self.ending_in(region);
        if all.iter().any(|it| *it == 0 || self.is_by_address(*it)) {
            return None;
        }
        let backs = all.iter().filter_map(|it| self.backs.get(it)).flatten();
        Some(backs.copied().collect())
    }

    /// A region, and those that end in it.
    fn ending_in(&self, region: u64) -> BTreeSet<u64> {
        let mut seen = BTreeSet::new();
        let mut work = vec![region];
        while let Some(region) = work.pop() {
            if seen.insert(region) {
                work.extend(self.after.get(&region).into_iter().flatten());
            }
        }
        seen
    }

    /// Whether a region is called or jumped to by others.
    pub(crate) fn is_called(&self, region: u64) -> bool {
        self.callers.contains_key(&region) || self.after.contains_key(&region)
    }

    /// Regions that call one of these, or jump there.
    pub(crate) fn callers(&self, regions: &BTreeSet<u64>) -> BTreeSet<u64> {
        regions
            .iter()
            .flat_map(|it| [self.callers.get(it), self.after.get(it)])
            .flatten()
            .flatten()
            .copied()
            .collect()
    }

    /// Whether a function's address is used, so that it may be called from anywhere.
    pub(crate) fn is_by_address(&self, region: u64) -> bool {
        self.by_address.contains(&region)
    }

    /// Whether what begins there never comes back.
    pub(crate) fn is_fatal(&self, target: u64) -> bool {
        self.fatal.contains(&target)
    }
}

/// Where an indirect jump goes by a table of constants: all addresses of its region that stand in a row. `None` if it goes by
/// something else.
pub(crate) fn table(image: &Image, ip: u64) -> Option<Vec<u64>> {
    let it = &image.at(ip)?.it;
    let is_table = it.op_kind(0) == OpKind::Memory
        && it.memory_index() != Register::None
        && it.memory_base() == Register::None
        && it.memory_index_scale() == 8;
    if !is_table || it.flow_control() != FlowControl::IndirectBranch {
        return None;
    }
    let region = image.region(ip);
    let words = (0..).map_while(|nr| image.constant(it.memory_displacement64() + 8 * nr, 8));
    let targets: BTreeSet<_> = words
        .take_while(|to| image.is_code(*to) && image.region(*to) == region)
        .collect();
    (!targets.is_empty()).then(|| targets.into_iter().collect())
}

fn fatal(image: &Image) -> BTreeSet<u64> {
    let mut fatal: BTreeSet<u64> = image
        .regions()
        .filter(|(_, name)| {
            let name = demangled(name);
            FATAL.iter().any(|it| name.starts_with(it))
        })
        .map(|(start, _)| start)
        .collect();
    loop {
        let more: Vec<_> = image
            .regions()
            .map(|(start, _)| start)
            .filter(|start| !fatal.contains(start) && ends_fatally(image, *start, &fatal))
            .collect();
        if more.is_empty() {
            return fatal;
        }
        fatal.extend(more);
    }
}

/// Whether each way through a region, none of which goes round, ends in a call of one of those.
fn ends_fatally(image: &Image, start: u64, fatal: &BTreeSet<u64>) -> bool {
    let region = image.region(start);
    let mut work = vec![start];
    let mut nr = 0;
    let mut is_any = false;
    let mut seen = BTreeSet::new();
    while let Some(ip) = work.pop() {
        let Some(decoded) = image.at(ip) else {
            return false;
        };
        let it = &decoded.it;
        nr += 1;
        if nr > 400 || image.region(ip) != region {
            return false;
        }
        if !seen.insert(ip) {
            continue;
        }
        match it.flow_control() {
            FlowControl::Next => work.push(it.next_ip()),
            FlowControl::Call if fatal.contains(&it.near_branch_target()) => is_any = true,
            FlowControl::Call | FlowControl::IndirectCall => work.push(it.next_ip()),
            FlowControl::UnconditionalBranch if fatal.contains(&it.near_branch_target()) => {
                is_any = true
            }
            FlowControl::UnconditionalBranch if it.near_branch_target() > ip => {
                work.push(it.near_branch_target())
            }
            FlowControl::ConditionalBranch if it.near_branch_target() > ip => {
                work.extend([it.next_ip(), it.near_branch_target()])
            }
            FlowControl::Exception => {}
            _ => return false,
        }
    }
    is_any
}
