//! The machine: a PC, real or emulated, that boots by PVH or Multiboot2.
//!
//! * `boot`, `loader`, `start`: from the loader to the first thread. An image says [`entry!`] with its main function.
//! * [`cmdline`]: run parameters. [`clocks`]: frequencies. `acpi`: tables.
//! * [`ioapic`], [`pci`]: where devices' interrupts come from, and PCI's functions.
//! * [`drivers`]: devices by interrupts, with the traits of embedded-hal and embedded-io. [`serial`], [`parallel`]: those that
//!   need none.
//! * `console`: what a person at the machine sees.
//! * [`log`]: defmt's logger. [`rtt`]: the log in memory, commands from the host. [`capture`]: frames to the host, over a virtio console.
//! * `control`: the thread that listens to the host; `tracing`: carries out what it and the command line set.
//! * `sweep`: sweeps, as the host asks for them.
//! * [`machine`]: what the machine says of itself that bears on latencies. [`power`]: the way out.
#![no_std]
#![cfg_attr(feature = "function", feature(patchable_function_entry))]
#![cfg_attr(
    not(all(feature = "image", feature = "capture", feature = "settings")),
    expect(
        dead_code,
        reason = "what starts the machine is built into images only, and some of it into those alone that use it"
    )
)]

#[cfg(feature = "devices")]
pub mod capture;
pub mod clocks;
#[cfg(feature = "console")]
pub mod console;
#[cfg(all(feature = "image", feature = "settings"))]
pub mod control;
#[cfg(feature = "devices")]
pub mod drivers;
#[cfg(feature = "devices")]
pub mod ioapic;
pub mod lock;
pub mod log;
pub mod machine;
pub mod parallel;
#[cfg(feature = "devices")]
pub mod pci;
pub mod power;
pub mod rtt;
pub mod serial;

mod acpi;
#[cfg(feature = "image")]
mod boot;
#[cfg(all(feature = "image", feature = "settings"))]
mod gate;
mod hpet;
#[cfg(all(feature = "image", feature = "command-line"))]
mod kept;
#[cfg(any(feature = "image", feature = "console", test))]
mod loader;
#[cfg(feature = "image")]
mod memory;
mod pic;
#[cfg(feature = "image")]
pub mod smp;
#[cfg(feature = "image")]
mod start;
#[cfg(all(feature = "image", feature = "workload"))]
pub mod sweep;
#[cfg(all(feature = "image", feature = "tasks"))]
pub mod tasks;
#[cfg(all(feature = "image", feature = "settings"))]
mod tracing;
mod uart;
#[cfg(feature = "devices")]
mod virtio;

/// Run parameters.
pub use takt_tracer::control::cmdline;
#[cfg(all(feature = "image", feature = "settings"))]
pub use tracing::carry_out;

#[cfg(feature = "image")]
pub use start::{boot_time, end, set_idle_hook};

/// For macros: a path from the root is the caller's to say what it means.
#[doc(hidden)]
pub use core as __core;

/// Declares the image's main function, `fn(&'static str)`: it runs as the first thread, of priority 50, and is given
/// the command line. When it returns, the run has passed.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        // By whole paths from a crate of ours: where it is called a name may mean something else.
        #[unsafe(no_mangle)]
        extern "Rust" fn takt_main(command_line: &'static $crate::__core::primitive::str) {
            let main: fn(&'static $crate::__core::primitive::str) = $main;
            main(command_line);
        }

        #[panic_handler]
        fn panic(info: &$crate::__core::panic::PanicInfo<'_>) -> ! {
            $crate::__panic(info)
        }

        const _: () = $crate::__is_no_toolchains($crate::__core::module_path!());

        $crate::__declared!();
    };
}

/// For [`entry!`]: what the toolchain's `core` may do with SSE registers is known by its name (`takt.ld`).
///
/// # Panics
/// If this is a module of a crate of that name.
#[doc(hidden)]
pub const fn __is_no_toolchains(path: &str) {
    assert!(
        !matches!(
            path.as_bytes(),
            b"core" | [b'c', b'o', b'r', b'e', b':', ..]
        ),
        "the image's crate is called as the toolchain's `core`: give it another name"
    );
}

/// For [`entry!`].
#[cfg(feature = "image")]
#[doc(hidden)]
pub use takt_kernel::fault::panic as __panic;

/// For [`entry!`].
#[cfg(not(all(feature = "image", feature = "tasks")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __declared {
    () => {};
}

#[cfg(test)]
mod tests {
    #[test]
    fn other_crates_have_other_names() {
        super::__is_no_toolchains("core_temperature::main");
        super::__is_no_toolchains("demo::core");
    }

    #[test]
    #[should_panic = "give it another name"]
    fn an_image_is_not_called_core() {
        super::__is_no_toolchains("core::main");
    }
}
