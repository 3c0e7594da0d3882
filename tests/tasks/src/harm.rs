//! What a task must not do, and what must not harm anyone.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_user::abi::{FIRST_REGION, REGION};
use takt_user::exit;

pub(crate) const WRITE: u64 = 1;

/// In the high half of what it is told: reads, writes or executes in the page of this number of those that tasks have.
const PEEK: u64 = 8;
const POKE: u64 = 9;
const EXECUTE: u64 = 10;

/// Where the task state segments are.
const SEGMENTS: usize = FIRST_REGION + 511 * REGION;

/// No task lies there, nor anything else.
const NOWHERE: usize = 0x7000_0000_0000;

/// A segment that the image's tests put there.
const ABSENT: u32 = 8 * 31 | 3;

/// In the kernel's image.
const KERNEL: usize = 0x100_0000;

/// Not zero at the beginning of a life.
static SEED: AtomicU64 = AtomicU64::new(0x5eed);

/// Uses stack without end.
#[inline(never)]
#[expect(unconditional_recursion, reason = "it is to run out of stack")]
fn recurse(depth: u64) -> u64 {
    let local = core::hint::black_box([depth; 16]);
    recurse(depth + 1) + local[(depth % 16) as usize]
}

/// Reads this many bytes from a port.
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one of them is carried out"
)]
fn read_port(port: u16, bytes: u64) {
    // SAFETY: none: it may stop the task, which is the test.
    unsafe {
        match bytes {
            1 => asm!("in al, dx", in("dx") port, out("al") _),
            2 => asm!("in ax, dx", in("dx") port, out("ax") _),
            _ => asm!("in eax, dx", in("dx") port, out("eax") _),
        }
    }
}

/// Does the harm of this number, or reads from the port of its low half as many bytes as its high half says; the numbers are those of the table in the tests of the image.
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "each is a harm of its own"
)]
pub(crate) fn run(which: u64) {
    let page = FIRST_REGION + 4096 * (which as usize & 0xffff) + 0x410;
    match which >> 16 {
        0 => {}
        PEEK => {
            // SAFETY: none: it may stop the task, which is the test.
            let value = unsafe { (page as *const u32).read_volatile() };
            exit(value.into());
        }
        POKE => {
            // SAFETY: as above.
            unsafe { (page as *mut u32).write_volatile(0x5eed) };
            exit(0);
        }
        EXECUTE => {
            // SAFETY: as above.
            let code = unsafe { core::mem::transmute::<usize, extern "C" fn()>(page) };
            code();
        }
        bytes => {
            read_port(which as u16, bytes);
            exit(0);
        }
    }
    let own = &raw const SEED as usize;
    // SAFETY: none: each stops the task, which is the test, or leaves registers that only the kernel could mind.
    unsafe {
        match which {
            0 => (KERNEL as *const u8).read_volatile().into(),
            WRITE => {
                (KERNEL as *mut u8).write_volatile(1);
                0
            }
            2 => core::mem::transmute::<usize, extern "C" fn() -> u64>(KERNEL)(),
            3 => core::mem::transmute::<usize, extern "C" fn() -> u64>(own)(),
            4 => {
                (run as *const () as *mut u8).write_volatile(1);
                0
            }
            5 => (16 as *const u64).read_volatile(),
            6 => recurse(0),
            7 => ((1usize << 63) as *const u64).read_volatile(),
            8 => {
                asm!("ud2");
                0
            }
            9 => {
                asm!("xor ecx, ecx", "div ecx", out("eax") _, out("ecx") _, out("edx") _);
                0
            }
            10 => {
                asm!("in al, 0x60", out("al") _);
                0
            }
            11 => {
                asm!("out 0x80, al", in("al") 0u8);
                0
            }
            12 => {
                asm!("hlt");
                0
            }
            13 => {
                asm!("cli");
                0
            }
            14 => {
                asm!("mov {}, cr3", out(reg) _);
                0
            }
            15 => {
                asm!("rdmsr", in("ecx") 0xc000_0080u32, out("eax") _, out("edx") _);
                0
            }
            16 => {
                asm!("sgdt [{}]", in(reg) &mut [0u8; 16]);
                0
            }
            17 => {
                asm!("int3");
                0
            }
            18 => {
                asm!("int 0x50");
                0
            }
            19 => {
                asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "nop");
                0
            }
            20 => (SEGMENTS as *const u8).read_volatile().into(),
            21 => {
                (SEGMENTS as *mut u8).write_volatile(0);
                0
            }
            23 => {
                asm!("fninit", "fldcw [{}]", "fldz", "fldz", "fdivp", "fwait", in(reg) &0x370u16);
                0
            }
            24 => {
                asm!("syscall", inout("rax") 999u64 => _, out("rcx") _, out("r11") _, out("rsi") _, out("rdx") _, out("rdi") _);
                0
            }
            25 => panic!("as it was told"),
            26 => {
                asm!("swapgs");
                0
            }
            27 => {
                asm!("mov ss, {:e}", "nop", in(reg) 0x10u32);
                0
            }
            28 => {
                // When it was is the address.
                asm!("rdtsc", "shl rdx, 32", "or rax, rdx", "mov al, [rax]", out("rax") _, out("rdx") _);
                0
            }
            // Harmless from here on: it has whatever it likes in its registers, is interrupted, calls, and faults only then.
            32 => {
                asm!("xor eax, eax", "mov gs, ax", "wrgsbase rax", "pushfq", "or qword ptr [rsp], 0x44400", "popfq",
                     "mov ecx, 2000000", "2: dec ecx", "jnz 2b",
                     "mov eax, [{}]", in(reg) KERNEL, out("eax") _, out("ecx") _);
                0
            }
            33 => {
                asm!("mov rax, -1", "wrgsbase rax", "std", "mov ecx, 2000000", "2: dec ecx", "jnz 2b",
                     "mov eax, 2", "syscall", "ud2", out("rax") _, out("rcx") _, out("r11") _, out("rdx") _, out("rsi") _, out("rdi") _);
                0
            }
            // A life finds what it began with.
            34 => {
                if SEED.swap(1, Relaxed) != 0x5eed {
                    exit(34);
                }
                asm!("ud2");
                0
            }
            // The same number in two registers, another one in each life.
            35 => {
                asm!("rdtsc", "mov r15, rax", "ud2", out("rax") _, out("rdx") _, out("r15") _);
                0
            }
            _ => raise(which),
        };
    }
    exit(97)
}

/// Those of `exceptions` in the tests of the image, and calls and jumps of nothing.
#[inline(never)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "each is a harm of its own"
)]
fn raise(which: u64) -> u64 {
    // SAFETY: none: each stops the task, which is the test.
    unsafe {
        match which {
            36 => {
                asm!("int 1");
                0
            }
            37 => {
                asm!("int 7");
                0
            }
            38 => {
                asm!("mov ss, {:e}", in(reg) ABSENT);
                0
            }
            39 => {
                asm!("mov ds, {:e}", in(reg) ABSENT);
                0
            }
            40 => {
                asm!("int 17");
                0
            }
            41 => {
                asm!("int 19");
                0
            }
            // An instruction that holds single step's exception up.
            42 => {
                asm!("mov {0:e}, ss", "pushfq", "or qword ptr [rsp], 0x100", "popfq", "mov ss, {0:e}", "nop", out(reg) _);
                0
            }
            43 => core::mem::transmute::<usize, extern "C" fn() -> u64>(core::hint::black_box(0))(),
            44 => {
                asm!("jmp {}", in(reg) NOWHERE);
                0
            }
            45..=50 => lie_about_callers(which),
            _ => exit(98),
        }
    }
}

/// Frames that no function has.
static FRAMES: [[AtomicU64; 2]; 40] = [const { [const { AtomicU64::new(0) }; 2] }; 40];

/// Faults with a frame pointer that leads to none of its own frames.
fn lie_about_callers(which: u64) -> u64 {
    let address = |frame: &[AtomicU64; 2]| frame.as_ptr().expose_provenance() as u64;
    let first = address(&FRAMES[0]);
    for (at, [next, to]) in FRAMES.iter().enumerate() {
        next.store(FRAMES.get(at + 1).map_or(0, address), Relaxed);
        to.store(run as *const () as u64 + 1, Relaxed);
    }
    let frame = match which {
        45 => KERNEL as u64,
        46 => u64::MAX - 7,
        // Half of it lies in the stack.
        47 => (FIRST_REGION + 4 * REGION - 8) as u64,
        // Frames without end, which go on in the kernel, and which go on in themselves.
        48 => first,
        49 => {
            FRAMES[1][1].store(KERNEL as u64 + 1, Relaxed);
            first
        }
        _ => {
            FRAMES[1][0].store(first, Relaxed);
            first
        }
    };
    // SAFETY: none: it stops the task.
    unsafe { asm!("mov rbp, {}", "ud2", in(reg) frame, options(noreturn)) }
}
