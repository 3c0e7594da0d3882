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

/// Bytes of address space below each stack that no memory backs: even code that goes that far down at once is caught.
pub const GUARD: usize = 64 << 10;

/// A stack with its guard: addresses in the window of the stacks. Running over the stack's end is a page fault, caught on
/// another stack.
#[repr(C, align(4096))]
pub struct GuardedStack<const SIZE: usize> {
    guard: UnsafeCell<[u8; GUARD]>,
    memory: UnsafeCell<[u8; SIZE]>,
}

/// The memory behind a stack's addresses. It is reached by those alone.
#[repr(C, align(4096))]
pub struct StackMemory<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: nobody reaches it here.
unsafe impl<const SIZE: usize> Sync for StackMemory<SIZE> {}

impl<const SIZE: usize> StackMemory<SIZE> {
    /// Zeros.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "meant for statics only")]
    pub const fn new() -> Self {
        Self(UnsafeCell::new([0; SIZE]))
    }
}

// SAFETY: a stack's memory is used by whoever runs on it; sharing its address is harmless.
unsafe impl<const SIZE: usize> Sync for GuardedStack<SIZE> {}

impl<const SIZE: usize> GuardedStack<SIZE> {
    /// A stack of zeros. Use [`guarded_stack!`](crate::guarded_stack).
    ///
    /// # Safety
    /// For a static in section `.bss.takt.window`, whose stack is mapped to a [`StackMemory`] before anything runs on it.
    #[must_use]
    pub const unsafe fn new() -> Self {
        const {
            assert!(
                SIZE > 0 && SIZE.is_multiple_of(4096),
                "whole pages, so that the guard of the next one fits, and at least one"
            )
        };
        Self {
            guard: UnsafeCell::new([0; GUARD]),
            memory: UnsafeCell::new([0; SIZE]),
        }
    }

    /// Lowest usable address; the guard lies below.
    #[must_use]
    pub const fn bottom(&self) -> *mut u8 {
        self.memory.get().cast()
    }

    /// One past the highest address.
    #[must_use]
    pub fn top(&self) -> usize {
        self.bottom() as usize + SIZE
    }

    /// Lowest address of the guard.
    #[must_use]
    pub fn guard(&self) -> usize {
        self.guard.get() as usize
    }
}

/// Bytes at the top of each exception's stack that are not used as one: there stands what `gs` begins at, for entries
/// from tasks.
pub(crate) const RESERVED: usize = if cfg!(feature = "tasks") { 16 } else { 0 };

/// The stacks that belong to one CPU and not to a thread.
#[repr(C)]
struct CpuStacks {
    irq: GuardedStack<IRQ_STACK_SIZE>,
    exceptions: [GuardedStack<EXCEPTION_STACK_SIZE>; 4],
}

#[unsafe(link_section = ".bss.takt.window")]
static STACKS: [CpuStacks; MAX_CPUS] = [const {
    CpuStacks {
        // SAFETY: `map_stacks` maps it.
        irq: unsafe { GuardedStack::new() },
        // SAFETY: it maps each of these, too.
        exceptions: [const { unsafe { GuardedStack::new() } }; 4],
    }
}; MAX_CPUS];

/// The memory of one CPU's stacks, in their order.
#[repr(C)]
struct CpuMemory {
    irq: StackMemory<IRQ_STACK_SIZE>,
    exceptions: [StackMemory<EXCEPTION_STACK_SIZE>; 4],
}

static MEMORY: [CpuMemory; MAX_CPUS] = [const {
    CpuMemory {
        irq: StackMemory::new(),
        exceptions: [const { StackMemory::new() }; 4],
    }
}; MAX_CPUS];

/// Maps every CPU's stacks: calls `map` with the lowest address of each, that of its memory, and its size.
pub(crate) fn map_stacks(map: &mut impl FnMut(usize, usize, usize)) {
    for cpu in crate::compact::counted(MAX_CPUS) {
        let (stacks, memory) = (&STACKS[cpu], &MEMORY[cpu]);
        let bottom = stacks.irq.bottom() as usize;
        map(bottom, memory.irq.0.get() as usize, IRQ_STACK_SIZE);
        for nr in crate::compact::counted(4) {
            let bottom = stacks.exceptions[nr].bottom() as usize;
            map(
                bottom,
                memory.exceptions[nr].0.get() as usize,
                EXCEPTION_STACK_SIZE,
            );
        }
    }
}

/// Calls `f` with the lowest address of the guard and the name of every per-CPU stack.
pub(crate) fn for_each_guard(mut f: impl FnMut(usize, &'static str)) {
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
    // Unknown to the compiler, which would otherwise write the look out for each stack.
    core::hint::black_box(&stacks.exceptions[..])
        .iter()
        .find_map(|stack| {
            super::proof::bounded!("exceptions' stacks that an address may lie on");
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
        let top = stack.top() - RESERVED;
        tss.interrupt_stack_table[usize::from(ist)] = VirtAddr::new(top as u64);
        #[cfg(feature = "tasks")]
        // SAFETY: the stack's own memory, in no one's use.
        unsafe {
            (top as *mut usize).write(percpu::gs_of(percpu::CpuRef::this()));
        };
    }
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    // As `ring3` expects them: first the data, then the code.
    #[cfg(feature = "tasks")]
    for task in [
        Descriptor::user_data_segment(),
        Descriptor::user_code_segment(),
    ] {
        let _ = gdt.append(task);
    }
    #[cfg(feature = "tasks")]
    // SAFETY: this CPU's own, which it is about to be told of; `boot::map_stacks` has mapped it.
    let tss = unsafe { super::ports::descriptor(block.number() as usize, tss) };
    #[cfg(not(feature = "tasks"))]
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
    // After a reset it is usable, and would be the first 64 KiB of memory: a task could take descriptors from there.
    #[cfg(feature = "tasks")]
    // SAFETY: the kernel has no selector of a local table.
    unsafe {
        core::arch::asm!("lldt {:x}", in(reg) 0u16, options(nostack, preserves_flags));
    };
}

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
    static __text_start: u8;
    static __text_end: u8;
    static __window_start: u8;
    static __window_end: u8;
}

/// Where the image lies in memory.
#[must_use]
pub fn image_range() -> core::ops::Range<usize> {
    &raw const __image_start as usize..&raw const __image_end as usize
}

/// Where stacks and their guards have their addresses.
#[must_use]
pub(crate) fn window_range() -> core::ops::Range<usize> {
    &raw const __window_start as usize..&raw const __window_end as usize
}

/// Where the image's code lies in memory.
#[must_use]
pub(crate) fn text_range() -> core::ops::Range<usize> {
    &raw const __text_start as usize..&raw const __text_end as usize
}
