//! Logs in defmt's way, or gives the kernel what is no frame of its log.
#![no_std]
#![no_main]

use core::arch::asm;

use takt_user::abi::{Call, MAX_LOG};
use takt_user::{exit, sleep_until, time};

takt_user::entry!(main);

const SAYS: u64 = 0;
const BABBLES: u64 = 1;
const FLOODS: u64 = 2;

/// What logs while it is logged.
struct Interrupts;

impl defmt::Format for Interrupts {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::info!("in between");
        defmt::write!(f, "interrupts");
    }
}

fn main(what: u64) {
    match what {
        SAYS => says(),
        BABBLES => babbles(),
        FLOODS => (0..1000u32).for_each(|round| defmt::info!("round {=u32}", round)),
        _ => exit(99),
    }
}

fn says() {
    defmt::info!("x = {}", 7);
    defmt::warn!(
        "{=str} {=[u8]:x} {}",
        "text",
        [1, 2, 0xff],
        Some((1u8, -2i64))
    );
    defmt::error!("a slice {}", [1u16, 2, 3].as_slice());
    defmt::info!("{}", Interrupts);
    defmt::info!("{=[u8]}", [0; MAX_LOG]);
    defmt::debug!("not compiled in");
    takt_user::log!("in words");
}

/// Frames that begin as those of this task, and all else.
fn babbles() {
    // What a decoder may be led to.
    defmt::trace!("{=u64:iso8601s}", 0);
    let mut seed = 0x5eed_u32;
    let mut random = || {
        seed = seed.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        (seed >> 16) as u8
    };
    let mut bytes = [0u8; MAX_LOG];
    for number in 0..60 {
        bytes.fill_with(&mut random);
        // Half of them have the number of a format, with more or fewer elements than there are bytes for.
        if number % 2 == 0 {
            bytes[..6].copy_from_slice(&[number / 2, 0, 0xff, 0xff, 0xff, number]);
        }
        frame(bytes.as_ptr() as u64, (random() % MAX_LOG as u8).into());
    }
    // Addresses and lengths of nobody's.
    for (at, len) in [
        (0, 8),
        (u64::MAX, 8),
        (bytes.as_ptr() as u64, u64::MAX),
        (0x100_0000, 8),
    ] {
        frame(at, len);
    }
    sleep_until(time() + 200_000_000);
    defmt::info!("after all");
}

fn frame(at: u64, len: u64) {
    // SAFETY: the kernel reads there, if anything.
    unsafe {
        asm!(
            "syscall",
            inout("rax") Call::LogFrame as u64 => _,
            inout("rsi") at => _,
            inout("rdx") len => _,
            out("rcx") _, out("rdi") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
}
