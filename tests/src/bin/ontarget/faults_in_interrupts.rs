//! Every fault once more where nobody expects it: in the function of a timer, and in the handler of a device's interrupt. The
//! report says what and where it was, that it was in an interrupt, and upon which thread that came. Each ends its machine.

use core::arch::asm;

use takt_kernel::time::{Expiry, Timer};
use takt_tests::descriptors::{ABSENT, SELECTOR, install};
use takt_tests::worker::{after_us, burn};
use takt_tests::{check, interrupt, target_test};

use crate::faults::{NOWHERE, deliver, fault_without_a_gate, recurse};

/// Declares faults, each with what its report says and the code that provokes it: a function of `cause`, and a test for each
/// kind of interrupt.
macro_rules! faults {
    ($($(#[doc = $doc:literal])* fn $name:ident [$($text:literal),+] $body:block)*) => {
        mod cause {
            use super::*;

            $(#[inline(never)] pub(super) fn $name() $body)*
        }

        mod of_a_timer {
            use super::*;

            target_test! {$(
                $(#[doc = $doc])*
                fn $name(Fault(&[
                    $($text,)+ "'test'", "in an interrupt", concat!("cause::", stringify!($name), " ("), "timer_interrupt (", "takt_irq_timer",
                ])) {
                    fn expired(_: usize, _: Expiry) {
                        cause::$name();
                    }
                    Timer::new(expired, 0)?.arm(after_us(10));
                    burn(100_000);
                    check!(false, "no fault came");
                    Ok(())
                }
            )*}
        }

        mod of_a_device {
            use super::*;

            target_test! {$(
                $(#[doc = $doc])*
                fn $name(Fault(&[
                    $($text,)+ "'test'", "in an interrupt", concat!("cause::", stringify!($name), " ("), "takt_irq_device",
                ])) {
                    interrupt::after_us(10, cause::$name);
                    burn(100_000);
                    check!(false, "no fault came");
                    Ok(())
                }
            )*}
        }
    };
}

/// One instruction, or some, that fault.
macro_rules! asm_fault {
    ($($arguments:tt)*) => {
        // SAFETY: none: it faults, which is the test.
        unsafe { asm!($($arguments)*) }
    };
}

faults! {
    /// Memory that is not there.
    fn page_fault ["*** #PF page fault", "writing 0x0000001000000000: not mapped"] {
        asm_fault!("mov byte ptr [{}], 1", in(reg) NOWHERE);
    }

    /// A selector beyond the descriptor table.
    fn general_protection ["*** #GP general protection"] {
        asm_fault!("mov ds, {0:x}", in(reg) 0xfff8);
    }

    /// An instruction that there is not.
    fn invalid_opcode ["*** #UD invalid opcode"] {
        asm_fault!("ud2");
    }

    /// Dividing by zero.
    fn divide_error ["*** #DE divide error"] {
        asm_fault!("xor ecx, ecx", "div ecx", out("ecx") _, out("eax") _, out("edx") _);
    }

    /// The trap flag.
    fn single_step ["*** #DB debug exception"] {
        asm_fault!("pushfq", "or qword ptr [rsp], 0x100", "popfq", "nop");
    }

    /// The trap flag, and an instruction that holds its exception up.
    fn shadow_of_mov_ss ["*** #DB debug exception"] {
        asm_fault!("mov {0:e}, ss", "pushfq", "or qword ptr [rsp], 0x100", "popfq", "mov ss, {0:e}", "nop", out(reg) _);
    }

    /// The debug exception by its vector: QEMU takes `icebp` for a debugger's.
    fn icebp ["*** #DB debug exception"] {
        asm_fault!("int 1");
    }

    /// A breakpoint instruction.
    fn breakpoint ["*** #BP breakpoint"] {
        asm_fault!("int3");
    }

    /// Vector registers while the task-switched flag forbids them.
    fn device_not_available ["*** #NM device not available"] {
        asm_fault!("mov {0}, cr0", "or {0}, 8", "mov cr0, {0}", "addps xmm0, xmm0", out(reg) _, out("xmm0") _);
    }

    /// A stack segment that is not present.
    fn stack_fault ["*** #SS stack fault"] {
        install(ABSENT);
        asm_fault!("mov ss, {0:x}", in(reg) SELECTOR);
    }

    /// Its gate is entered as the CPU would: ring 0 cannot raise it.
    fn alignment_check ["*** #AC alignment check"] {
        deliver(17, 0);
    }

    /// A division by zero of the x87 unit, not masked.
    fn x87_error ["*** #MF x87 floating-point error"] {
        asm_fault!("fninit", "fldcw [{}]", "fld1", "fldz", "fdivp", "fwait", in(reg) &0x037bu16);
    }

    /// By its vector: QEMU's vector unit raises none.
    fn simd_error ["*** #XM SIMD floating-point exception"] {
        asm_fault!("int 19");
    }

    /// A fault that no gate is there for.
    fn double_fault ["*** #DF double fault"] {
        fault_without_a_gate();
        // Who has called it is in the report, if it comes back to there.
        asm_fault!("nop");
    }

    /// A machine check by its vector, where no bank has anything.
    fn machine_check_without_a_bank ["*** #MC machine check"] {
        asm_fault!("int 18");
    }

    /// A call of where nothing is.
    fn null_call ["*** #PF page fault", "executing 0x0000000000000000: not mapped"] {
        asm_fault!("call {}", in(reg) 0usize, clobber_abi("C"));
    }
}

/// The host has one come, which no interrupts that are off keep away.
#[inline(never)]
fn await_machine_check() {
    takt_tests::harness::ask_for_machine_check();
    burn(60_000_000_000);
}

target_test! {
    /// A machine check that the host injects.
    fn machine_check_of_a_timer(MachineCheck(&["*** #MC machine check", "bank 1: status 0xbd", "'test'", "in an interrupt", "await_machine_check (", "timer_interrupt (", "takt_irq_timer"])) {
        fn expired(_: usize, _: Expiry) {
            await_machine_check();
        }
        Timer::new(expired, 0)?.arm(after_us(10));
        burn(100_000);
        check!(false, "none came");
        Ok(())
    }

    /// The same in a device's.
    fn machine_check_of_a_device(MachineCheck(&["*** #MC machine check", "bank 1: status 0xbd", "'test'", "in an interrupt", "await_machine_check (", "takt_irq_device"])) {
        interrupt::after_us(10, await_machine_check);
        burn(100_000);
        check!(false, "none came");
        Ok(())
    }
}

/// What a report says of the interrupts' stack.
const OVERFLOW: &[&str] = &[
    "*** #PF page fault",
    "writing 0x",
    "not mapped",
    "stack overflow of the CPU's stack 'interrupt'",
    "'test'",
    "in an interrupt",
    "recurse (",
];

fn overflow() {
    core::hint::black_box(recurse(0));
}

fn overflow_of_a_timer(_: usize, _: Expiry) {
    overflow();
}

target_test! {
    /// The interrupts' stack has an end, for timers.
    fn stack_overflow_of_a_timer(Fault(OVERFLOW)) {
        Timer::new(overflow_of_a_timer, 0)?.arm(after_us(10));
        burn(100_000);
        check!(false, "no fault came");
        Ok(())
    }

    /// And for devices.
    fn stack_overflow_of_a_device(Fault(OVERFLOW)) {
        interrupt::after_us(10, overflow);
        burn(100_000);
        check!(false, "no fault came");
        Ok(())
    }
}
