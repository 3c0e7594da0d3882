//! Devices that the manifest gives a task.

use core::arch::asm;

use crate::{Error, syscall};

/// A port of a device; [`port!`](crate::port) gives it by the device's name. One that the task was not given stops it (#GP).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Port(u16);

/// Reads and writes of one width.
macro_rules! accesses {
    ($($read:ident $write:ident $type:ty: $in:literal $out:literal $register:tt,)*) => {
        impl Port {
            $(
                /// Reads it.
                ///
                /// # Safety
                /// A device may write to memory for that.
                #[inline(always)]
                #[must_use]
                pub unsafe fn $read(self) -> $type {
                    let value;
                    // SAFETY: the caller's duty.
                    unsafe { asm!($in, in("dx") self.0, out($register) value, options(nostack, preserves_flags)) };
                    value
                }

                /// Writes it.
                ///
                /// # Safety
                /// As for reading.
                #[inline(always)]
                pub unsafe fn $write(self, value: $type) {
                    // SAFETY: the caller's duty.
                    unsafe { asm!($out, in("dx") self.0, in($register) value, options(nostack, preserves_flags)) };
                }
            )*
        }
    };
}

accesses! {
    read_u8 write_u8 u8: "in al, dx" "out dx, al" "al",
    read_u16 write_u16 u16: "in ax, dx" "out dx, ax" "ax",
    read_u32 write_u32 u32: "in eax, dx" "out dx, eax" "eax",
}

impl Port {
    /// The one of this number.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The one so far behind it.
    #[inline(always)]
    #[must_use]
    pub const fn behind(self, offset: u16) -> Self {
        Self(self.0.wrapping_add(offset))
    }
}

/// The number that the manifest gives the task by a name. A task that was not given it does not link.
#[doc(hidden)]
#[macro_export]
macro_rules! given {
    ($($name:literal),+) => {{
        unsafe extern "C" {
            #[link_name = concat!("__takt_", $($name),+)]
            static GIVEN: u8;
        }
        // Its address is the number.
        &raw const GIVEN as usize
    }};
}

/// Lets the devices' interrupts come again whose notifications these are. Each is masked from when it comes until then, and at
/// the beginning of a life. Whoever acknowledges an interrupt of the ISA bus, which is told once when it begins, looks behind that
/// what the device wants, or may miss what came in between.
///
/// # Errors
/// [`Error::NoHandle`] if one is no interrupt of the task's.
pub fn acknowledge(notifications: u32) -> Result<(), Error> {
    syscall::acknowledge(notifications)
}

/// The notification of the interrupt of the device of this name.
#[macro_export]
macro_rules! interrupt {
    ($device:literal) => {
        $crate::given!("interrupt_", $device) as u32
    };
}

/// The memory that the manifest names so; `$name` in two parts.
#[doc(hidden)]
#[macro_export]
macro_rules! memory_named {
    ($($name:literal),+) => {
        ::core::ptr::slice_from_raw_parts_mut(
            $crate::given!($($name),+) as *mut u8,
            $crate::given!("size_", $($name),+),
        )
    };
}

/// The region of this name that the task shares with others: a pointer to its bytes. Writing where the manifest allows to read is a
/// fault.
#[macro_export]
macro_rules! region {
    ($name:literal) => {
        $crate::memory_named!("region_", $name)
    };
}

/// The memory of the device of this name; of several ranges, the one of that number. Its registers are read and written by volatile
/// accesses.
#[macro_export]
macro_rules! memory {
    ($device:literal) => {
        $crate::memory!($device, 0)
    };
    ($device:literal, $range:literal) => {
        $crate::memory_named!("memory_", $device, "_", $range)
    };
}

/// The first port of the device of this name; of several ranges, the one of that number.
#[macro_export]
macro_rules! port {
    ($device:literal) => {
        $crate::port!($device, 0)
    };
    ($device:literal, $range:literal) => {
        $crate::device::Port::new($crate::given!("port_", $device, "_", $range) as u16)
    };
}
