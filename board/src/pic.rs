//! The legacy interrupt controllers and timers, silenced: interrupts come from the local APIC.

use takt_kernel::machine::Port;

fn write(port: u16, value: u8) {
    // SAFETY: the ports belong to the PICs, the PIT and the RTC.
    unsafe { Port::<u8>::new(port).write(value) };
}

fn read(port: u16) -> u8 {
    // SAFETY: as `write`.
    unsafe { Port::<u8>::new(port).read() }
}

/// Moves both 8259s away from the exception vectors and masks every line.
///
/// Source: Intel 8259A data sheet, initialisation command words.
pub(crate) fn mask_all() {
    for (command, base, cascade) in [(0x20u16, 0xf0u8, 4u8), (0xa0, 0xf8, 2)] {
        write(command, 0x11);
        write(command + 1, base);
        write(command + 1, cascade);
        write(command + 1, 0x01);
        write(command + 1, 0xff);
    }
}

/// Stops the PIT's and the RTC's periodic ticks that a firmware may have started.
///
/// Source: Intel 8254 data sheet (mode 0 counts once); MC146818A data sheet, register B.
pub(crate) fn stop_legacy_timers() {
    write(0x43, 0x30); // channel 0, mode 0, and no count: never fires
    write(0x70, 0x8b);
    let b = read(0x71);
    write(0x70, 0x8b);
    write(0x71, b & !0x70); // no periodic, alarm or update interrupt
    write(0x70, 0x0d);
}

/// Waits for `ticks` (up to 65,535) of the PIT's 1,193,182 Hz, by polling channel 2.
pub(crate) fn wait_pit(ticks: u16) {
    let gate = read(0x61);
    write(0x61, (gate & !0x02) | 0x01);
    write(0x43, 0xb0); // channel 2, low then high byte, mode 0
    write(0x42, ticks as u8);
    write(0x42, (ticks >> 8) as u8);
    while read(0x61) & 0x20 == 0 {
        core::hint::spin_loop();
    }
    write(0x61, gate);
}

/// Frequency of the PIT in Hz.
pub(crate) const PIT_HZ: u64 = 1_193_182;
