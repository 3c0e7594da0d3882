//! Enums that stand in a [`Status`](super::Status) as numbers.

/// Declares an enum that travels as a `u32` (or smaller) and can be read back.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$vmeta])* $variant = $value,)+
        }

        impl $name {
            /// The variant with this number, if there is one.
            #[must_use]
            pub const fn from_raw(raw: u32) -> Option<Self> {
                match raw {
                    $($value => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

wire_enum! {
    /// How far a run has come.
    RunState {
        /// Not measuring yet.
        #[default]
        Booting = 0,
        /// Measuring.
        Running = 1,
        /// The duration is over, or the host asked to stop; the results are complete.
        Done = 2,
        /// A stop threshold was exceeded; the results up to there are complete.
        Threshold = 3,
        /// A panic or an unexpected exception.
        Failed = 4,
        /// The run could not be started or ended as asked; the log says why.
        Error = 5,
    }
}

wire_enum! {
    /// Where the guest has a clock's frequency from.
    FrequencySource {
        /// Not known yet.
        #[default]
        Unknown = 0,
        /// The kernel command line: true by definition under icount.
        CommandLine = 1,
        /// CPUID leaf 0x15, 0x16 or the hypervisor's leaf 0x4000_0010.
        Cpuid = 2,
        /// Measured against the HPET.
        Hpet = 3,
        /// Measured against the ACPI PM timer.
        PmTimer = 4,
        /// Measured against the PIT.
        Pit = 5,
    }
}

wire_enum! {
    /// Which of the two latencies.
    Measure {
        /// None: no threshold was hit.
        #[default]
        None = 0,
        /// From the timer's expiry to the interrupt handler.
        Irq = 1,
        /// From the timer's expiry to the thread.
        Thread = 2,
    }
}

wire_enum! {
    /// What a thread of the guest is doing.
    ThreadState {
        /// No such thread.
        #[default]
        Unused = 0,
        /// Running, or waiting for the CPU.
        Ready = 1,
        /// Waiting for time or for an object.
        Blocked = 2,
        /// Suspended, or not started yet.
        Suspended = 3,
        /// Ended.
        Exited = 4,
    }
}
