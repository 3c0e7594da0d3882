//! What tasks must not do: each stops the task with the exact kind and address, and nothing else.

use core::arch::asm;

use takt_abi::FaultKind::{self, *};
use takt_kernel::task::{Ended, Fault, all, start_on};
use takt_kernel::thread::{self, State};
use takt_kernel::time::{Expiry, Instant, Nanos, Timer, sleep};
use takt_tests::harness::Failure;
use takt_tests::{check, check_eq, check_err, note, target_test};

use crate::{KEEPER, SERVER, VICTIM, start};

/// Where the victim's region lies.
const OWN: core::ops::Range<u64> = 0x80_0060_0000..0x80_0080_0000;
/// The last region's place, which is no task's.
const SEGMENTS: u64 = 0x80_3fe0_0000;
/// In the kernel's image.
const KERNEL: u64 = 0x100_0000;

/// What the victim is told, what becomes of it, and what a page fault is about. For #AC, #NM, #NP, #SS, #XM and `icebp` see `exceptions`.
const HARM: &[(u32, FaultKind, Option<u64>)] = &[
    (0, PageFault, Some(KERNEL)),
    (1, PageFault, Some(KERNEL)),
    (2, PageFault, Some(KERNEL)),
    (3, PageFault, None),
    (4, PageFault, None),
    (5, PageFault, Some(16)),
    (6, PageFault, None),
    (7, GeneralProtection, None),
    (8, InvalidOpcode, None),
    (9, DivideError, None),
    (10, GeneralProtection, None),
    (11, GeneralProtection, None),
    (12, GeneralProtection, None),
    (13, GeneralProtection, None),
    (14, GeneralProtection, None),
    (15, GeneralProtection, None),
    (16, GeneralProtection, None),
    (17, Breakpoint, None),
    (18, GeneralProtection, None),
    (19, Debug, None),
    // Where the task state segments are.
    (20, PageFault, Some(SEGMENTS)),
    (21, PageFault, Some(SEGMENTS)),
    (23, X87, None),
    (24, IllegalCall, Some(999)),
    (25, Panic, None),
    (26, GeneralProtection, None),
    (27, GeneralProtection, None),
    // Calls of nothing, and a jump to where nothing is.
    (43, PageFault, Some(0)),
    (44, PageFault, Some(0x7000_0000_0000)),
    (32, PageFault, Some(KERNEL)),
    (33, InvalidOpcode, None),
];

/// Has the victim do harm, and says how it was stopped.
fn stopped(what: u32) -> Result<Fault, Failure> {
    stopped_as(VICTIM, what)
}

/// The same of this task.
fn stopped_as((task, _): (usize, u64), what: u32) -> Result<Fault, Failure> {
    match start((task, VICTIM.1), what)?.end()? {
        Ended::Stopped(fault) => Ok(fault),
        Ended::Exited(code) => Err(Failure::new(format_args!("{what:#x} ended with {code}"))),
    }
}

/// What this task ends with.
fn code_of((task, _): (usize, u64), what: u32) -> Result<u64, Failure> {
    match start((task, VICTIM.1), what)?.end()? {
        Ended::Exited(code) => Ok(code),
        Ended::Stopped(fault) => Err(Failure::new(format_args!("{what:#x}: {fault}"))),
    }
}

fn tick(_: usize, _: Expiry) {}

/// Has the chip set's registers elsewhere; gives where they were. Source: Intel ICH9 data sheet, 13.1.35 (RCBA).
fn move_registers(to: u32) -> u32 {
    const RCBA: u32 = 0x8000_f8f0;
    let before;
    // SAFETY: nobody else uses these registers, nor PCI's configuration space, while tests run.
    unsafe {
        asm!("out dx, eax", in("dx") 0xcf8u16, in("eax") RCBA);
    }
    // SAFETY: likewise, and that is the register that was chosen.
    unsafe {
        asm!("in eax, dx", in("dx") 0xcfcu16, out("eax") before);
    }
    // SAFETY: the same register.
    unsafe {
        asm!("out dx, eax", in("dx") 0xcfcu16, in("eax") to);
    }
    before
}

target_test! {
    /// Memory, instructions and ports that it does not have, exceptions that it raises itself, calls that there are not;
    /// whatever it has in registers.
    fn whatever_a_task_does_stops_it_alone(Shared) {
        for &(what, kind, address) in HARM {
            let fault = stopped(what)?;
            check_eq!((what, fault.kind), (what, kind));
            if let Some(address) = address {
                check_eq!((what, fault.address), (what, address));
            }
            check!(OWN.contains(&fault.rip) || matches!(what, 2 | 3 | 43 | 44), "{what} at {:#x}", fault.rip);
        }
        Ok(())
    }

    /// The error code says what was done, where the stack ends is one page of nothing, and registers are as they were.
    fn a_fault_says_what_was_done(Shared) {
        let [read, write, execute] = [stopped(0)?, stopped(1)?, stopped(3)?];
        check_eq!([read.code, write.code, execute.code], [5, 7, 0x15]);
        check!(OWN.contains(&execute.address), "data at {:#x}", execute.address);
        check_eq!(stopped(4)?.code, 7);
        let overflow = stopped(6)?;
        check!((OWN.end - 8192..OWN.end - 4096).contains(&overflow.address), "{:#x}", overflow.address);
        Ok(())
    }

    /// Frame pointers to nothing, to the kernel, in circles: whom the log names is for the host to see.
    fn callers_are_the_tasks_own(Shared) {
        for what in 45..=50 {
            check_eq!(stopped(what)?.kind, InvalidOpcode);
        }
        check_eq!(stopped(25)?.kind, Panic);
        Ok(())
    }

    /// Ports to the byte: those that the manifest gives it, and none beside them, however wide it reads; other tasks' neither.
    fn a_task_has_its_ports_alone(Shared) {
        const OWN: [(u32, u32); 4] = [(0x1237, 1), (0x1238, 1), (0x1237, 2), (0xffff, 1)];
        const OTHERS: [(u32, u32); 10] = [
            (0x1236, 1), (0x1239, 1), (0x1236, 2), (0x1238, 2), (0x1235, 4), (0x1237, 4), (0xfffe, 1), (0xffff, 2), (0x2f8, 1), (0, 1),
        ];
        for (port, bytes) in OWN {
            start(VICTIM, bytes << 16 | port)?.succeeds()?;
        }
        for (port, bytes) in OTHERS {
            check_eq!((port, bytes, stopped(bytes << 16 | port)?.kind), (port, bytes, GeneralProtection));
        }
        // Nor has another task what this one has.
        check_eq!(stopped_as(KEEPER, 1 << 16 | 0x1237)?.kind, GeneralProtection);
        check_eq!(code_of(KEEPER, 1 << 16 | 0x2fe)?, 0);
        check_eq!(stopped_as(KEEPER, 1 << 16 | 0x2ff)?.kind, GeneralProtection);
        Ok(())
    }

    /// A region is its tasks' alone, each as the manifest says; it keeps what is in it. A device's memory is the device's.
    fn regions_are_shared_as_they_are_declared(Shared) {
        const PEEK: u32 = 8 << 16;
        const POKE: u32 = 9 << 16;
        const EXECUTE: u32 = 10 << 16;
        // Below the stack and a page of nothing, by the number of the page; behind another page the device's.
        const SHARED: [u32; 3] = [0x1fd, 0x3fd, 0x7fd];
        const DEVICE: u32 = SHARED[2] - 2;
        const FAULTS: &[((usize, u64), u32, u64)] = &[
            (SERVER, POKE | SHARED[1], 7),
            (SERVER, EXECUTE | SHARED[1], 0x15),
            (VICTIM, EXECUTE | SHARED[2], 0x15),
            (VICTIM, EXECUTE | DEVICE, 0x15),
            (VICTIM, PEEK | SHARED[1], 4),
            (VICTIM, PEEK | (SHARED[2] + 1), 4),
            (VICTIM, PEEK | (SHARED[2] - 1), 4),
            (VICTIM, PEEK | (DEVICE - 1), 4),
            (KEEPER, PEEK | SHARED[0], 4),
            (SERVER, PEEK | (SHARED[1] - 2), 4),
        ];
        start(VICTIM, POKE | SHARED[2])?.succeeds()?;
        check_eq!(code_of(SERVER, PEEK | SHARED[1])?, 0x5eed);
        for &(task, what, code) in FAULTS {
            let fault = stopped_as(task, what)?;
            check_eq!((what, fault.kind, fault.code), (what, PageFault, code));
        }
        let before = move_registers(0xe000_0001);
        // SAFETY: a register of the chip set, which is only read.
        let register = unsafe { (0xe000_3410_usize as *const u32).read_volatile() };
        let found = code_of(VICTIM, PEEK | DEVICE);
        move_registers(before);
        check!(register != 0 && register != u32::MAX, "{register:#x}");
        check_eq!(found?, register.into());
        Ok(())
    }

    /// While a task goes round with a `gs`, a direction and an alignment of its own, interrupts come as ever, and the timer of
    /// a more important thread is exact.
    fn interrupts_do_not_mind(Shared) {
        let timer = Timer::new(tick, 0)?;
        for what in [32, 33] {
            let victim = start(VICTIM, what)?;
            for _ in 0..20 {
                let begun = Instant::now();
                timer.arm(Instant::after(Nanos::from_micros(5)));
                sleep(Nanos::from_micros(10))?;
                let took = (Instant::now() - begun).to_nanos();
                let late = took - Nanos::from_micros(10);
                check!(late < Nanos::from_micros(1), "{late:?} late");
            }
            check!(matches!(victim.end()?, Ended::Stopped(_)), "{what} was not stopped");
        }
        Ok(())
    }

    /// One that was started with a priority of its own has that in each life, also where it could not be started once more meanwhile.
    fn a_life_begins_with_the_priority_of_the_first(Shared) {
        let keeper = start(KEEPER, 2)?;
        let (number, role) = VICTIM;
        let victim = start_on(number, role << 32 | 34, 0, Some(33))?;
        check_err!(start_on(number, 0, 0, Some(77)), InvalidState);
        let found = || {
            let mut found = None;
            thread::for_each(|info| {
                if info.name == all()[number].name() {
                    found = Some((info.priority, info.state));
                }
            });
            found
        };
        let priority = || found().map(|it| it.0);
        let has_ended = || found().is_some_and(|it| it.1.contains(State::EXITED));
        let first = all()[number].generation();
        check_eq!(priority(), Some(33));
        // The keeper is more important than this thread, and the victim is not.
        while all()[number].generation() == first {
            sleep(Nanos::from_micros(1))?;
        }
        // It may be over already.
        while !all()[number].is_alive() && !has_ended() {
            sleep(Nanos::from_micros(1))?;
        }
        check_eq!(priority(), Some(33));
        victim.join(Instant::after(Nanos::from_secs(1)))?;
        start(crate::CLIENT, 6)?.succeeds()?;
        keeper.succeeds()
    }

    /// None is started with a priority that there is not, to stay at the highest.
    fn a_priority_that_there_is_not(Shared) {
        let (number, role) = VICTIM;
        check_err!(start_on(number, role << 32, 0, Some(100)), InvalidArgument);
        check!(!all()[number].is_alive());
        Ok(())
    }

    /// A task that faults over and over has no more lines in the log than one that logs.
    fn a_flood_of_faults_is_not_logged(Alone) {
        const LIVES: u32 = 1000;
        let keeper = start(KEEPER, LIVES)?;
        let begun = Instant::now();
        let victim = start(VICTIM, 9)?;
        let ended = victim.end()?;
        let each = (Instant::now() - begun).to_nanos() / u64::from(LIVES);
        check!(matches!(ended, Ended::Stopped(_)), "it was {ended:?}");
        note!("{each:?} a life");
        check!(each < Nanos::from_micros(4), "a life takes {each:?}");
        start(crate::CLIENT, 6)?.succeeds()?;
        keeper.succeeds()
    }

    /// Its supervisor has it begin anew twice: its data are as at first, each time.
    fn a_life_begins_with_what_it_began_with(Shared) {
        let keeper = start(KEEPER, 2)?;
        // It is less important than this thread, and has yet to do anything.
        let victim = start(VICTIM, 34)?;
        let first = all()[VICTIM.0].generation();
        let Ended::Stopped(fault) = victim.end()? else {
            return Err(Failure::new(format_args!("it was not stopped")));
        };
        check_eq!(fault.kind, InvalidOpcode);
        check_eq!(all()[VICTIM.0].generation(), first + 2);
        start(crate::CLIENT, 6)?.succeeds()?;
        keeper.succeeds()
    }

    /// How a task's life ended is read as a whole, while it begins anew and ends again at any instruction of that.
    fn an_end_is_read_whole(Shared) {
        const LIVES: u32 = 300;
        const SLOWLY: u32 = 1 << 31;
        let keeper = start(KEEPER, SLOWLY | LIVES)?;
        let victim = start(VICTIM, 35)?;
        let task = &all()[VICTIM.0];
        let last = task.generation() + LIVES;
        // All of them are more important than this thread from now on.
        thread::current().set_priority(10)?;
        let mut nr_read = 0;
        while task.generation() != last {
            if let Some(Ended::Stopped(fault)) = task.ended() {
                nr_read += 1;
                check_eq!(fault.registers[0], fault.registers[14]);
            }
        }
        check!(nr_read > LIVES, "read {nr_read} times");
        let ended = victim.end()?;
        check!(matches!(ended, Ended::Stopped(_)), "it was {ended:?}");
        start(crate::CLIENT, 6)?.succeeds()?;
        keeper.succeeds()
    }
}
