//! Static keys: a branch that costs one instruction of five bytes while it is off.
//!
//! That instruction is `test eax, imm32`, which changes nothing but the flags, and its operand is the distance of the jump:
//! switching a key on and off changes the first byte of each use. So an entry of the table `.takt.jump_table`, which each
//! use of [`static_branch!`](crate::static_branch) leaves, has only the place and the key. The key is the address of a
//! static in a section that is not loaded, so it has 16 bits; for trace events it is the event's id.
//!
//! Source: the idea is that of Linux's jump labels; Intel SDM vol. 3A, 9.1.3 for cross-modifying code.

use core::arch::asm;

use takt_tracer::event::Symbol;

use crate::compact::opaque;

/// The first byte of a jump.
pub(crate) const JUMP: u8 = 0xe9;
/// The first byte of `test eax, imm32`.
pub(crate) const TEST: u8 = 0xa9;

/// One use of a key.
#[repr(C, packed(2))]
#[derive(Clone, Copy)]
struct JumpEntry {
    /// Address of the five bytes of code.
    code: u32,
    /// Address of the key.
    key: u16,
}

/// A key by its symbol, whose address is what [`set`] and [`is_on`] go by; an event's id is one.
pub(crate) type Key = &'static Symbol<2>;

/// The address of a key.
#[inline(always)]
pub(crate) fn number(key: Key) -> u32 {
    core::ptr::from_ref(key) as u32
}

/// Whether the key with this address is no event's id. Such a key is switched by whoever declares it, since much may depend on
/// it: whether there are locks, for one.
pub(crate) fn is_no_event(key: u32) -> bool {
    let keys = (&raw const takt_keys_start) as u32..(&raw const takt_wide_ids_end) as u32;
    // Core events' ids are even, and may be as large.
    key % 2 == 1 && keys.contains(&key)
}

/// Declares keys that are no events' ids.
macro_rules! keys {
    ($($(#[$doc:meta])* $vis:vis $key:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(link_section = concat!(".takt.id.wide.2.", module_path!(), stringify!($key)))]
        $vis static $key: takt_tracer::event::Symbol<2> = takt_tracer::event::Symbol::new();
    )*};
}
pub(crate) use keys;

unsafe extern "C" {
    static __jump_table_start: JumpEntry;
    static __jump_table_end: JumpEntry;
    static takt_keys_start: u8;
    static takt_wide_ids_end: u8;
}

/// Whether a tracer's key, a path to a `static` in a section that is not loaded, is on: one instruction without effect while it
/// is off, one jump while it is on.
#[cfg(feature = "trace")]
#[macro_export]
macro_rules! static_branch {
    ($key:path) => {
        $crate::key_branch!($key)
    };
}

/// No tracer's key is ever on without feature `trace`.
#[cfg(not(feature = "trace"))]
#[macro_export]
macro_rules! static_branch {
    ($key:path) => {{
        let _ = &$key;
        false
    }};
}

/// As [`static_branch!`](crate::static_branch), for any key.
#[doc(hidden)]
#[macro_export]
macro_rules! key_branch {
    ($key:path) => {
        'branch: {
            // SAFETY: an instruction that changes the flags only, or a jump to the label (see `jump_label`).
            unsafe {
                $crate::__core::arch::asm!(
                    "2: .byte 0xa9",
                    ".long {on} - 3f",
                    "3:",
                    ".pushsection .takt.jump_table, \"a\", @progbits",
                    ".long 2b",
                    ".short {key}",
                    ".popsection",
                    key = sym $key,
                    on = label { break 'branch true },
                    options(nomem, nostack),
                );
            }
            false
        }
    };
}

/// All uses of all keys: the key's address, and that of the five bytes of code.
#[cfg(feature = "tests")]
pub(crate) fn places() -> impl Iterator<Item = (u16, u32)> {
    let start = &raw const __jump_table_start;
    let end = &raw const __jump_table_end;
    // SAFETY: the linker script puts both symbols around the table.
    let entries: &[JumpEntry] = unsafe { crate::compact::between(start, end) };
    entries.iter().map(|entry| (entry.key, entry.code))
}

/// How many keys are on, and how many threads or counters want to know of each switch. While it is not 0 messages do not go
/// the short way, which has no places.
#[cfg(feature = "tasks")]
#[unsafe(export_name = "takt_listeners")]
pub(crate) static LISTENERS: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// There is one more to [listen](LISTENERS), or one less.
#[cfg(feature = "tasks")]
pub(crate) fn listens(on: bool) {
    let by = if on { 1 } else { u32::MAX };
    LISTENERS.fetch_add(by, core::sync::atomic::Ordering::Relaxed);
}

/// Switches every use of the key with this address on or off.
#[cold]
#[inline(never)]
pub(crate) fn set(text: &mut Writable, key: u32, on: bool) {
    #[cfg(feature = "tasks")]
    if nr_uses(key) != 0 && is_on(key) != on {
        listens(on);
    }
    let code = if on { JUMP } else { TEST };
    for entry in uses(key) {
        // SAFETY: the entry names such an instruction in the kernel's text, whose other bytes are right for both.
        unsafe { text.write_first(entry.code, code) };
    }
}

/// How many uses the key with this address has.
pub(crate) fn nr_uses(key: u32) -> usize {
    uses(key).count()
}

/// The uses of a key, without having to know how many entries there are.
fn uses(key: u32) -> impl Iterator<Item = &'static JumpEntry> {
    let mut next = &raw const __jump_table_start;
    let every = core::iter::from_fn(move || {
        super::proof::bounded!("places whose code can be rewritten");
        // SAFETY: the linker script puts both symbols around the table.
        let entry = (next != &raw const __jump_table_end).then(|| unsafe { &*next })?;
        next = opaque(next.wrapping_add(1) as usize) as *const JumpEntry;
        Some(entry)
    });
    every.filter(move |entry| u32::from(entry.key) == key)
}

/// Whether the uses of the key with this address are switched on; `false` if there are none.
#[cold]
#[inline(never)]
pub(crate) fn is_on(key: u32) -> bool {
    let mut code = TEST;
    for entry in uses(key) {
        // SAFETY: the entry names an instruction of five bytes in the kernel's text. All of them are the same.
        code = unsafe { (entry.code as *const u8).read_volatile() };
    }
    code == JUMP
}

/// The right to write to the kernel's text, which is mapped read-only: write protection is lifted meanwhile, interrupts are off,
/// and every other CPU stands still. So whoever is lent one changes code that others execute as if it were alone.
#[derive(Debug)]
pub(crate) struct Writable(());

impl Writable {
    /// Lifts the protection; [`restore`](Self::restore) is to follow.
    ///
    /// # Safety
    /// Interrupts are off, and every other CPU stands still until then.
    pub(crate) unsafe fn lift() -> Self {
        // SAFETY: the caller's duty.
        unsafe {
            asm!("mov {0}, cr0", "btr {0:e}, {WP}", "mov cr0, {0}", out(reg) _, WP = const WRITE_PROTECT)
        };
        Self(())
    }

    /// Ends it. Writing CR0 serialises, so this CPU does not go on with bytes fetched before.
    ///
    /// # Safety
    /// Nothing is written any more.
    pub(crate) unsafe fn restore() {
        // SAFETY: the caller's duty.
        unsafe {
            asm!("mov {0}, cr0", "bts {0:e}, {WP}", "mov cr0, {0}", out(reg) _, WP = const WRITE_PROTECT)
        };
    }

    /// Writes one byte, at once.
    ///
    /// # Safety
    /// As [`write`](Self::write).
    #[inline(always)]
    pub(super) unsafe fn write_first(&mut self, address: u32, byte: u8) {
        // SAFETY: the caller's duty.
        unsafe { (address as *mut u8).write_volatile(byte) };
    }

    /// Writes an instruction of five bytes, the low ones of `code`. If they lie in one aligned word of eight they change at
    /// once, so that not even an NMI finds half of them.
    ///
    /// # Safety
    /// The bytes are what may be executed there.
    #[cfg(any(feature = "latency-tracers", feature = "rules", feature = "function"))]
    #[inline(never)]
    pub(crate) unsafe fn write(&mut self, address: usize, code: u64) {
        let (word, shift) = ((address & !7) as *mut u64, 8 * (address & 7));
        if shift <= 24 {
            // SAFETY: an aligned word of the text.
            let all = unsafe { word.read_volatile() };
            let all = all & !(CODE << shift) | (code & CODE) << shift;
            // SAFETY: the caller's duty; the bytes around them stay as they are.
            unsafe { word.write_volatile(all) };
            return;
        }
        let place = address as *mut u8;
        // SAFETY: the caller's duty.
        unsafe { place.write_volatile(code as u8) };
        // SAFETY: the caller's duty: the other four bytes of the instruction.
        unsafe {
            place
                .wrapping_add(1)
                .cast::<u32>()
                .write_unaligned((code >> 8) as u32)
        };
    }
}

/// The bit of CR0 by which read-only pages are so for the kernel as well; it is set from boot on.
const WRITE_PROTECT: u32 = 16;

/// The bits of five bytes of code.
#[cfg(any(feature = "latency-tracers", feature = "rules", feature = "function"))]
const CODE: u64 = 0xff_ffff_ffff;

/// The five bytes of code at an address, and the three behind them.
///
/// # Safety
/// They are in the text.
#[cfg(any(feature = "latency-tracers", feature = "rules", feature = "function"))]
pub(crate) unsafe fn code_at(address: usize) -> u64 {
    // SAFETY: the caller's duty.
    unsafe { (address as *const u64).read_unaligned() }
}

/// Whether these five bytes of code are at an address.
///
/// # Safety
/// As [`code_at`].
#[cfg(feature = "function")]
pub(crate) unsafe fn is_code(address: usize, code: u64) -> bool {
    // SAFETY: the caller's duty.
    (unsafe { code_at(address) } ^ code) & CODE == 0
}

/// The code of a jump or a call from an address to another.
#[cfg(any(feature = "latency-tracers", feature = "rules", feature = "function"))]
pub(crate) fn branch(opcode: u8, from: usize, to: usize) -> u64 {
    let distance = to.wrapping_sub(from.wrapping_add(5)) as u32;
    u64::from(distance) << 8 | u64::from(opcode)
}
