//! Address spaces of tasks: the kernel's own mapping, which ring 3 may not touch, and one region of a task's pages.
//!
//! Nothing of a task is mapped both writable and executable, and nothing of it anywhere in the kernel's part executable. The
//! kernel itself never uses a task's addresses: what a task names it finds by the task's own description, where the identity
//! mapping has it.

use core::arch::asm;
use core::cell::UnsafeCell;

use takt_abi::{FIRST_REGION, REGION};
use x86_64::structures::paging::{PageTable, PageTableFlags as Flags};

use super::paging::{self, PAGE};
use super::ports::{self, Ports};

/// A thread's address space, and what that has in the FPU while another one is in force. It begins with its first table, so its address
/// is what CR3 has.
///
/// To exchange two of them takes these instructions: whether a task has the FPU (2), to keep that (1), `fs` (2), two of the four selectors
/// (2), the tables (2), less what these clear besides (1).
#[repr(C)]
pub(crate) struct Space {
    tables: UnsafeCell<Tables>,
    fpu: UnsafeCell<Fpu>,
    /// The base of `fs` in it, where its thread's stack begins as well.
    fs: usize,
    /// Where the results of its thread's calls are on the thread's stack in the kernel.
    results: UnsafeCell<usize>,
}

// SAFETY: the tables are written before anyone runs there; the rest by the one CPU that the space is in force on.
unsafe impl Sync for Space {}

#[repr(C, align(16))]
struct Fpu([u16; 256]);

/// The control word of the x87 FPU and MXCSR, with all exceptions masked.
const CONTROL: u16 = 0x37f;
const MXCSR: u16 = 0x1f80;

impl Fpu {
    /// The first bytes of [`new`](Self::new), behind which all are zeros.
    const BEGIN: [u8; 32] = {
        let mut bytes = [0; 32];
        [bytes[0], bytes[1]] = CONTROL.to_le_bytes();
        [bytes[24], bytes[25]] = MXCSR.to_le_bytes();
        bytes
    };

    /// What a task begins with: all exceptions masked, and all registers empty and zero.
    ///
    /// Source: Intel SDM vol. 1, 10.5.1 (FXSAVE area).
    const fn new() -> Self {
        let mut area = [0; 256];
        area[0] = CONTROL;
        area[12] = MXCSR;
        Self(area)
    }
}

#[repr(C, align(4096))]
struct Tables {
    level4: PageTable,
    level3: PageTable,
    level2: PageTable,
    level1: PageTable,
}

/// What may be done with a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Constants.
    Read,
    /// Data.
    Write,
    /// Code.
    Execute,
    /// A device's memory: uncached.
    Device,
}

/// Where [`Space`] has what assembly needs.
pub(super) const FPU: usize = core::mem::offset_of!(Space, fpu);
pub(super) const FS: usize = core::mem::offset_of!(Space, fs);
pub(super) const RESULTS: usize = core::mem::offset_of!(Space, results);

const _: () = assert!(core::mem::offset_of!(Space, tables) == 0, "CR3's value");

impl Space {
    /// An empty one, where `fs` begins at this address.
    pub(crate) const fn new(fs: usize) -> Self {
        Self {
            fpu: UnsafeCell::new(Fpu::new()),
            fs,
            results: UnsafeCell::new(0),
            tables: UnsafeCell::new(Tables {
                level4: PageTable::new(),
                level3: PageTable::new(),
                level2: PageTable::new(),
                level1: PageTable::new(),
            }),
        }
    }

    /// Gives it the region at `base`, whose pages [`map`](Self::map) fills, and these ports.
    ///
    /// # Safety
    /// It is in force nowhere, after [`boot::memory`](crate::boot::memory).
    pub(crate) unsafe fn begin(&self, base: usize, ports: Option<&'static Ports>) {
        // SAFETY: no one else uses it, by the caller's promise.
        let tables = unsafe { &mut *self.tables.get() };
        let task = Flags::WRITABLE | Flags::USER_ACCESSIBLE;
        let offset = base - FIRST_REGION;
        paging::set(&mut tables.level4, 0, paging::level3(), Flags::WRITABLE);
        let level3 = &raw const tables.level3 as u64;
        paging::set(&mut tables.level4, FIRST_REGION >> 39, level3, task);
        let level2 = &raw const tables.level2 as u64;
        paging::set(&mut tables.level3, (offset >> 30) & 511, level2, task);
        let level1 = &raw const tables.level1 as u64;
        paging::set(&mut tables.level2, (offset / REGION) & 511, level1, task);
        // SAFETY: the ports are this space's alone, which no one uses yet.
        let segments = ports.map_or(ports::none(), |ports| unsafe { ports.fill() });
        paging::set(
            &mut tables.level2,
            ports::entry(),
            segments,
            Flags::WRITABLE,
        );
    }

    /// Has the tables of another one but for the first, for a further thread.
    ///
    /// # Safety
    /// As [`begin`](Self::begin), and the other one's are complete.
    pub(crate) unsafe fn share(&self, other: &Self) {
        // SAFETY: it is complete, by the caller's promise, and changes no more.
        let theirs = unsafe { &(*other.tables.get()).level4 };
        // SAFETY: no one else uses it, by the caller's promise.
        let own = unsafe { &mut (*self.tables.get()).level4 };
        for (entry, of_theirs) in own.iter_mut().zip(theirs.iter()) {
            entry.clone_from(of_theirs);
        }
    }

    /// Maps memory of the image into the region, page by page.
    ///
    /// # Panics
    /// If it is not whole pages of the region: xtask packs them so.
    ///
    /// # Safety
    /// As [`begin`](Self::begin), and the memory is the task's.
    pub(crate) unsafe fn map(&self, at: usize, memory: *const u8, len: usize, access: Access) {
        let first = at % REGION / PAGE as usize;
        let pages = len / PAGE as usize;
        let is_whole = (at | memory as usize | len).is_multiple_of(PAGE as usize);
        assert!(is_whole && first + pages <= 512, "a task's pages");
        let flags = Flags::USER_ACCESSIBLE
            | match access {
                Access::Read => Flags::NO_EXECUTE,
                Access::Write => Flags::NO_EXECUTE | Flags::WRITABLE,
                Access::Execute => Flags::empty(),
                Access::Device => {
                    Flags::NO_EXECUTE | Flags::WRITABLE | Flags::NO_CACHE | Flags::WRITE_THROUGH
                }
            };
        // SAFETY: no one else uses it, by the caller's promise.
        let tables = unsafe { &mut *self.tables.get() };
        for page in 0..pages {
            let physical = memory as u64 + page as u64 * PAGE;
            paging::set(&mut tables.level1, first + page, physical, flags);
        }
    }

    /// The results of its thread's calls are at this address.
    ///
    /// # Safety
    /// It is in force nowhere.
    pub(super) unsafe fn set_results(&self, at: usize) {
        // SAFETY: no one else uses it, by the caller's promise.
        unsafe { *self.results.get() = at };
    }

    /// Makes the state of the FPU what a task begins with.
    ///
    /// # Safety
    /// It is in force nowhere, or will be put into force anew before its task runs.
    pub(crate) unsafe fn reset(&self) {
        // SAFETY: the CPU has none of it, by the caller's promise.
        unsafe { fill(self.fpu.get().cast(), size_of::<Fpu>(), &Fpu::BEGIN) };
    }
}

/// Makes memory begin with these bytes, and be zeros behind them: eight bytes at a time, which the CPU may be interrupted between.
///
/// # Safety
/// So much memory is there, in words of eight bytes, aligned, and nobody else uses it.
pub(crate) unsafe fn fill(memory: *mut u8, size: usize, begins_with: &[u8]) {
    let words = begins_with.len() / 8;
    let rest = &begins_with[8 * words..];
    // SAFETY: the caller's duty, and there is so much at both ends.
    unsafe {
        asm!("rep movsq", inout("rcx") words => _, inout("rsi") begins_with.as_ptr() => _, inout("rdi") memory => _, options(nostack))
    };
    // SAFETY: the words behind those, by the caller's promise as well.
    unsafe {
        asm!("rep stosq", inout("rcx") size / 8 - words => _, in("rax") 0, inout("rdi") memory.wrapping_add(8 * words) => _, options(nostack))
    };
    for (place, byte) in rest.iter().enumerate() {
        // SAFETY: less than a word, behind the last whole one of the text; the memory has whole ones only.
        unsafe { memory.wrapping_add(8 * words + place).write(*byte) };
    }
}

/// Copies bytes, in words of eight as far as there are so many; gives where both go on.
///
/// # Safety
/// So much may be read there and written here, which others may do as well at the same time.
#[inline(always)]
pub(crate) unsafe fn copy(
    mut to: *mut u8,
    mut from: *const u8,
    size: usize,
) -> (*mut u8, *const u8) {
    // SAFETY: the caller's duty. The direction flag is clear in the kernel.
    unsafe {
        asm!(
            "rep movsq",
            "mov ecx, {rest:e}",
            "rep movsb",
            rest = in(reg) size % 8,
            inout("rcx") size / 8 => _,
            inout("rdi") to,
            inout("rsi") from,
            options(nostack, preserves_flags),
        );
    }
    (to, from)
}
