//! Packs tasks: their pages as files, and Rust that declares what the kernel has to know.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use object::elf::{FileHeader64, PF_W, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};
use takt_abi::{OWN, REGION};
use takt_guest::apart;

use super::build::base;
use super::manifest::{Dma, Manifest, Mapped, Right, SemaphoreRight, Source, Task};
use super::{events, strings};
use events::Events;

const PAGE: usize = 4096;

/// A task's program.
pub(super) struct Program {
    entry: u64,
    /// Where its further threads begin, by their symbols.
    threads: HashMap<String, u64>,
    segments: Vec<Segment>,
    data: Segment,
    /// Bytes of the data, those that begin as zeros included.
    data_size: usize,
    /// Its ELF file, as the host reads it.
    elf: Vec<u8>,
    /// What it emits.
    pub(super) events: Events,
}

#[derive(Default)]
struct Segment {
    at: u64,
    bytes: Vec<u8>,
    is_code: bool,
}

impl Program {
    /// Where a further thread begins.
    fn entry_of(&self, thread: &str, task: &str) -> Result<u64> {
        let symbol = thread.replace('-', "_");
        let entry = self.threads.get(&symbol).with_context(|| {
            format!("the task `{task}` has no `takt_user::thread!({symbol}, …)` for its thread `{thread}`")
        })?;
        self.check_entry(thread, *entry)?;
        Ok(*entry)
    }

    /// Looks whether a thread begins in the code.
    fn check_entry(&self, name: &str, entry: u64) -> Result<()> {
        let is_there =
            |it: &&Segment| it.is_code && entry.wrapping_sub(it.at) < it.bytes.len() as u64;
        ensure!(
            self.segments.iter().any(|it| is_there(&it)),
            "`{name}` begins at {entry:#x}, where it has no code"
        );
        Ok(())
    }

    /// Reads the program out of an ELF file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let file = takt_base::input::read(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        apart::check(&file)?;
        let header = FileHeader64::<Endianness>::parse(&*file)?;
        let endian = header.endian()?;
        let mut program = Self {
            entry: header.e_entry(endian),
            threads: threads(&file)?,
            segments: Vec::new(),
            data: Segment::default(),
            data_size: 0,
            elf: file.clone(),
            events: Events::read(&file)?,
        };
        for segment in header.program_headers(endian, &*file)? {
            let size = segment.p_memsz(endian) as usize;
            if segment.p_type(endian) != PT_LOAD || size == 0 {
                continue;
            }
            let bytes = segment
                .data(endian, &*file)
                .ok()
                .context("a segment that is cut")?;
            let flags = segment.p_flags(endian);
            let loaded = Segment {
                at: segment.p_vaddr(endian),
                bytes: bytes.to_vec(),
                is_code: flags & PF_X != 0,
            };
            ensure!(
                loaded.at.is_multiple_of(PAGE as u64),
                "a segment that does not begin with a page"
            );
            if flags & PF_W != 0 {
                ensure!(!loaded.is_code, "a segment both writable and executable");
                ensure!(program.data_size == 0, "two segments of data");
                program.data = loaded;
                program.data_size = size.next_multiple_of(PAGE);
            } else {
                check_whole(loaded.bytes.len(), size)?;
                program.segments.push(loaded);
            }
        }
        strings::number(&mut program.elf)?;
        Ok(program)
    }

    /// Where it has its data, and how many bytes.
    pub(super) fn data(&self) -> (u64, u64) {
        (self.data.at, self.data_size as u64)
    }

    /// Looks whether a task's pages and its stack lie in the region of task `number`, each by itself, and whether it begins in
    /// its code: the kernel maps and enters what stands here.
    fn check(&self, number: usize, task: &Task, lowest: u64, mapped: &[Mapped]) -> Result<()> {
        let name = &task.name;
        let region = base(number)..base(number) + REGION as u64;
        // One page below the lowest stack is not mapped.
        let mut free = lowest.saturating_sub(PAGE as u64);
        let pages = |len: usize| len.next_multiple_of(PAGE) as u64;
        let fixed = self
            .segments
            .iter()
            .map(|it| (it.at, pages(it.bytes.len())));
        // What is written beyond the data's end does not come to a device's memory.
        let data = (self.data_size > 0).then_some((self.data.at, (self.data_size + PAGE) as u64));
        let mapped = mapped.iter().map(|it| (it.at, it.size));
        let mut all: Vec<_> = fixed.chain(data).chain(mapped).collect();
        all.sort_unstable();
        for (at, len) in all.into_iter().rev() {
            ensure!(
                at >= region.start && at <= free && len <= free - at,
                "the task `{name}` has {len} bytes at {at:#x}, for which there is no room in its {REGION} bytes at {:#x}",
                region.start
            );
            free = at;
        }
        self.check_entry(name, self.entry)?;
        ensure!(
            self.data.bytes.len() <= self.data_size,
            "the task `{name}` has more data than room for it"
        );
        Ok(())
    }
}

/// Looks whether a segment that is not written to is in the file as long as it is in memory: the kernel maps what the file has, and the
/// host takes addresses for the task's by what is in memory.
fn check_whole(in_file: usize, in_memory: usize) -> Result<()> {
    ensure!(
        in_file == in_memory,
        "a segment that is not written to has {in_file} bytes in the file and {in_memory} in memory: its code has a section without \
         contents (@nobits)"
    );
    Ok(())
}

/// Where the further threads begin that an ELF file declares, by their names.
fn threads(file: &[u8]) -> Result<HashMap<String, u64>> {
    let file = object::File::parse(file)?;
    let named = file.symbols().filter_map(|symbol| {
        let name = symbol.name().ok()?.strip_prefix("takt_thread_")?;
        Some((name.to_owned(), symbol.address()))
    });
    Ok(named.collect())
}

/// Writes the pages of tasks and what declares them into `dir`; gives the file of the latter. What has not changed is not written,
/// so that nothing is built anew for its sake.
pub(super) fn write(manifest: &Manifest, programs: &[Program], dir: &Path) -> Result<PathBuf> {
    let mut statics = String::from(
        "// Made by xtask.\n\
         use takt_kernel::task::{Aligned, Interrupt, KERNEL_STACK_SIZE, Mapping, Memory, Peer, Program, Segment, Task, UserStack};\n\
         use takt_kernel::thread_stack;\n",
    );
    for (number, region) in manifest.regions.iter().enumerate() {
        let size = region.size;
        writeln!(
            statics,
            "static REGION_{number}: Memory<{size}> = Memory::new();"
        )?;
    }
    let shared = manifest.semaphores.iter().map(|it| {
        let (initial, maximum) = (it.initial, it.maximum);
        format!("takt_kernel::sync::Semaphore::new({initial}, {maximum}), ")
    });
    writeln!(
        statics,
        "static SEMAPHORES: [takt_kernel::sync::Semaphore; {}] = [{}];",
        manifest.semaphores.len(),
        shared.collect::<String>()
    )?;
    let mut tasks = String::new();
    let mut elves = String::new();
    for (number, (task, program)) in manifest.tasks.iter().zip(programs).enumerate() {
        let mapped = manifest.mapped(number)?;
        let threads = manifest.threads(number);
        let lowest = threads.last().copied().unwrap_or(number);
        let lowest = manifest.stack_top(lowest) - manifest.tasks[lowest].stack;
        program.check(number, task, lowest, &mapped)?;
        let mut segments = String::new();
        for (nr, segment) in program.segments.iter().enumerate() {
            let mut bytes = segment.bytes.clone();
            bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
            let file = dir.join(format!("{}.{nr}", task.name));
            update(&file, &bytes)?;
            writeln!(
                statics,
                "static SEGMENT_{number}_{nr}: &Aligned<[u8]> = &Aligned(*core::include_bytes!({file:?}));"
            )?;
            let Segment { at, is_code, .. } = segment;
            write!(
                segments,
                "Segment {{ at: {at:#x}, bytes: &SEGMENT_{number}_{nr}.0, is_code: {is_code} }}, "
            )?;
        }
        let data = dir.join(format!("{}.data", task.name));
        update(&data, &program.data.bytes)?;
        let memory = program.data_size + task.stack as usize;
        let mut stacks = String::new();
        for thread in &threads {
            let (size, top) = (manifest.tasks[*thread].stack, manifest.stack_top(*thread));
            writeln!(
                statics,
                "static USER_STACK_{thread}: Memory<{size}> = Memory::new();"
            )?;
            write!(
                stacks,
                "UserStack {{ top: {top:#x}, memory: USER_STACK_{thread}.cell() }}, "
            )?;
        }
        writeln!(
            statics,
            "static SEGMENTS_{number}: &[Segment] = &[{segments}];\n\
             static MEMORY_{number}: Memory<{memory}> = Memory::new();\n\
             static DATA_{number}: &[u8] = core::include_bytes!({data:?});\n\
             static USER_STACKS_{number}: &[UserStack] = &[{stacks}];\n\
             static MAPPINGS_{number}: &[Mapping] = &[{}];\n\
             static INTERRUPTS_{number}: &[Interrupt] = &[{}];",
            mappings(&mapped)?,
            interrupts(manifest, task)?
        )?;
        let ranges = ports(manifest, task)?;
        if !ranges.is_empty() {
            writeln!(
                statics,
                "static PORTS_{number}: takt_kernel::task::Ports = takt_kernel::task::Ports::new(&[{ranges}]);"
            )?;
        }
        let (size, name) = (program.elf.len(), &task.name);
        let elf = dir.join(format!("{name}.elf"));
        update(&elf, &program.elf)?;
        for line in [
            format!(".long {size}, {}", name.len()),
            format!(".ascii {name:?}"),
            format!(".incbin {elf:?}"),
        ] {
            write!(elves, "{line:?}, ")?;
        }
    }
    for number in 0..manifest.tasks.len() {
        writeln!(
            statics,
            "static PEERS_{number}: &[Peer] = &[{}];\n\
             static GRANTED_{number}: &[takt_kernel::task::Granted] = &[{}];\n\
             thread_stack!(static STACK_{number}: KERNEL_STACK_SIZE);",
            peers(manifest, &manifest.tasks[number])?,
            semaphores(manifest, &manifest.tasks[number])?
        )?;
        tasks += &declare(manifest, programs, number)?;
    }
    // The host reads it for names of addresses; it is not loaded.
    writeln!(
        statics,
        "core::arch::global_asm!(\".pushsection .takt.task_elf, \\\"\\\", @progbits\", {elves} \".popsection\");"
    )?;
    let nr = manifest.tasks.len();
    // Those of further threads stand in their programs.
    let firsts = manifest.tasks.iter().zip(programs);
    let arguments: Vec<_> = firsts.map(|(task, _)| task.argument).collect();
    let nr_budgets = (manifest.tasks.iter())
        .filter(|task| task.budget_us.is_some())
        .count();
    let until = manifest.until.as_ref().and_then(|it| manifest.number(it));
    writeln!(
        statics,
        "const ARGUMENTS: &[u64] = &{arguments:?};\nconst UNTIL: Option<usize> = {until:?};\n\
         const NR_BUDGETS: usize = {nr_budgets};\n\
         const FEEDER: Option<(usize, u32)> = {:?};\n\
         const WITHOUT_DMA: &[(usize, usize)] = &[{}];\n\
         const PORTS_WITHOUT_DMA: &[(u16, u16)] = &[{}];",
        manifest.feeder(),
        without_dma(manifest)?,
        ports_without_dma(manifest)?
    )?;
    let source = dir.join("tasks.rs");
    update(
        &source,
        format!(
            "{statics}{}static TASKS: [Task; {nr}] = [\n{tasks}];\n",
            events::declare(programs)?
        )
        .as_bytes(),
    )?;
    Ok(source)
}

/// A task, or a further thread of one, as Rust.
fn declare(manifest: &Manifest, programs: &[Program], number: usize) -> Result<String> {
    let task = &manifest.tasks[number];
    let first = task.thread_of.unwrap_or(number);
    let program = &programs[first];
    let threads = manifest.threads(first);
    let is_first = first == number;
    let entry = match is_first {
        true => program.entry,
        false => program.entry_of(&task.name, &manifest.tasks[first].name)?,
    };
    let interrupts = match is_first {
        true => format!("INTERRUPTS_{first}"),
        false => "&[]".to_owned(),
    };
    let told = manifest.devices_of(task).filter_map(|it| it.interrupt);
    let told = told.fold(0, |all, it| all | it.notification);
    let ports = match ports(manifest, task)?.is_empty() {
        true => "None".to_owned(),
        false => format!("Some(&PORTS_{first})"),
    };
    let supervisor = task.supervisor.as_ref().and_then(|it| manifest.number(it));
    Ok(format!(
        "Task::new(Program {{ name: {:?}, argument: {}, first: {first}, threads: &{:?}, has_threads: {}, stacks: USER_STACKS_{first}, \
         priority: {}, cpu: {}, entry: {entry:#x}, rsp: {:#x}, base: {:#x}, segments: SEGMENTS_{first}, \
         data: DATA_{first}, data_at: {:#x}, data_size: {:#x}, memory: MEMORY_{first}.cell(), \
         supervisor: {supervisor:?}, budget: {}, watchdog: takt_kernel::time::Nanos::from_micros({}), is_timed: {}, peers: PEERS_{number}, semaphores: GRANTED_{number}, mappings: MAPPINGS_{first}, \
         interrupts: {interrupts}, interrupt_notifications: {told:#x}, events_at: {:#x}, events: {}, ports: {ports}, \
         stack: &STACK_{number} }}),\n",
        task.name,
        task.argument,
        if is_first { &threads[..] } else { &[] },
        !threads.is_empty(),
        task.priority,
        task.cpu,
        manifest.stack_top(number) - OWN as u64,
        base(first),
        program.data.at,
        program.data_size,
        budget(task),
        task.watchdog_us.unwrap_or_default(),
        task.budget().is_some() || task.watchdog_us.is_some(),
        program.events.at,
        events::of(programs, first),
    ))
}

/// A task's budget, as Rust.
fn budget(task: &Task) -> String {
    let Some((budget, period)) = task.budget() else {
        return "None".to_owned();
    };
    format!(
        "Some(takt_kernel::task::Budget {{ time: takt_kernel::time::Nanos::from_micros({budget}), \
         period: takt_kernel::time::Nanos::from_micros({period}), \
         overrun: takt_kernel::task::Overrun::{:?}, notification: {:#x} }})",
        task.overrun.unwrap_or_default(),
        task.overrun_notification.unwrap_or_default(),
    )
}

/// A task's ports, as ranges of Rust.
fn ports(manifest: &Manifest, task: &Task) -> Result<String> {
    let mut ranges = String::new();
    for ports in manifest.devices_of(task).flat_map(|it| &it.ports) {
        let last = ports.range().end - 1;
        write!(ranges, "{:#x}..={last:#x}, ", ports.first)?;
    }
    Ok(ranges)
}

/// The memory that a task has besides its own, as Rust.
fn mappings(mapped: &[Mapped]) -> Result<String> {
    let mut text = String::new();
    for mapped in mapped {
        let memory = match mapped.source {
            Source::Region(number, writes) => format!("Region(REGION_{number}.cell(), {writes})"),
            Source::Device(first) => format!("Device({first:#x}, {:#x})", mapped.size),
        };
        write!(
            text,
            "Mapping {{ at: {:#x}, memory: takt_kernel::task::Mapped::{memory} }}, ",
            mapped.at
        )?;
    }
    Ok(text)
}

/// A task's interrupts, as Rust. Their numbers are those of their devices.
fn interrupts(manifest: &Manifest, task: &Task) -> Result<String> {
    let mut text = String::new();
    for (number, device) in manifest.devices.iter().enumerate() {
        let Some(interrupt) = device.interrupt.filter(|_| device.task == task.name) else {
            continue;
        };
        let source = match (interrupt.isa, interrupt.pin) {
            (Some(isa), _) => format!("Isa({isa})"),
            (None, pin) => format!("Pin({})", pin.unwrap_or_default()),
        };
        write!(
            text,
            "Interrupt {{ device: {:?}, source: takt_kernel::task::Source::{source}, notification: {:#x}, number: {number} }}, ",
            device.name, interrupt.notification
        )?;
    }
    Ok(text)
}

/// The memory of devices of which the manifest says that they do not write to memory, as addresses and sizes of Rust.
fn without_dma(manifest: &Manifest) -> Result<String> {
    let mut text = String::new();
    let devices = manifest.devices.iter();
    for memory in devices
        .filter(|it| it.dma != Some(Dma::Trusted))
        .flat_map(|it| &it.memory)
    {
        write!(text, "({:#x}, {:#x}), ", memory.first, memory.size)?;
    }
    Ok(text)
}

/// The ports of such devices, as the first and the last of each range.
fn ports_without_dma(manifest: &Manifest) -> Result<String> {
    let mut text = String::new();
    let devices = manifest.devices.iter();
    for ports in devices
        .filter(|it| it.dma != Some(Dma::Trusted))
        .flat_map(|it| &it.ports)
    {
        let last = ports.range().end - 1;
        write!(text, "({:#x}, {last:#x}), ", ports.first)?;
    }
    Ok(text)
}

fn peers(manifest: &Manifest, task: &Task) -> Result<String> {
    let mut text = String::new();
    for peer in &task.peers {
        let number = manifest
            .number(&peer.task)
            .context("a peer that there is not")?;
        let right = |right: &Right| match right {
            Right::Call => takt_abi::rights::CALL,
            Right::Notify => takt_abi::rights::NOTIFY,
        };
        let rights = peer.rights.iter().map(right).fold(0, |all, it| all | it);
        let has_budget = manifest.tasks[number].budget().is_some();
        let short = if has_budget { 0 } else { rights };
        write!(
            text,
            "Peer {{ task: {number}, rights: {rights}, short: {short}, badge: {} }}, ",
            peer.badge
        )?;
    }
    Ok(text)
}

/// A task's semaphores, as Rust.
fn semaphores(manifest: &Manifest, task: &Task) -> Result<String> {
    let mut text = String::new();
    for granted in &task.semaphores {
        let mut all = manifest.semaphores.iter();
        let number = all
            .position(|it| it.name == granted.name)
            .context("a semaphore that there is not")?;
        let right = |right: &SemaphoreRight| match right {
            SemaphoreRight::Take => takt_abi::rights::TAKE,
            SemaphoreRight::Give => takt_abi::rights::GIVE,
        };
        let rights = granted.rights.iter().map(right).fold(0, |all, it| all | it);
        write!(
            text,
            "takt_kernel::task::Granted {{ number: {number}, rights: {rights} }}, "
        )?;
    }
    Ok(text)
}

pub(super) fn update(path: &Path, bytes: &[u8]) -> Result<()> {
    if takt_base::input::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_to_is_whole_in_the_file() {
        check_whole(0x12, 0x12).unwrap();
        assert!(check_whole(0x12, 0x50_0000).is_err());
    }
}
