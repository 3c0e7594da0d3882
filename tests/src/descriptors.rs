//! Descriptors and gates of the tests' own, beside the kernel's.

use core::arch::asm;

/// Slots of the copy of the descriptor table; the last is the test's.
const NR_DESCRIPTORS: usize = 32;
/// The selector of that last one.
pub const SELECTOR: u64 = 8 * (NR_DESCRIPTORS as u64 - 1);
/// A segment of writable data that is not present.
pub const ABSENT: u64 = 0x12 << 40;
/// The same for ring 3.
pub const ABSENT_IN_RING_3: u64 = 0x72 << 40;

/// Puts a copy of the descriptor table into force that has `descriptor` behind [`SELECTOR`].
pub fn install(descriptor: u64) {
    static mut TABLE: [u64; NR_DESCRIPTORS] = [0; NR_DESCRIPTORS];
    let mut register = [0u8; 10];
    // SAFETY: stores the register into `register`.
    unsafe { asm!("sgdt [{}]", in(reg) &raw mut register) };
    let [low, high, address @ ..] = register;
    let old = usize::from_le_bytes(address) as *const u64;
    let nr = (usize::from(u16::from_le_bytes([low, high])) + 1) / 8;
    let new = (&raw mut TABLE).cast::<u64>();
    for i in 0..nr.min(NR_DESCRIPTORS - 1) {
        // SAFETY: within the table that is in force.
        let before = unsafe { old.wrapping_add(i).read() };
        // SAFETY: within the new one, which is in no one else's use.
        unsafe { new.wrapping_add(i).write(before) };
    }
    // SAFETY: its last slot.
    unsafe { new.wrapping_add(NR_DESCRIPTORS - 1).write(descriptor) };
    register[..2].copy_from_slice(&(8 * NR_DESCRIPTORS as u16 - 1).to_le_bytes());
    register[2..].copy_from_slice(&(new as usize).to_le_bytes());
    // SAFETY: every selector in use means what it did before.
    unsafe { asm!("lgdt [{}]", in(reg) &raw const register) };
}

/// Puts a copy of the table of gates into force in which `change` has changed those of these vectors, two words each.
pub fn change_gates(vectors: &[usize], change: fn(usize, &mut [u64; 2])) {
    static mut TABLE: [[u64; 2]; 256] = [[0; 2]; 256];
    let mut register = [0u8; 10];
    // SAFETY: stores the register into `register`.
    unsafe { asm!("sidt [{}]", in(reg) &raw mut register) };
    let [_, _, address @ ..] = register;
    let old = usize::from_le_bytes(address) as *const [u64; 2];
    let new = (&raw mut TABLE).cast::<[u64; 2]>();
    for vector in 0..256 {
        // SAFETY: a table has so many gates.
        let mut gate = unsafe { old.wrapping_add(vector).read() };
        if vectors.contains(&vector) {
            change(vector, &mut gate);
        }
        // SAFETY: within the table, which is in no one else's use.
        unsafe { new.wrapping_add(vector).write(gate) };
    }
    register[2..].copy_from_slice(&(new as usize).to_le_bytes());
    // SAFETY: every gate leads where it did, or where the caller wants it to.
    unsafe { asm!("lidt [{}]", in(reg) &raw const register) };
}

/// Where a gate leads.
#[must_use]
pub fn target_of([low, high]: [u64; 2]) -> u64 {
    low & 0xffff | low >> 48 << 16 | high << 32
}

/// Has a gate lead elsewhere.
pub fn set_target(gate: &mut [u64; 2], target: u64) {
    gate[0] = gate[0] & 0x0000_ffff_ffff_0000 | target & 0xffff | (target >> 16 & 0xffff) << 48;
    gate[1] = target >> 32;
}
