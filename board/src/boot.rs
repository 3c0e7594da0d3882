//! From the loader to long mode: the entry of PVH and Multiboot2.
//!
//! A PVH loader (QEMU `-kernel`, Firecracker, Cloud Hypervisor) finds the entry in an ELF note, a Multiboot2 loader (GRUB,
//! kexec) in the ELF header of a file that has Multiboot2's header in its first 32 KiB. Both jump to it in 32-bit protected
//! mode with paging off and `ebx` at their information; Multiboot2's leave a number in `eax`. Here the first gigabyte is
//! mapped by 2 MiB pages that anything is allowed on; the kernel completes these tables before the first thread runs. A CPU that
//! cannot get there is told of on the serial port (feature `reports`).
//! There is no header of Multiboot1: QEMU's `-kernel` would take it, and that loader knows no 64-bit files.
//!
//! Source: Xen's `docs/misc/pvh.pandoc` (start of day), Multiboot2 specification 2.0, 3.1 and 3.3, Intel SDM vol. 3A,
//! 9.8.5 (entering long mode).

use core::arch::global_asm;

use takt_kernel::config::IDLE_STACK_SIZE;
use takt_kernel::fault::ExitCode;
use takt_kernel::guarded_stack;
use takt_kernel::thread::GUARD;

guarded_stack! {
    /// The boot CPU's first stack; later that of its idle thread.
    static BOOT_STACK, BOOT_MEMORY: IDLE_STACK_SIZE
}

/// Top of that stack.
pub(crate) fn stack_top() -> usize {
    BOOT_STACK.top()
}

global_asm!(
    ".section .note.Xen, \"a\", @note",
    ".balign 4",
    ".long 4, 4, 18", // name size, description size, XEN_ELFNOTE_PHYS32_ENTRY
    ".asciz \"Xen\"",
    ".long boot_start32",
    //
    // The kernel's page tables begin with one of each level.
    ".set boot_level4, takt_page_tables",
    ".set boot_level3, takt_page_tables + 4096",
    ".set boot_level2, takt_page_tables + 8192",
    //
    ".section .rodata.boot, \"a\"",
    ".balign 8",
    "boot_gdt: .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff",
    "boot_gdt_pointer: .word 23",
    ".quad boot_gdt",
    //
    ".section .text.boot, \"ax\"",
    ".code32",
    ".global boot_start32",
    "boot_start32:",
    "cli",
    "cld",
    "mov esi, eax",
    "mov esp, offset {memory} + {stack_size}",
    ".if {REPORTS}",
    "push ebx",
    "mov eax, 1",
    "cpuid",
    "mov ebp, offset boot_no_apic",
    "bt edx, 9",
    "jnc boot_lacks",
    "mov eax, 0x80000000",
    "cpuid",
    "mov ebp, offset boot_no_long_mode",
    "cmp eax, 0x80000001",
    "jb boot_lacks",
    "mov eax, 0x80000001",
    "cpuid",
    "bt edx, 29",
    "jnc boot_lacks",
    "mov ebp, offset boot_no_nx",
    "bt edx, 20",
    "jnc boot_lacks",
    "pop ebx",
    ".endif",
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
    ".long boot_start64",
    ".word 8",
    //
    // Turns long mode on with the boot tables; changes eax, ecx, edx.
    "enter_long_mode_32:",
    "mov eax, cr4",
    "or eax, 0x660", // PAE, MCE, OSFXSR, OSXMMEXCPT
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
    // What the CPU lacks, in the words at ebp, goes to COM1: 115,200 bits a second. Nothing else is there yet.
    ".if {REPORTS}",
    "boot_lacks:",
    ".irp n, 0x3fb80,0x3f801,0x3f900,0x3fb03",
    "mov edx, \\n >> 8",
    "mov eax, \\n & 0xff",
    "out dx, al",
    ".endr",
    "2:",
    "mov bl, [ebp]",
    "inc ebp",
    "test bl, bl",
    "jz 4f",
    "mov ecx, 0x10000", // a port that is not there never has room
    "3:",
    "mov edx, 0x3fd",
    "in al, dx",
    "test al, 0x20",
    "loopz 3b",
    "mov edx, 0x3f8",
    "mov al, bl",
    "out dx, al",
    "jmp 2b",
    "4:",
    "mov eax, {FAULT}",
    "out {DEBUG_EXIT}, eax",
    "5:",
    "hlt",
    "jmp 5b",
    ".pushsection .rodata.boot",
    "boot_no_apic: .asciz \"\\n*** panic: this CPU has no local APIC, which the kernel needs\\n\"",
    "boot_no_long_mode: .asciz \"\\n*** panic: this CPU has no long mode, which the kernel needs\\n\"",
    "boot_no_nx: .asciz \"\\n*** panic: this CPU has no NX, which the kernel needs\\n\"",
    ".popsection",
    ".endif",
    //
    ".code64",
    "boot_start64:",
    "mov eax, 0x10",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "xor eax, eax",
    "mov fs, eax",
    "mov gs, eax",
    "mov rsp, offset {memory} + {stack_size}",
    "xor ebp, ebp",
    "mov ebx, edi",
    "mov r12d, esi",
    "call {map_stacks}",
    "mov edi, ebx",
    "mov esi, r12d",
    // The same memory, above its guard.
    "mov rsp, offset {stack} + {stack_size} + {guard}",
    "call {start}",
    "ud2",
    ".text",
    stack = sym BOOT_STACK,
    memory = sym BOOT_MEMORY,
    stack_size = const IDLE_STACK_SIZE,
    guard = const GUARD,
    REPORTS = const cfg!(feature = "reports") as u8,
    FAULT = const ExitCode::Fault as u32,
    DEBUG_EXIT = const crate::power::DEBUG_EXIT,
    map_stacks = sym takt_kernel::boot::map_stacks,
    start = sym crate::start::start,
);

/// Multiboot2's header and its tags.
#[cfg(feature = "multiboot2")]
#[repr(C, align(8))]
struct Header {
    magic: u32,
    architecture: u32,
    len: u32,
    checksum: u32,
    /// The console speaks EGA's text.
    #[cfg(feature = "console")]
    console: [u32; 4],
    /// And draws, best on so many pixels: its characters then fill the screen.
    #[cfg(feature = "console")]
    framebuffer: [u32; 6],
    end: [u32; 2],
}

#[cfg(feature = "multiboot2")]
impl Header {
    const MAGIC: u32 = 0xe852_50d6;
    const LEN: u32 = size_of::<Self>() as u32;
    /// In a tag's first word, behind its type: it may be passed over.
    #[cfg(feature = "console")]
    const OPTIONAL: u32 = 1 << 16;

    const fn new() -> Self {
        Self {
            magic: Self::MAGIC,
            architecture: 0, // i386, protected mode
            len: Self::LEN,
            checksum: 0u32.wrapping_sub(Self::MAGIC + Self::LEN),
            #[cfg(feature = "console")]
            console: [4 | Self::OPTIONAL, 12, 1 << 1, 0],
            #[cfg(feature = "console")]
            framebuffer: [5 | Self::OPTIONAL, 20, 800, 600, 32, 0],
            end: [0, 8],
        }
    }
}

/// An ELF file says all the rest itself.
#[cfg(feature = "multiboot2")]
#[used]
#[unsafe(link_section = ".multiboot2")]
static HEADER: Header = Header::new();
