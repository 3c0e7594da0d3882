//! What is mapped, and how: nothing both writable and executable, nothing below a stack.

use core::arch::asm;

use takt_kernel::machine;
use takt_kernel::thread;
use takt_tests::harness::Failure;
use takt_tests::{check, check_eq, note, target_test};

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

fn entry(table: u64, index: u64) -> u64 {
    // SAFETY: page tables are mapped at their physical addresses.
    unsafe {
        ((table & ADDRESS) as *const u64)
            .add(index as usize)
            .read_volatile()
    }
}

fn root() -> u64 {
    let root: u64;
    // SAFETY: reading CR3 has no effect.
    unsafe { asm!("mov {}, cr3", out(reg) root, options(nomem, nostack, preserves_flags)) };
    root
}

/// Calls `leaf` for every mapping below a table, with its address and what all levels allow.
fn walk(table: u64, level: u32, base: u64, rights: u64, leaf: &mut impl FnMut(u64, u64)) {
    let shift = 12 + 9 * level;
    for index in 0..512 {
        let entry = entry(table, index);
        if entry & PRESENT == 0 {
            continue;
        }
        let address = base + (index << shift);
        // Writable where all levels say so, not executable where one says so.
        let rights = (rights & entry & WRITABLE) | ((rights | entry) & NO_EXECUTE);
        if level == 0 || (level < 3 && entry & LARGE != 0) {
            leaf(address, rights);
        } else {
            walk(entry, level - 1, address, rights, leaf);
        }
    }
}

fn is_mapped(address: u64) -> bool {
    let mut table = root();
    for level in (0..4).rev() {
        let entry = entry(table, address >> (12 + 9 * level) & 511);
        if entry & PRESENT == 0 {
            return false;
        }
        if level < 3 && entry & LARGE != 0 {
            return true;
        }
        table = entry;
    }
    true
}

target_test! {
    /// No page of the whole address space is both writable and executable, and only code is executable.
    fn nothing_is_writable_and_executable(Shared) {
        let (mut both, mut code, mut outside, mut pages) = (0, 0, 0, 0);
        let image = machine::image_range();
        walk(root(), 3, 0, WRITABLE, &mut |address, rights| {
            pages += 1;
            if rights & NO_EXECUTE == 0 {
                code += 1;
                both += u32::from(rights & WRITABLE != 0);
                outside += u32::from(!image.contains(&(address as usize)));
            }
        });
        note!("{pages} mappings, {code} of them executable");
        check_eq!((both, outside), (0, 0));
        check!(code > 0);
        Ok(())
    }

    /// What the memory map does not name is mapped once a device has memory there.
    fn devices_beyond_ram_are_mapped(Alone) {
        let all = || (0x3000_0000..0x4000_0000).chain(0x8000_0000..0xb000_0000).step_by(0x20_0000);
        check!(!all().any(is_mapped));
        machine::map_devices();
        check!(all().all(is_mapped));
        Ok(())
    }

    /// The page below every stack, of threads, of idle threads and of CPUs, is not mapped; the one above it is.
    fn every_stack_has_its_guard(Shared) {
        let (mut nr, mut wrong) = (0, None);
        let mut look = |guard: usize| {
            nr += 1;
            let (begin, end) = (guard as u64, (guard + thread::GUARD) as u64);
            if (begin..end).step_by(4096).any(is_mapped) || !is_mapped(end) {
                wrong = Some(guard);
            }
        };
        machine::for_each_guard(|guard, _| look(guard));
        thread::for_each_stack(&mut look);
        if let Some(guard) = wrong {
            return Err(Failure::new(format_args!("the guard at {guard:#x} is not as it should be")));
        }
        // Five for each CPU, the boot stack, the main thread's, the test's and some workers'.
        check!(nr > 5 * takt_kernel::config::MAX_CPUS + 13, "only {nr} stacks");
        check!(!is_mapped(0));
        Ok(())
    }
}
