//! Interrupts: from devices while the CPU is busy and while it is halted, unexpected ones, spurious ones, NMIs.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_kernel::irq::{self, Nmi};
use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Cycles, Expiry, Instant, Timer, sleep_until};
use takt_kernel::{Error, context, machine, preempt};
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::worker::{after_us, burn, join, spawn};
use takt_tests::{check, check_eq, check_err, interrupt, target_test};
use x86_64::registers::rflags;

static GO: Semaphore = Semaphore::new(0, 100);
static NR_NMIS: AtomicU32 = AtomicU32::new(0);

fn give() {
    let _ = GO.give();
}

/// Sleeps a little while, ten times, and notes each time that it runs.
fn ticker(_: usize) {
    for _ in 0..10 {
        let _ = sleep_until(after_us(100));
        note(1);
    }
}

fn take_permits(nr: usize) {
    for _ in 0..nr {
        let _ = GO.take();
        note(2);
    }
}

target_test! {
    /// A device's interrupt preempts a busy thread and comes when it was set to.
    fn device_interrupts_a_busy_thread(Shared) {
        let before = irq::count(0);
        interrupt::after_us(200, || note(1));
        burn(1_000_000);
        note(2);
        check_eq!(take(), [1, 2]);
        check_eq!(irq::count(0) - before, 1);
        Ok(())
    }

    /// A device's interrupt that finds the CPU halted wakes a thread; timer interrupts that come while that thread and
    /// others run afterwards are not taken for ones that found it halted.
    fn device_interrupts_the_halt(Shared) {
        for _ in 0..20 {
            interrupt::after_us(100, give);
            GO.take()?;
            let ticking = spawn(0, PRIORITY + 10, ticker, 0)?;
            let mut sum = 0u64;
            for i in 0..1_500u64 {
                burn(1_000);
                sum += i;
            }
            check_eq!(sum, 1_500 * 1_499 / 2);
            check_eq!(take(), [1; 10]);
            join(&[ticking])?;
        }
        Ok(())
    }

    /// Device and timer interrupts in turn, on a halted CPU, lose no wake-up.
    fn device_and_timer_in_turn(Shared) {
        let taker = spawn(0, PRIORITY + 10, take_permits, 100)?;
        for i in 0..100u64 {
            interrupt::after_us(30 + i, give);
            sleep_until(after_us(60 + i / 2))?;
            sleep_until(after_us(200))?;
        }
        join(&[taker])?;
        check_eq!(take().len(), 100);
        Ok(())
    }

    /// An interrupt of a vector that no one registered is counted and named; nothing else happens.
    fn unexpected_vectors_are_counted(Shared) {
        const UNUSED: u8 = irq::FIRST_DEVICE_VECTOR + 28;
        let before = irq::unexpected_count(0);
        // SAFETY: every gate leads to a stub that keeps all registers.
        unsafe { core::arch::asm!("int {}", const UNUSED) };
        check_eq!(irq::unexpected_count(0) - before, 1);
        check_eq!(irq::last_unexpected(), u32::from(UNUSED));
        // SAFETY: as above.
        unsafe { core::arch::asm!("int 0x80", "int 0x81", "int 0xfe") };
        check_eq!(irq::unexpected_count(0) - before, 4);
        Ok(())
    }

    /// An unexpected interrupt that the local APIC delivered is acknowledged: the next ones still come.
    fn unexpected_vectors_are_acknowledged(Shared) {
        let before = irq::unexpected_count(0);
        for vector in [0xe0, 0xe0, 0x70] {
            // SAFETY: no handler is registered for it, and the kernel expects that.
            unsafe { machine::send_ipi(interrupt::own_apic_id(), vector) };
            burn(1_000);
            check_eq!(irq::last_unexpected(), vector);
        }
        check_eq!(irq::unexpected_count(0) - before, 3);
        sleep_until(after_us(100))?;
        Ok(())
    }

    /// The spurious vector is counted and nothing is acknowledged.
    fn spurious_vector_is_counted(Shared) {
        let before = irq::unexpected_count(0);
        // SAFETY: as above.
        unsafe { core::arch::asm!("int 0xff") };
        check_eq!(irq::unexpected_count(0) - before, 1);
        sleep_until(after_us(100))?;
        Ok(())
    }

    /// A vector has one handler, and exceptions have none.
    fn handlers_are_registered_once(Shared) {
        extern "C" fn nothing(_: usize, _: Instant) {}
        check_err!(irq::register(interrupt::SOFTWARE, "nothing", nothing, 0), InvalidState);
        for vector in [0, 14, 31, 32, irq::TIMER_VECTOR, 255] {
            check_err!(irq::register(vector, "nothing", nothing, 0), InvalidArgument);
        }
        Ok(())
    }

    /// Wherever in the copying of overlapping memory an interrupt comes, its handler finds the direction flag clear, as
    /// the ABI demands.
    fn direction_is_forwards_in_interrupts(Shared) {
        const DIRECTION: u64 = 1 << 10;
        static BACKWARDS: AtomicU32 = AtomicU32::new(0);
        fn look(_: usize, _: Expiry) {
            note(1);
            if rflags::read_raw() & DIRECTION != 0 {
                BACKWARDS.fetch_add(1, Relaxed);
            }
        }
        let timer = Timer::new(look, 0)?;
        let mut bytes = [0u8; 64];
        for offset in 0..400 {
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = i as u8;
            }
            timer.arm(Instant::now() + Cycles::new(offset));
            let (to, len) = core::hint::black_box((1, 60));
            bytes.copy_within(..len, to);
            check!(bytes[0] == 0 && bytes[1..61].iter().enumerate().all(|(i, byte)| usize::from(*byte) == i));
            burn(1_000);
            check_eq!(take(), [1]);
        }
        check_eq!(BACKWARDS.load(Relaxed), 0);
        Ok(())
    }

    /// A non-maskable interrupt comes with interrupts off, is seen as such, and leaves everything as it was.
    fn nmi_comes_with_interrupts_off(Shared) {
        // SAFETY: it looks and counts.
        unsafe { irq::set_nmi_handler(check_nmi_context) };
        let guard = preempt::irq_save();
        for _ in 0..3 {
            interrupt::raise_nmi();
            burn(1_000);
        }
        drop(guard);
        check_eq!(NR_NMIS.load(Relaxed), 3);
        check!(!context::is_interrupt() && !preempt::is_resched_due());
        check_eq!(preempt::depth(), 0);
        sleep_until(after_us(100))?;
        Ok(())
    }

    /// What an NMI wants given is given by the interrupt that it raises.
    fn nmi_has_an_interrupt_give(Shared) {
        static AT_ONCE: AtomicU32 = AtomicU32::new(0);
        // SAFETY: it raises an interrupt, and looks.
        unsafe {
            irq::set_nmi_handler(|nmi| {
                interrupt::request_in_nmi(nmi, give);
                AT_ONCE.fetch_add(GO.count(), Relaxed);
            })
        };
        for _ in 0..100 {
            interrupt::raise_nmi();
            GO.take_until(after_us(500))?;
        }
        check_eq!(AT_ONCE.load(Relaxed), 0);
        // SAFETY: it does nothing.
        unsafe { irq::set_nmi_handler(|_| {}) };
        Ok(())
    }

    /// Waking a thread from an interrupt that interrupted the kernel's own idle loop works at every moment of it.
    fn wake_ups_around_the_halt(Shared) {
        // Interrupts from 1 µs on, while this thread is on its way to sleep and the idle thread to its halt.
        for us in 1..40 {
            interrupt::after_us(us % 8 + 1, give);
            burn(us * 37);
            GO.take_until(after_us(500))?;
        }
        check_eq!(GO.try_take().err(), Some(Error::WouldBlock));
        Ok(())
    }
}

fn check_nmi_context(nmi: &Nmi) {
    let is_inside = machine::image_range().contains(&nmi.interrupted_ip());
    if is_inside && context::is_nmi() && !irq::are_enabled() {
        NR_NMIS.fetch_add(1, Relaxed);
    }
}
