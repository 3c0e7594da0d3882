//! Segments, task state and the stacks that the CPU switches to by itself.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::Relaxed;

use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::segmentation::SegmentSelector;
use x86_64::structures::gdt::Descriptor;

use super::interrupts::{IST_DOUBLE_FAULT, IST_EXCEPTION, IST_MACHINE_CHECK, IST_NMI};
use super::percpu;
use crate::config::{EXCEPTION_STACK_SIZE, IRQ_STACK_SIZE, MAX_CPUS};

/// A stack below which one page is never mapped: running over its end is a page fault, caught on another stack.
#[repr(C, align(4096))]
pub struct GuardedStack<const SIZE: usize> {
    guard: [u8; 4096],
    memory: UnsafeCell<[u8; SIZE]>,
}

// SAFETY: a stack's memory is used by whoever runs on it; sharing its address is harmless.
unsafe impl<const SIZE: usize> Sync for GuardedStack<SIZE> {}

impl<const SIZE: usize> GuardedStack<SIZE> {
    /// A stack of zeros. Use [`guarded_stack!`](crate::guarded_stack).
    ///
    /// # Safety
    /// For a static whose guard page is unmapped before anything runs on the stack that might overflow it.
    #[must_use]
    pub const unsafe fn new() -> Self {
        const {
            assert!(
                SIZE.is_multiple_of(4096),
                "whole pages, so that the guard of the next one fits"
            )
        };
        Self {
            guard: [0; 4096],
            memory: UnsafeCell::new([0; SIZE]),
        }
    }

    /// Lowest usable address; the guard page lies below.
    #[must_use]
    pub const fn bottom(&self) -> *mut u8 {
        self.memory.get().cast()
    }

    /// One past the highest address.
    #[must_use]
    pub fn top(&self) -> usize {
        self.bottom() as usize + SIZE
    }

    /// Address of the guard page.
    #[must_use]
    pub fn guard(&self) -> usize {
        self.guard.as_ptr() as usize
    }
}

/// The stacks that belong to one CPU and not to a thread.
struct CpuStacks {
    irq: GuardedStack<IRQ_STACK_SIZE>,
    exceptions: [GuardedStack<EXCEPTION_STACK_SIZE>; 4],
}

static STACKS: [CpuStacks; MAX_CPUS] = [const {
    CpuStacks {
        // SAFETY: `for_each_guard` names it, by which `boot::memory` unmaps its guard.
        irq: unsafe { GuardedStack::new() },
        // SAFETY: `for_each_guard` names each of these, too.
        exceptions: [const { unsafe { GuardedStack::new() } }; 4],
    }
}; MAX_CPUS];

/// Calls `f` with the guard page and the name of every per-CPU stack.
pub fn for_each_guard(mut f: impl FnMut(usize, &'static str)) {
    // Unknown to the compiler, which would otherwise write the body out for each CPU: two kilobytes.
    for cpu in core::hint::black_box(&STACKS[..]) {
        f(cpu.irq.guard(), "interrupt");
        for (stack, name) in
            cpu.exceptions
                .iter()
                .zip(["double fault", "NMI", "machine check", "exception"])
        {
            f(stack.guard(), name);
        }
    }
}

/// The stack of a CPU that an address lies on: what `make` makes of its lowest address, the one above its highest and
/// whether it is the interrupt stack, not one of the exceptions'.
#[inline(always)]
pub(crate) fn cpu_stack<T>(
    cpu: usize,
    address: usize,
    make: impl Fn(usize, usize, bool) -> T,
) -> Option<T> {
    let stacks = STACKS.get(cpu)?;
    let irq = (stacks.irq.bottom() as usize, stacks.irq.top());
    if (irq.0..irq.1).contains(&address) {
        return Some(make(irq.0, irq.1, true));
    }
    // Unknown to the compiler, as above.
    core::hint::black_box(&stacks.exceptions[..])
        .iter()
        .find_map(|stack| {
            let (bottom, top) = (stack.bottom() as usize, stack.top());
            (bottom..top)
                .contains(&address)
                .then(|| make(bottom, top, false))
        })
}

/// Sets up and loads this CPU's segments, task state and stacks.
///
/// # Safety
/// Once on each CPU, after `percpu::init`, with interrupts off.
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one sequence of register writes"
)]
pub(crate) unsafe fn init() {
    let block = percpu::this();
    let stacks = &STACKS[block.number() as usize];
    block.irq_stack_top.store(stacks.irq.top(), Relaxed);
    // SAFETY: nothing of this CPU uses them yet.
    let (tss, gdt) = unsafe { (&mut *block.tss.get(), &mut *block.gdt.get()) };
    for (ist, stack) in [IST_DOUBLE_FAULT, IST_NMI, IST_MACHINE_CHECK, IST_EXCEPTION]
        .into_iter()
        .zip(&stacks.exceptions)
    {
        tss.interrupt_stack_table[usize::from(ist)] = VirtAddr::new(stack.top() as u64);
    }
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    // SAFETY: the block is static, so the TSS lives as long as the CPU runs.
    let tss = unsafe { Descriptor::tss_segment_unchecked(block.tss.get()) };
    let tss = gdt.append(tss);
    // SAFETY: the table is part of a static and is not changed any more.
    unsafe { gdt.load_unsafe() };
    // SAFETY: the selectors are those just made; GS is left alone because loading it would clear its base.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        DS::set_reg(SegmentSelector::NULL);
        ES::set_reg(SegmentSelector::NULL);
        load_tss(tss);
    }
}

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
    static __text_start: u8;
    static __text_end: u8;
}

/// Where the image lies in memory.
#[must_use]
pub fn image_range() -> core::ops::Range<usize> {
    &raw const __image_start as usize..&raw const __image_end as usize
}

/// Where the image's code lies in memory.
#[must_use]
pub(crate) fn text_range() -> core::ops::Range<usize> {
    &raw const __text_start as usize..&raw const __text_end as usize
}
