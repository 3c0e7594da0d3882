//! From long mode to the first thread.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_kernel::config::{MAIN_STACK_SIZE, MAX_CPUS};
use takt_kernel::fault::{self, ExitCode};
use takt_kernel::machine::{self, Machine};
use takt_kernel::sync::SetOnce;
use takt_kernel::thread::Builder;
use takt_kernel::time::{self, Cycles, Instant, Nanos};
use takt_kernel::{boot as kernel_boot, irq, preempt, thread_stack};

use crate::acpi::{self, Root};
#[cfg(feature = "capture")]
use crate::capture;
use crate::cmdline::CommandLine;
#[cfg(feature = "console")]
use crate::console;
use crate::loader::{Loader, MemoryMap, NotRam, Protocol};
use crate::serial::Serial;
#[cfg(feature = "settings")]
use crate::tracing::Stage;
use crate::{clocks, pic, power};

const MAIN_PRIORITY: u8 = 50;
/// Whether more than the first gigabyte is mapped, and anyone looks for what is there.
const HAS_DEVICES: bool = cfg!(feature = "devices") || MAX_CPUS > 1;

struct Pc;

static PC: Pc = Pc;

impl Machine for Pc {
    fn emergency_write(&self, text: &[u8]) {
        #[cfg(feature = "capture")]
        capture::make_way();
        Serial::com1().write_bytes(text);
        #[cfg(feature = "console")]
        console::print_emergency(text);
    }

    fn exit(&self, code: ExitCode) {
        #[cfg(feature = "log")]
        crate::log::pump_last();
        #[cfg(feature = "capture")]
        capture::leave(code);
        power::exit(code);
    }

    fn idle(&self) {
        #[cfg(feature = "capture")]
        capture::idle();
        if let Some(hook) = IDLE_HOOK.get() {
            hook();
            assert!(
                irq::are_enabled() && preempt::depth() == 0,
                "the idle hook has left interrupts or preemption disabled"
            );
        }
    }
}

static IDLE_HOOK: SetOnce<fn()> = SetOnce::new();

/// Has `hook` called in each CPU's idle thread whenever it is about to halt; may be preempted at any point. One that leaves
/// interrupts or preemption disabled is a panic.
pub fn set_idle_hook(hook: fn()) {
    IDLE_HOOK.set(hook);
}

/// What [`boot_time`] gives, in cycles.
static BOOT_CYCLES: AtomicU64 = AtomicU64::new(0);

/// How long the boot took, from the first Rust code to the first thread.
#[must_use]
pub fn boot_time() -> Cycles {
    Cycles::new(BOOT_CYCLES.load(Relaxed))
}

thread_stack!(static MAIN_STACK: MAIN_STACK_SIZE);

unsafe extern "Rust" {
    fn takt_main(command_line: &'static str);
}

/// Says that the image does not lie in RAM that is its own, if it does not.
///
/// # Panics
/// Then.
fn check_room(room: Result<(), NotRam>) {
    let image = machine::image_range();
    if let Err(not_ram) = room {
        panic!(
            "the image needs the memory from {:#x} to {:#x}, and the loader says that {not_ram}: have less linked into it \
             (its thread stacks and the ring are the most of it), or give the machine more memory",
            image.start, image.end
        );
    }
}

/// What is kept of what the loader told.
struct Told {
    protocol: Protocol,
    command_line: &'static str,
    rsdp: Root,
    /// Bytes of RAM.
    ram: u64,
    /// To be read before page 0 goes.
    memory: MemoryMap<'static>,
    /// Whether the image lies in RAM that is its own.
    room: Result<(), NotRam>,
    /// Where RAM below 4 GiB ends.
    end_of_ram: u64,
    can_start_cpus: bool,
    #[cfg(feature = "console")]
    framebuffer: Option<crate::loader::Framebuffer>,
}

/// Reads all that the loader told. It may lie in the page of the null pointer, which is not mapped for long.
///
/// # Panics
/// If it cannot be read.
///
/// # Safety
/// As [`Loader::read`].
unsafe fn ask_loader(info: u64, magic: u32) -> Told {
    // SAFETY: the caller's duty.
    let loader = match unsafe { Loader::read(info, magic) } {
        Ok(loader) => loader,
        Err(why) => panic!("{why}"),
    };
    #[cfg(feature = "tasks")]
    crate::tasks::check_ram(&loader.memory);
    let image = machine::image_range();
    Told {
        protocol: loader.protocol,
        #[cfg(feature = "command-line")]
        command_line: crate::kept::keep(&loader),
        #[cfg(not(feature = "command-line"))]
        command_line: "",
        rsdp: loader.rsdp,
        ram: loader.memory.ram(),
        memory: match HAS_DEVICES {
            true => loader.memory,
            false => MemoryMap::UNKNOWN,
        },
        end_of_ram: match HAS_DEVICES {
            true => loader.memory.end_of_ram(),
            false => 0,
        },
        room: loader.memory.check(image.start as u64..image.end as u64),
        #[cfg(feature = "console")]
        framebuffer: loader.framebuffer,
        can_start_cpus: loader.memory.check(crate::smp::TRAMPOLINE_RANGE).is_ok(),
    }
}

/// First Rust code: with the address of the loader's information, and the number that the loader left in `eax`. It moves
/// structures by more SSE registers than interrupts keep elsewhere.
#[unsafe(link_section = ".text.sse.start")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn start(info: u64, magic: u32) -> ! {
    let began = Instant::now();
    machine::set_machine(&PC);
    // SAFETY: once, on the boot CPU, with interrupts off.
    unsafe { kernel_boot::early(crate::boot::stack_top()) };
    Serial::com1().set_divisor(1);
    pic::mask_all();
    pic::stop_legacy_timers();
    // SAFETY: the loader's registers, the boot tables map the first gigabyte, and only the image was written to.
    let told = unsafe { ask_loader(info, magic) };
    let command_line = told.command_line;
    let line = CommandLine(command_line);
    #[cfg(feature = "settings")]
    crate::tracing::apply(&line, Stage::Boot);
    // SAFETY: after `early`.
    if unsafe { kernel_boot::memory(told.memory.named()) }.is_err() {
        panic!("the image is larger than the static page tables");
    }
    #[cfg(feature = "tasks")]
    // SAFETY: once, behind `memory`.
    unsafe {
        crate::tasks::install();
    };
    // SAFETY: once, behind `memory`, and the framebuffer is the loader's.
    #[cfg(feature = "console")]
    unsafe {
        console::start(&line, told.protocol, told.framebuffer);
    };
    check_room(told.room);
    let rsdp = match line.number("acpi_rsdp", 0) {
        Ok(address @ 1..) => Root::At(address),
        _ => told.rsdp,
    };
    // The only CPU and its timer are known without them.
    #[cfg_attr(
        not(feature = "devices"),
        expect(unused_mut, reason = "its parts are the devices'")
    )]
    let mut tables = match HAS_DEVICES {
        true => acpi::read(rsdp).without_ram(told.end_of_ram),
        false => acpi::Tables::default(),
    };
    #[cfg(feature = "devices")]
    {
        crate::ioapic::init(core::mem::take(&mut tables.wiring));
        #[cfg(feature = "tasks")]
        crate::tasks::wire_all();
        crate::pci::config::init(tables.ecam);
        #[cfg(feature = "tasks")]
        crate::tasks::check_devices(&tables);
        crate::drivers::init(&tables);
    }
    let (clocks, sources) = clocks::find(&line, &tables);
    // SAFETY: after `memory`.
    unsafe { kernel_boot::scheduling(clocks) };
    let margin = line.number("halt_margin_ns", 0).unwrap_or(0);
    time::set_halt_margin(Nanos::new(margin).to_cycles());
    #[cfg(feature = "capture")]
    capture::start_as_told(line.get("capture"), command_line);
    defmt::info!(
        "Takt {=str}, by {=str}: tsc {=u64} Hz ({=str}), local APIC timer {=u64} Hz ({=str}), {=u64} MiB of RAM",
        env!("CARGO_PKG_VERSION"),
        told.protocol.name(),
        clocks.tsc_hz,
        sources.tsc.name(),
        clocks.apic_hz,
        sources.lapic.name(),
        told.ram >> 20,
    );
    #[cfg(feature = "console")]
    console::print(format_args!(
        "Takt {}, by {}, {} MiB of RAM\n{command_line}\n\
         TSC               {} Hz, {}{}\nlocal APIC timer  {} Hz, {}\n",
        env!("CARGO_PKG_VERSION"),
        told.protocol.name(),
        told.ram >> 20,
        clocks.tsc_hz,
        sources.tsc.name(),
        if machine::TscFacts::is_invariant() {
            ""
        } else {
            ", NOT INVARIANT"
        },
        clocks.apic_hz,
        sources.lapic.name(),
    ));
    clocks::publish(clocks, sources);
    if MAX_CPUS > 1 {
        set_cpus(&told, tables.cpus);
    }
    let main = Builder::new("main", MAIN_PRIORITY)
        .and_then(|builder| builder.spawn(&MAIN_STACK, main_thread, 0));
    if main.is_err() {
        panic!("the first thread could not be created");
    }
    BOOT_CYCLES.store(Instant::now().cycles() - began.cycles(), Relaxed);
    // SAFETY: after `scheduling`, on the boot stack.
    unsafe { kernel_boot::run() }
}

/// Notes the CPUs that can be started.
fn set_cpus(told: &Told, cpus: acpi::ApicIds) {
    if told.can_start_cpus {
        crate::smp::set_cpus(cpus);
    } else {
        defmt::warn!("one CPU only: the page where the others begin is no RAM");
    }
}

fn main_thread(_: usize) {
    #[cfg(feature = "command-line")]
    let text = crate::kept::command_line();
    #[cfg(not(feature = "command-line"))]
    let text = "";
    #[cfg(feature = "settings")]
    crate::tracing::apply(&CommandLine(text), Stage::Thread);
    // SAFETY: the image's `entry!` defines it with this signature.
    unsafe { takt_main(text) };
    end(ExitCode::Passed)
}

/// Ends the run: hands over what is recorded, then leaves the machine.
pub fn end(code: ExitCode) -> ! {
    #[cfg(feature = "capture")]
    capture::finish(code);
    fault::exit(code)
}
