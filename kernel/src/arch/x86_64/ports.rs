//! The ports that tasks may use: each space has an I/O permission bitmap of its own.
//!
//! The CPUs' task state segments have addresses of their own, in every space the same, and the bitmap's place is right behind each.
//! There a space maps what its task may use, and one that may use none a page of ones. So whichever space is in force has its own
//! bitmap in force: a switch does nothing for it. The CPU reads it as the kernel would, whoever asks (Intel SDM vol. 3A, 4.6.1),
//! so no task can see or change it. IOPL is always 0.
//!
//! Source: Intel SDM vol. 1, 19.5.2 (I/O permission bitmap); vol. 3A, 8.2.3 (task state segments) and figure 8-11.

use core::cell::UnsafeCell;
use core::ops::RangeInclusive;

use takt_abi::{FIRST_REGION, REGION};
use x86_64::structures::gdt::Descriptor;
use x86_64::structures::paging::{PageTable, PageTableFlags as Flags};
use x86_64::structures::tss::TaskStateSegment;

use super::paging::{self, PAGE};
use crate::config::MAX_CPUS;

/// Where in the tasks' part of an address space the segments are: no task's region, since each has one of the first.
const SLOT: usize = 511;
const WINDOW: usize = FIRST_REGION + SLOT * REGION;

/// Pages of a CPU's segment, which may lie across their border.
const SEGMENT_PAGES: usize = 2;
/// Pages of the bitmap.
const BITMAP_PAGES: usize = 2;
/// One page more, since the CPU reads two bytes at a time.
const PAGES: usize = SEGMENT_PAGES + BITMAP_PAGES + 1;
const _: () = assert!(MAX_CPUS * PAGES <= 512, "one table");

#[repr(C, align(4096))]
struct Bitmap([u8; BITMAP_PAGES * PAGE as usize]);

/// Of one that may use none; no bitmap is longer.
static NO_PORTS: Bitmap = Bitmap([0xff; BITMAP_PAGES * PAGE as usize]);

/// The ports that a task may use.
pub struct Ports {
    table: UnsafeCell<PageTable>,
    bitmap: UnsafeCell<Bitmap>,
    ranges: &'static [RangeInclusive<u16>],
}

// SAFETY: `fill` writes it before anyone uses it.
unsafe impl Sync for Ports {}

impl Ports {
    /// These.
    #[must_use]
    pub const fn new(ranges: &'static [RangeInclusive<u16>]) -> Self {
        Self {
            table: UnsafeCell::new(PageTable::new()),
            bitmap: UnsafeCell::new(Bitmap([0; BITMAP_PAGES * PAGE as usize])),
            ranges,
        }
    }

    /// What it was made of.
    pub(crate) fn ranges(&self) -> &'static [RangeInclusive<u16>] {
        self.ranges
    }

    /// Fills it; gives the table for what [`entry`] says.
    ///
    /// # Safety
    /// No one uses it yet, after [`open`].
    pub(super) unsafe fn fill(&self) -> u64 {
        // SAFETY: no one else uses it, by the caller's promise.
        let bitmap = unsafe { &mut *self.bitmap.get() };
        bitmap.0.fill(0xff);
        for port in self.ranges.iter().cloned().flatten() {
            bitmap.0[usize::from(port) / 8] &= !(1 << (port % 8));
        }
        // SAFETY: nor the table, by the same promise.
        let table = unsafe { &mut *self.table.get() };
        // SAFETY: `open` has filled it, and nobody changes it.
        table.clone_from(unsafe { &(*OWN.0.get())[2] });
        set_bitmap(table, bitmap);
        core::ptr::from_ref(table) as u64
    }
}

/// The kernel's own tables for the segments, and the last one is that of spaces without ports.
struct Own(UnsafeCell<[PageTable; 3]>);

// SAFETY: `open` writes it before anyone uses it.
unsafe impl Sync for Own {}

static OWN: Own = Own(UnsafeCell::new([const { PageTable::new() }; 3]));

/// The entry of a space's level 2 that a table for the segments belongs to.
pub(super) const fn entry() -> usize {
    SLOT
}

/// The table of spaces without ports.
pub(super) fn none() -> u64 {
    // SAFETY: only the address is taken.
    let table = unsafe { &raw const (*OWN.0.get())[2] };
    table as u64
}

/// Maps a bitmap behind each CPU's segment.
fn set_bitmap(table: &mut PageTable, bitmap: &Bitmap) {
    let bitmap = core::ptr::from_ref(bitmap) as u64;
    for cpu in crate::compact::counted(MAX_CPUS) {
        let first = cpu * PAGES + SEGMENT_PAGES;
        paging::set(table, first, bitmap, Flags::NO_EXECUTE);
        paging::set(table, first + 1, bitmap + PAGE, Flags::NO_EXECUTE);
    }
}

/// Maps the CPUs' segments, of which `segment` gives the addresses, where the kernel's own tables are in force.
///
/// # Safety
/// Once, on the boot CPU, with the page tables that the boot code has begun in force.
pub(crate) unsafe fn open(segment: impl Fn(usize) -> *mut TaskStateSegment) {
    // SAFETY: only the boot CPU runs, and does not go by these tables yet.
    let [level3, level2, level1] = unsafe { &mut *OWN.0.get() };
    for cpu in crate::compact::counted(MAX_CPUS) {
        let page = segment(cpu) as u64 / PAGE * PAGE;
        let (first, ones) = (cpu * PAGES, &raw const NO_PORTS as u64);
        paging::set(level1, first, page, Flags::NO_EXECUTE);
        paging::set(level1, first + 1, page + PAGE, Flags::NO_EXECUTE);
        paging::set(level1, first + PAGES - 1, ones, Flags::NO_EXECUTE);
    }
    set_bitmap(level1, &NO_PORTS);
    paging::set(level2, SLOT, &raw const *level1 as u64, Flags::WRITABLE);
    paging::set(level3, 0, &raw const *level2 as u64, Flags::WRITABLE);
    // SAFETY: the caller's duty: nothing is mapped there.
    unsafe { paging::set_level4(FIRST_REGION >> 39, &raw const *level3 as u64) };
}

/// The descriptor of this CPU's segment, by its address behind which spaces have their bitmaps.
///
/// # Safety
/// It is this CPU's, which does not use it yet, after [`open`].
pub(super) unsafe fn descriptor(cpu: usize, segment: &mut TaskStateSegment) -> Descriptor {
    let offset = core::ptr::from_ref(segment) as usize % PAGE as usize;
    let base = (WINDOW + cpu * PAGES * PAGE as usize + offset) as u64;
    let bitmap = SEGMENT_PAGES * PAGE as usize - offset;
    segment.iomap_base = bitmap as u16;
    // The last byte that belongs to it: one behind the bitmap.
    let limit = (bitmap + BITMAP_PAGES * PAGE as usize) as u64;
    /// A 64-bit task state segment that is there.
    const AVAILABLE: u64 = 0x89 << 40;
    let low = limit | (base & 0xff_ffff) << 16 | AVAILABLE | (base >> 24 & 0xff) << 56;
    Descriptor::SystemSegment(low, base >> 32)
}
