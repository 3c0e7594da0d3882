//! QEMU's interface for plugins of its translator, as far as it is used here.
//!
//! It is the part that all versions from 1 (QEMU 6) on have in the same form. What later versions took away or changed is
//! not used: inline operations (gone with version 3), the bytes of an instruction (another signature since version 3),
//! the number of CPUs (gone with version 2).
//!
//! Source: QEMU, `include/qemu/qemu-plugin.h`, "TCG Plugins" in its manual.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Names a plugin that is loaded.
pub(crate) type Id = u64;

/// A block of instructions that is being translated; valid during the call that hands it over.
#[repr(C)]
pub(crate) struct Block {
    _opaque: [u8; 0],
}

/// One of its instructions; valid as long.
#[repr(C)]
pub(crate) struct Instruction {
    _opaque: [u8; 0],
}

/// What QEMU tells a plugin of the machine; not used.
#[repr(C)]
pub struct Info {
    _opaque: [u8; 0],
}

/// The function neither reads nor writes registers of the guest.
pub(crate) const NO_REGS: c_int = 0;

/// Loads and stores.
pub(crate) const READ_AND_WRITE: c_int = 3;

unsafe extern "C" {
    /// Has `translated` called for each block that is translated.
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(
        id: Id,
        translated: extern "C" fn(Id, *mut Block),
    );

    /// Has `ended` called when QEMU exits.
    pub(crate) fn qemu_plugin_register_atexit_cb(
        id: Id,
        ended: extern "C" fn(Id, *mut c_void),
        data: *mut c_void,
    );

    /// The number of instructions of a block.
    pub(crate) fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;

    /// An instruction of a block.
    pub(crate) fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;

    /// The virtual address of an instruction.
    pub(crate) fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;

    /// Has `executed` called with the CPU's number before each execution of this instruction.
    ///
    /// An instruction that turns out to reach a device in the middle of a block is left and begun anew as the last of a
    /// block of its own. QEMU (since 6.0) does not call for that second beginning.
    pub(crate) fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        executed: extern "C" fn(c_uint, *mut c_void),
        flags: c_int,
        data: *mut c_void,
    );

    /// Has `accessed` called with the CPU's number, what kind of access it is, and its virtual address, for each access of this
    /// instruction to memory that `which` names.
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        accessed: extern "C" fn(c_uint, u32, u64, *mut c_void),
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );

    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The version of the interface that this plugin is for; QEMU reads it when it has loaded the library.
///
/// QEMU 9.0 and later refuse version 1, those before know no other. Nothing else that is used here differs, so which one it
/// is is found out when the library is loaded: version 2 took `qemu_plugin_n_vcpus` away.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// Called by the loader, before QEMU looks for anything.
#[used]
#[unsafe(link_section = ".init_array")]
static FIND_VERSION: extern "C" fn() = find_version;

extern "C" fn find_version() {
    // SAFETY: the handle 0 (`RTLD_DEFAULT`) searches the program and its libraries; the name ends with a zero.
    let found = unsafe { dlsym(std::ptr::null_mut(), c"qemu_plugin_n_vcpus".as_ptr()) };
    if found.is_null() {
        qemu_plugin_version.store(2, Relaxed);
    }
}
