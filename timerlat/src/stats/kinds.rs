//! Enums that stand in a [`Status`](super::Status) as numbers: the order of their variants is part of its layout.

use takt_tracer::named;

named! {
    /// How far a run has come.
    #[derive(Default)]
    pub enum RunState {
        /// Not measuring yet.
        #[default]
        Booting = "booting",
        /// Measuring.
        Running = "running",
        /// The duration is over, or the host asked to stop; the results are complete.
        Done = "done",
        /// A stop threshold was exceeded; the results up to there are complete.
        Threshold = "threshold",
        /// A panic or an unexpected exception.
        Failed = "failed",
        /// The run could not be started or ended as asked; the log says why.
        Error = "error",
    }
}

named! {
    /// Where the guest has a clock's frequency from.
    #[derive(Default)]
    pub enum FrequencySource {
        /// Not known yet.
        #[default]
        Unknown = "unknown",
        /// The kernel command line: true by definition under icount.
        CommandLine = "command line",
        /// CPUID leaf 0x15, 0x16 or the hypervisor's leaf 0x4000_0010.
        Cpuid = "CPUID",
        /// Measured against the HPET.
        Hpet = "measured against the HPET",
        /// Measured against the ACPI PM timer.
        PmTimer = "measured against the ACPI PM timer",
        /// Measured against the PIT.
        Pit = "measured against the PIT",
    }
}

named! {
    /// Which of the latencies.
    #[derive(Default)]
    pub enum Measure {
        /// None: no threshold was hit.
        #[default]
        None = "none",
        /// From the timer's expiry to the interrupt handler.
        Irq = "IRQ",
        /// From the timer's expiry to the thread.
        Thread = "thread",
        /// From the timer's expiry to the end of the thread's work in user space.
        User = "user",
    }
}

named! {
    /// What a thread of the guest is doing.
    #[derive(Default)]
    pub enum ThreadState {
        /// No such thread.
        #[default]
        Unused = "unused",
        /// Running, or waiting for the CPU.
        Ready = "ready",
        /// Waiting for time or for an object.
        Blocked = "blocked",
        /// Suspended, or not started yet.
        Suspended = "suspended",
        /// Ended.
        Exited = "exited",
    }
}
