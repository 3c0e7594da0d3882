//! From the loader to long mode: the PVH entry.
//!
//! The loader (QEMU `-kernel`, Firecracker, Cloud Hypervisor) finds the entry in an ELF note and jumps to it in 32-bit
//! protected mode with paging off and `ebx` at its start information. Here the first gigabyte is mapped by 2 MiB pages
//! that anything is allowed on; the kernel's own tables replace them before the first thread runs.
//!
//! Source: Xen's `docs/misc/pvh.pandoc` (start of day), Intel SDM vol. 3A, 9.8.5 (entering long mode).

use core::arch::global_asm;

use takt_kernel::arch::descriptors::GuardedStack;
use takt_kernel::config::IDLE_STACK_SIZE;

/// The boot CPU's first stack; later that of its idle thread.
static BOOT_STACK: GuardedStack<IDLE_STACK_SIZE> = GuardedStack::new();

takt_kernel::guard_stack!(BOOT_STACK);

/// Top of that stack.
pub(crate) fn stack_top() -> usize {
    BOOT_STACK.top()
}

/// Entry of `hvm_memmap_table_entry`, version 1.
#[repr(C)]
#[derive(Clone, Copy)]
struct MemoryRange {
    _address: u64,
    size: u64,
    kind: u32,
    _reserved: u32,
}

/// `hvm_start_info`, version 1.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    nr_modules: u32,
    modules: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    nr_memory_ranges: u32,
    _reserved: u32,
}

const START_MAGIC: u32 = 0x336e_c578;

/// What the loader told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Loader {
    pub(crate) command_line: &'static str,
    pub(crate) rsdp: u64,
    /// Bytes of RAM.
    pub(crate) ram: u64,
}

impl Loader {
    /// Reads the start information, while everything is still mapped.
    ///
    /// # Safety
    /// `info` is what the loader passed, and the first gigabyte is mapped.
    pub(crate) unsafe fn read(info: u64) -> Self {
        const GIGABYTE: u64 = 1 << 30;
        if info == 0 || info >= GIGABYTE {
            return Self::default();
        }
        // SAFETY: the loader's structure, below one gigabyte.
        let info = unsafe { &*(info as *const StartInfo) };
        if info.magic != START_MAGIC {
            return Self::default();
        }
        let mut loader = Self {
            rsdp: info.rsdp,
            ..Self::default()
        };
        if info.command_line != 0 && info.command_line < GIGABYTE {
            // SAFETY: a zero-terminated string of the loader.
            let text =
                unsafe { core::ffi::CStr::from_ptr(info.command_line as *const core::ffi::c_char) };
            loader.command_line = text.to_str().unwrap_or("");
        }
        if info.version >= 1 && info.memory_map != 0 && info.memory_map < GIGABYTE {
            let nr = (info.nr_memory_ranges as usize).min(128);
            // SAFETY: the loader's table of that many entries.
            let ranges =
                unsafe { core::slice::from_raw_parts(info.memory_map as *const MemoryRange, nr) };
            loader.ram = ranges
                .iter()
                .filter(|range| range.kind == 1)
                .map(|range| range.size)
                .sum();
        }
        loader
    }
}

global_asm!(
    ".section .note.Xen, \"a\", @note",
    ".balign 4",
    ".long 4, 4, 18", // name size, description size, XEN_ELFNOTE_PHYS32_ENTRY
    ".asciz \"Xen\"",
    ".long pvh_start32",
    //
    ".section .bss.boot, \"aw\", @nobits",
    ".balign 4096",
    "boot_level4: .skip 4096",
    "boot_level3: .skip 4096",
    "boot_level2: .skip 4096",
    //
    ".section .rodata.boot, \"a\"",
    ".balign 8",
    "boot_gdt: .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff",
    "boot_gdt_pointer: .word 23",
    ".quad boot_gdt",
    //
    ".section .text.boot, \"ax\"",
    ".code32",
    ".global pvh_start32",
    "pvh_start32:",
    "cli",
    "cld",
    "mov esp, offset {stack} + {stack_size}",
    // 512 pages of 2 MiB
    "mov edi, offset boot_level2",
    "mov eax, 0x83", // present, writable, large
    "mov ecx, 512",
    "2:",
    "mov [edi], eax",
    "add eax, 0x200000",
    "add edi, 8",
    "dec ecx",
    "jnz 2b",
    "mov eax, offset boot_level2 + 3",
    "mov [boot_level3], eax",
    "mov eax, offset boot_level3 + 3",
    "mov [boot_level4], eax",
    "call enter_long_mode_32",
    "mov edi, ebx",
    "lgdt [boot_gdt_pointer]",
    ".byte 0xea", // jmp far: not to be had in Intel syntax
    ".long pvh_start64",
    ".word 8",
    //
    // Turns long mode on with the boot tables; clobbers eax, ecx, edx.
    "enter_long_mode_32:",
    "mov eax, cr4",
    "or eax, 0x620", // PAE, OSFXSR, OSXMMEXCPT
    "mov cr4, eax",
    "mov eax, offset boot_level4",
    "mov cr3, eax",
    "mov ecx, 0xc0000080", // EFER: LME, NXE
    "rdmsr",
    "or eax, 0x900",
    "wrmsr",
    "mov eax, 0x80010033", // PG, WP, NE, ET, MP, PE
    "mov cr0, eax",
    "ret",
    //
    ".code64",
    "pvh_start64:",
    "mov eax, 0x10",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "xor eax, eax",
    "mov fs, eax",
    "mov gs, eax",
    "mov rsp, offset {stack} + {stack_size}",
    "xor ebp, ebp",
    "mov edi, edi",
    "call {start}",
    "ud2",
    ".text",
    stack = sym BOOT_STACK,
    stack_size = const IDLE_STACK_SIZE + 4096,
    start = sym crate::start::start,
);
