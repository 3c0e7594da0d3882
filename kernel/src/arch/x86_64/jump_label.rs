//! Static keys: a branch that costs one 5-byte NOP while it is off.
//!
//! Each use of [`static_branch!`](crate::static_branch) leaves an entry in `.takt.jump_table`: the address of the NOP,
//! where to jump when the key is on, and the key: the address of a static, which for trace events is the event's id.
//! Switching a key on rewrites its NOPs into jumps.
//!
//! Source: the idea is that of Linux's jump labels; Intel SDM vol. 3A, 9.1.3 for cross-modifying code.

use x86_64::registers::control::{Cr0, Cr0Flags};

/// The first byte of a jump.
const JUMP: u8 = 0xe9;

/// One use of a key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct JumpEntry {
    /// Address of the 5-byte NOP or jump.
    pub code: u32,
    /// Where the jump leads.
    pub target: u32,
    /// Address of the key.
    pub key: u32,
}

unsafe extern "C" {
    static __jump_table_start: JumpEntry;
    static __jump_table_end: JumpEntry;
}

/// Whether the key, a path to a `static`, is on: one NOP while it is off, one jump while it is on.
#[macro_export]
macro_rules! static_branch {
    ($key:path) => {
        'branch: {
            // SAFETY: five bytes of NOP, replaced as a whole by a jump to the label (see `jump_label`).
            unsafe {
                ::core::arch::asm!(
                    "2: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
                    ".pushsection .takt.jump_table, \"a\", @progbits",
                    ".long 2b, {on}, {key}",
                    ".popsection",
                    key = sym $key,
                    on = label { break 'branch true },
                    options(nomem, nostack, preserves_flags),
                );
            }
            false
        }
    };
}

/// All uses of all keys.
pub fn entries() -> &'static [JumpEntry] {
    let start = &raw const __jump_table_start;
    let end = &raw const __jump_table_end;
    // SAFETY: the linker script puts both symbols around the table.
    let nr = unsafe { end.offset_from(start) } as usize;
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts(start, nr) }
}

/// Switches every use of the key with this address on or off and returns how many there are.
///
/// # Safety
/// No one relies on the key's uses changing one after the other.
pub unsafe fn set(text: &mut Writable, key: u32, on: bool) -> usize {
    let mut nr = 0;
    for entry in entries().iter().filter(|entry| entry.key == key) {
        let mut code = [0x0f, 0x1f, 0x44, 0x00, 0x00];
        if on {
            code[0] = JUMP;
            code[1..].copy_from_slice(&entry.target.wrapping_sub(entry.code + 5).to_le_bytes());
        }
        // SAFETY: the entry names a NOP or jump of five bytes in the kernel's text.
        unsafe { text.write(entry.code as usize, &code) };
        nr += 1;
    }
    nr
}

/// Whether the uses of the key with this address are switched on; `false` if there are none.
pub fn is_on(key: u32) -> bool {
    entries()
        .iter()
        .find(|entry| entry.key == key)
        // SAFETY: the entry names a NOP or jump of five bytes in the kernel's text.
        .is_some_and(|entry| unsafe { (entry.code as *const u8).read_volatile() } == JUMP)
}

/// How many uses the key with this address has.
#[cfg(feature = "rules")]
pub fn nr_places(key: u32) -> usize {
    entries().iter().filter(|entry| entry.key == key).count()
}

/// The right to write to the kernel's text, which is mapped read-only: write protection is lifted meanwhile.
#[derive(Debug)]
pub struct Writable(());

impl Writable {
    /// Lifts the protection while `write` runs.
    ///
    /// # Safety
    /// Interrupts are off, and no other CPU executes what is written.
    pub unsafe fn with<R>(write: impl FnOnce(&mut Self) -> R) -> R {
        let cr0 = Cr0::read();
        // SAFETY: write protection is lifted only while `write` runs, with interrupts off.
        unsafe { Cr0::write(cr0 - Cr0Flags::WRITE_PROTECT) };
        let result = write(&mut Self(()));
        // SAFETY: as it was.
        unsafe { Cr0::write(cr0) };
        // Serialise, so that this CPU does not go on with bytes fetched before.
        core::arch::x86_64::__cpuid(0);
        result
    }

    /// Writes to the text. If the bytes lie in one aligned word of eight they change at once, so that not even an NMI
    /// finds half of them.
    ///
    /// # Safety
    /// The bytes are what may be executed there.
    pub unsafe fn write(&mut self, address: usize, bytes: &[u8]) {
        let (word, offset) = ((address & !7) as *mut u64, address & 7);
        if offset + bytes.len() <= 8 {
            // SAFETY: an aligned word of the text.
            let mut all = unsafe { word.read_volatile() }.to_le_bytes();
            all[offset..offset + bytes.len()].copy_from_slice(bytes);
            // SAFETY: the caller's duty; the bytes around them stay as they are.
            unsafe { word.write_volatile(u64::from_le_bytes(all)) };
            return;
        }
        for (i, &byte) in bytes.iter().enumerate() {
            // SAFETY: the caller's duty.
            unsafe { core::ptr::write_volatile((address + i) as *mut u8, byte) };
        }
    }
}
