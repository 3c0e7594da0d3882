//! The final page tables: identity mapping, W^X, stacks with their guards.
//!
//! The image is mapped by 4 KiB pages with the rights of its sections, the first 2 MiB likewise without page 0, what else
//! there is below 3 GiB by 2 MiB pages that are not executable, and the devices' gigabyte below 4 GiB
//! uncached, but for the window in which stacks have their addresses, from 1 GiB on: what memory there is is found at another
//! place ([`find`]). One further gigabyte may be a device's. Nothing is mapped both writable and executable. An image for one CPU and
//! without feature `devices` has the first gigabyte only, all of it.
//!
//! What there is the loader's memory map says: what it names not is not mapped, unless a device has memory there ([`map_devices`]).
//!
//! The boot code has begun the tables: it maps the first gigabyte by 2 MiB pages that anything is allowed on.

use core::cell::UnsafeCell;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use x86_64::PhysAddr;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::{PageTable, PageTableFlags as Flags, PhysFrame};

use crate::compact::rolled;
use crate::config::{IMAGE_TABLES, MAX_CPUS, STACK_TABLES};

pub(super) const PAGE: u64 = 0x1000;
const LARGE: u64 = 0x20_0000;

/// Where the devices' gigabyte begins.
const DEVICES: u64 = 3 << 30;
/// How far memory is mapped.
const MAPPED: u64 = (GIGABYTES as u64) << 30;
const GIGABYTES: usize = if cfg!(feature = "devices") || MAX_CPUS > 1 {
    4
} else {
    1
};

/// Where the window of the stacks begins, at the beginning of a gigabyte; the linker script says the same.
const STACKS: u64 = 1 << 30;
/// The end of what of it has page tables.
const STACKS_END: u64 = STACKS + STACK_TABLES as u64 * LARGE;
/// Where what memory there is at the window's addresses is found instead.
const BEHIND: u64 = 5 << 30;
const NR_LEVEL2: usize = if GIGABYTES == 1 { 2 } else { GIGABYTES };
const NR_BEHIND: usize = if GIGABYTES == 1 { 0 } else { 1 };

/// The boot code knows that these are first: it fills two of level 4 and 3 one entry each, and one of level 2.
#[repr(C)]
struct Tables {
    /// First: CR3 points to the whole.
    level4: PageTable,
    level3: PageTable,
    level2: [PageTable; NR_LEVEL2],
    low: PageTable,
    stacks: [PageTable; STACK_TABLES],
    /// The gigabyte of the stacks' window once more, where firmware's tables may lie in it.
    behind: [PageTable; NR_BEHIND],
    image: [PageTable; IMAGE_TABLES],
}

struct Cell(UnsafeCell<Tables>);

// SAFETY: written on the boot CPU before other CPUs run.
unsafe impl Sync for Cell {}

#[unsafe(export_name = "takt_page_tables")]
static TABLES: Cell = Cell(UnsafeCell::new(Tables {
    level4: PageTable::new(),
    level3: PageTable::new(),
    level2: [const { PageTable::new() }; NR_LEVEL2],
    low: PageTable::new(),
    stacks: [const { PageTable::new() }; STACK_TABLES],
    behind: [const { PageTable::new() }; NR_BEHIND],
    image: [const { PageTable::new() }; IMAGE_TABLES],
}));

unsafe extern "C" {
    static __image_start: u8;
    static __text_start: u8;
    static __text_end: u8;
    static __rodata_start: u8;
    static __rodata_end: u8;
    static __image_end: u8;
}

fn at(symbol: *const u8) -> u64 {
    symbol as u64
}

pub(super) fn set(table: &mut PageTable, index: usize, address: u64, flags: Flags) {
    table[index].set_addr(PhysAddr::new(address), flags | Flags::PRESENT);
}

/// Maps these addresses to memory from `physical` on, in tables that lie one behind the other and whose first entry is that of
/// `base`, each entry of `size` bytes.
#[inline(never)]
fn fill_to(
    tables: &mut [PageTable],
    (base, size): (u64, u64),
    addresses: Range<u64>,
    physical: u64,
    flags: Flags,
) {
    let mut address = addresses.start;
    while address < addresses.end {
        let n = ((address - base) / size) as usize;
        if let Some(table) = tables.get_mut(n / 512) {
            set(table, n % 512, address - addresses.start + physical, flags);
        }
        address += size;
    }
}

/// [`fill_to`], one to one.
#[inline(always)]
fn fill(tables: &mut [PageTable], base: u64, size: u64, addresses: Range<u64>, flags: Flags) {
    let physical = addresses.start;
    fill_to(tables, (base, size), addresses, physical, flags);
}

/// Opens the window of the stacks, in which nothing is mapped yet.
///
/// # Safety
/// Once, on the boot CPU, with the page tables that the boot code has begun in force.
pub(crate) unsafe fn open_window() {
    // SAFETY: only the boot CPU runs, and the CPU goes by no entry that is written here.
    let tables = unsafe { &mut *TABLES.0.get() };
    for (n, stacks) in rolled(&tables.stacks).enumerate() {
        let at = &raw const *stacks as u64;
        set(&mut tables.level2[1], n, at, Flags::WRITABLE);
    }
    let level2 = &raw const tables.level2[1] as u64;
    set(&mut tables.level3, 1, level2, Flags::WRITABLE);
}

/// Maps a stack in the window to its memory.
///
/// # Safety
/// As [`open_window`], behind it; the addresses are a stack's, and the memory is used by nobody else.
pub(crate) unsafe fn map_stack(stack: usize, memory: usize, size: usize) {
    // SAFETY: only the boot CPU runs, and nothing lies at the addresses of the entries that are written here.
    let tables = unsafe { &mut *TABLES.0.get() };
    let (stack, memory) = (stack as u64, memory as u64);
    let flags = Flags::WRITABLE | Flags::NO_EXECUTE;
    let addresses = stack..stack + size as u64;
    fill_to(&mut tables.stacks, (STACKS, PAGE), addresses, memory, flags);
}

/// The physical address of what lies in the image or on a stack, for devices. A stack's memory is contiguous.
#[must_use]
pub fn physical(address: usize) -> u64 {
    let address = address as u64;
    if !(STACKS..STACKS_END).contains(&address) {
        return address;
    }
    let n = ((address - STACKS) / PAGE) as usize;
    // SAFETY: nobody changes these tables once stacks are mapped.
    let stacks = unsafe { &(*TABLES.0.get()).stacks };
    stacks[n / 512][n % 512].addr().as_u64() + address % PAGE
}

/// Where `len` bytes of physical memory are found that may lie where the stacks' window is; `None` if not all of them are mapped,
/// one behind the other. In an image that has more than the first gigabyte mapped.
#[must_use]
pub fn find(address: usize, len: usize) -> Option<usize> {
    let (begin, end) = (address as u64, (address as u64).checked_add(len as u64)?);
    let is_behind = begin < STACKS_END && end > STACKS;
    let (entries, base) = match is_behind {
        true => (entries_behind(), STACKS),
        false => (entries(), 0),
    };
    let mut pages = begin.checked_sub(base)? / LARGE..(end - base).div_ceil(LARGE);
    let is_mapped = pages.all(|page| {
        let entry = entries.get(page as usize);
        entry.is_some_and(|entry| entry.load(Relaxed) != 0)
    });
    let offset = if is_behind { BEHIND - STACKS } else { 0 };
    is_mapped.then_some(address + offset as usize)
}

/// The entries of the large pages one to one. Once the tables are in force [`map_devices`] alone changes them, one at a time.
fn entries() -> &'static [AtomicU64] {
    let entries = table_at(core::mem::offset_of!(Tables, level2)).cast();
    // SAFETY: these are the entries, of which nobody has a reference that is not to an atomic once the tables are in force.
    unsafe { core::slice::from_raw_parts(entries, NR_LEVEL2 * 512) }
}

/// Those of the window's addresses, at the other place.
fn entries_behind() -> &'static [AtomicU64] {
    let entries = table_at(core::mem::offset_of!(Tables, behind)).cast();
    // SAFETY: these are the entries, which nobody changes once the tables are in force.
    unsafe { core::slice::from_raw_parts(entries, NR_BEHIND * 512) }
}

/// Where a table lies, by its place among all.
fn table_at(offset: usize) -> *const PageTable {
    TABLES.0.get().wrapping_byte_add(offset).cast()
}

/// Why the tables could not be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageTooLarge;

/// The part of `addresses`, to whole large pages, that lies in `part`.
fn clip(addresses: &Range<u64>, part: Range<u64>) -> Range<u64> {
    let end = addresses.end.saturating_add(LARGE - 1) / LARGE * LARGE;
    part.start.max(addresses.start / LARGE * LARGE)..part.end.min(end)
}

/// Builds the tables and puts them into force. `there` is what the memory map names.
///
/// # Errors
/// [`ImageTooLarge`] if the image does not fit the static tables.
///
/// # Safety
/// Once, on the boot CPU, on the identity mapping that the boot code has begun these tables with, with NX enabled.
pub(crate) unsafe fn build(
    lapic_physical: u64,
    there: impl Iterator<Item = Range<u64>>,
) -> Result<(), ImageTooLarge> {
    // SAFETY: no one else uses the tables yet.
    let tables = unsafe { &mut *TABLES.0.get() };
    let table = Flags::WRITABLE;
    let data = Flags::WRITABLE | Flags::NO_EXECUTE;
    let device = data | Flags::NO_CACHE | Flags::WRITE_THROUGH;

    let start = at(&raw const __image_start);
    let lapic = super::apic::page() as u64;
    let end = lapic + PAGE;
    if end > start + IMAGE_TABLES as u64 * LARGE {
        return Err(ImageTooLarge);
    }
    let text = at(&raw const __text_start)..at(&raw const __text_end);
    let rodata = at(&raw const __rodata_start)..at(&raw const __rodata_end);
    let base = start / LARGE * LARGE;
    let behind = end.next_multiple_of(LARGE);
    // First of all, as long as the map itself is mapped.
    let level2 = &mut tables.level2;
    let large = data | Flags::HUGE_PAGE;
    let window = STACKS..2 * STACKS;
    let (ram, all) = (MAPPED.min(DEVICES), MAPPED);
    for addresses in there {
        for part in [LARGE..base, behind..STACKS, STACKS_END..ram] {
            fill(level2, 0, LARGE, clip(&addresses, part), large);
        }
        let window = clip(&addresses, window.clone());
        fill(&mut tables.behind, STACKS, LARGE, window, large);
    }
    let image = &mut tables.image;
    fill(image, base, PAGE, base..behind, data);
    fill(image, base, PAGE, text, Flags::empty());
    fill(image, base, PAGE, rodata, Flags::NO_EXECUTE);
    let at_lapic = (lapic - base) / PAGE;
    set(
        &mut image[at_lapic as usize / 512],
        at_lapic as usize % 512,
        lapic_physical,
        device,
    );
    // The first 2 MiB: page 0 stays out, so that a null pointer faults. Firmware tables and the start of other CPUs.
    let low = core::slice::from_mut(&mut tables.low);
    fill(low, 0, PAGE, PAGE..LARGE, data);
    // The CPU goes by these tables already: at any moment what is in use is mapped where it was.
    let level2 = &mut tables.level2;
    set(&mut level2[0], 0, low.as_ptr() as u64, table);
    for (n, image) in rolled(image).enumerate() {
        let address = base + n as u64 * LARGE;
        if address < behind {
            set(
                &mut level2[0],
                (address / LARGE) as usize,
                &raw const *image as u64,
                table,
            );
        }
    }
    if GIGABYTES > 1 {
        // Of the boot code's pages those go that are not there.
        for entry in level2[0].iter_mut() {
            if entry.flags() & (Flags::HUGE_PAGE | Flags::NO_EXECUTE) == Flags::HUGE_PAGE {
                entry.set_unused();
            }
        }
    }
    fill(level2, 0, LARGE, ram..all, device | Flags::HUGE_PAGE);
    if let Some(again) = tables.behind.first() {
        let again = &raw const *again as u64;
        set(&mut tables.level3, (BEHIND >> 30) as usize, again, table);
    }
    for (gigabyte, level2) in rolled(level2).enumerate() {
        let level2 = &raw const *level2 as u64;
        set(&mut tables.level3, gigabyte, level2, table);
    }
    debug_assert!(at(&raw const __image_end) <= lapic);
    load();
    Ok(())
}

/// Maps all below 4 GiB that is not mapped yet, uncached: a device has memory there that the memory map does not name.
///
/// # Context
/// Any, once the final tables are in force.
pub fn map_devices() {
    const DEVICE: Flags = Flags::PRESENT
        .union(Flags::HUGE_PAGE)
        .union(Flags::WRITABLE)
        .union(Flags::NO_EXECUTE)
        .union(Flags::NO_CACHE)
        .union(Flags::WRITE_THROUGH);
    for (page, entry) in entries().iter().enumerate() {
        // An address that no entry maps is in no TLB.
        let _ = entry.compare_exchange(0, (page as u64 * LARGE) | DEVICE.bits(), Relaxed, Relaxed);
    }
}

/// Where [`map_window`] maps memory: behind all that is mapped one to one.
const WINDOW: u64 = 4 << 30;

/// The table of a window on a device's memory.
#[derive(Debug)]
pub struct Window(UnsafeCell<PageTable>);

// SAFETY: written by `map_window` on the boot CPU before other CPUs run.
unsafe impl Sync for Window {}

impl Window {
    /// An empty one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "meant for a static only")]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(PageTable::new()))
    }
}

/// Maps the gigabyte of a device that has `physical` in it through the window; gives the address under which `physical` is then
/// found. As the memory type ranges have it, else uncached: a firmware may have declared a screen's memory write-combining.
///
/// # Safety
/// Once, on the boot CPU, after [`boot::memory`](crate::boot::memory) and before other CPUs run. What is there is a device's, and whoever uses it lets
/// nothing of Rust's lie there.
// The compiler fills the table by more SSE registers than interrupts keep elsewhere (see `sse`).
#[inline(never)]
#[unsafe(link_section = ".text.sse.map_window")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub unsafe fn map_window(window: &'static Window, physical: u64) -> usize {
    // SAFETY: once, by the caller's promise.
    let level2 = unsafe { &mut *window.0.get() };
    let gigabyte = physical & !0x3fff_ffff;
    let flags = Flags::WRITABLE | Flags::NO_EXECUTE | Flags::NO_CACHE | Flags::HUGE_PAGE;
    for i in 0..512 {
        set(level2, i, gigabyte + i as u64 * LARGE, flags);
    }
    // SAFETY: only the boot CPU runs, by the caller's promise.
    let tables = unsafe { &mut *TABLES.0.get() };
    set(
        &mut tables.level3,
        (WINDOW >> 30) as usize,
        level2 as *const PageTable as u64,
        Flags::WRITABLE,
    );
    (WINDOW + (physical - gigabyte)) as usize
}

/// Puts the final tables into force on this CPU.
pub(crate) fn load() {
    let level4 = PhysFrame::containing_address(PhysAddr::new(TABLES.0.get() as u64));
    // SAFETY: the tables map everything that is in use at the same addresses.
    unsafe { Cr3::write(level4, Cr3Flags::empty()) };
}

/// Has the first table lead to another one.
///
/// # Safety
/// On the boot CPU before others run; the entry is free, and what the table maps is in no one else's way.
#[cfg(feature = "tasks")]
pub(super) unsafe fn set_level4(index: usize, level3: u64) {
    // SAFETY: only the boot CPU runs, by the caller's promise.
    let tables = unsafe { &mut *TABLES.0.get() };
    set(&mut tables.level4, index, level3, Flags::WRITABLE);
}

/// The table of what the kernel maps, for the tables of address spaces.
#[cfg(feature = "tasks")]
pub(super) fn level3() -> u64 {
    table_at(core::mem::offset_of!(Tables, level3)) as u64
}
