//! Packs tasks: their pages as files, and Rust that declares what the kernel has to know.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use object::Endianness;
use object::elf::{FileHeader64, PF_W, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use takt_abi::REGION;

use super::build::base;
use super::manifest::{Dma, Manifest, Mapped, Right, Source, Task};
use super::{events, strings};
use events::Events;

const PAGE: usize = 4096;

/// A task's program.
pub(super) struct Program {
    entry: u64,
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
    /// Reads the program out of an ELF file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let file = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let header = FileHeader64::<Endianness>::parse(&*file)?;
        let endian = header.endian()?;
        let mut program = Self {
            entry: header.e_entry(endian),
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
    fn check(&self, number: usize, task: &Task, mapped: &[Mapped]) -> Result<()> {
        let name = &task.name;
        let region = base(number)..base(number) + REGION as u64;
        // One page below the stack is not mapped.
        let mut free = region.end.saturating_sub(task.stack + PAGE as u64);
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
        let is_there =
            |it: &&Segment| it.is_code && self.entry.wrapping_sub(it.at) < it.bytes.len() as u64;
        ensure!(
            self.segments.iter().any(|it| is_there(&it)),
            "the task `{name}` begins at {:#x}, where it has no code",
            self.entry
        );
        ensure!(
            self.data.bytes.len() <= self.data_size,
            "the task `{name}` has more data than room for it"
        );
        Ok(())
    }
}

/// Writes the pages of tasks and what declares them into `dir`; gives the file of the latter. What has not changed is not written,
/// so that nothing is built anew for its sake.
pub(super) fn write(manifest: &Manifest, programs: &[Program], dir: &Path) -> Result<PathBuf> {
    let mut statics = String::from(
        "// Made by xtask.\n\
         use takt_kernel::task::{Aligned, Interrupt, KERNEL_STACK_SIZE, Mapping, Memory, Peer, Program, Segment, Task};\n\
         use takt_kernel::thread_stack;\n",
    );
    for (number, region) in manifest.regions.iter().enumerate() {
        let size = region.size;
        writeln!(
            statics,
            "static REGION_{number}: Memory<{size}> = Memory::new();"
        )?;
    }
    let mut tasks = String::new();
    let mut elves = String::new();
    for (number, (task, program)) in manifest.tasks.iter().zip(programs).enumerate() {
        let mapped = manifest.mapped(number)?;
        program.check(number, task, &mapped)?;
        let mut segments = String::new();
        for (nr, segment) in program.segments.iter().enumerate() {
            let mut bytes = segment.bytes.clone();
            bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
            let file = dir.join(format!("{}.{nr}", task.name));
            update(&file, &bytes)?;
            writeln!(
                statics,
                "static SEGMENT_{number}_{nr}: &Aligned<[u8]> = &Aligned(*include_bytes!({file:?}));"
            )?;
            let Segment { at, is_code, .. } = segment;
            write!(
                segments,
                "Segment {{ at: {at:#x}, bytes: &SEGMENT_{number}_{nr}.0, is_code: {is_code} }}, "
            )?;
        }
        writeln!(
            statics,
            "static SEGMENTS_{number}: &[Segment] = &[{segments}];"
        )?;
        writeln!(
            statics,
            "static PEERS_{number}: &[Peer] = &[{}];",
            peers(manifest, task)?
        )?;
        let data = dir.join(format!("{}.data", task.name));
        update(&data, &program.data.bytes)?;
        let memory = program.data_size + task.stack as usize;
        writeln!(
            statics,
            "static MEMORY_{number}: Memory<{memory}> = Memory::new();"
        )?;
        writeln!(
            statics,
            "thread_stack!(static STACK_{number}: KERNEL_STACK_SIZE);"
        )?;
        writeln!(
            statics,
            "static MAPPINGS_{number}: &[Mapping] = &[{}];",
            mappings(&mapped)?
        )?;
        writeln!(
            statics,
            "static INTERRUPTS_{number}: &[Interrupt] = &[{}];",
            interrupts(manifest, task)?
        )?;
        let told = manifest.devices_of(task).filter_map(|it| it.interrupt);
        let told = told.fold(0, |all, it| all | it.notification);
        let ranges = ports(manifest, task)?;
        let mut ports = "None".to_owned();
        if !ranges.is_empty() {
            ports = format!("Some(&PORTS_{number})");
            writeln!(
                statics,
                "static PORTS_{number}: takt_kernel::task::Ports = takt_kernel::task::Ports::new(&[{ranges}]);"
            )?;
        }
        let supervisor = task.supervisor.as_ref().and_then(|it| manifest.number(it));
        writeln!(
            tasks,
            "Task::new(Program {{ name: {:?}, priority: {}, cpu: {}, entry: {:#x}, base: {:#x}, segments: SEGMENTS_{number}, \
             data: include_bytes!({data:?}), data_at: {:#x}, data_size: {:#x}, memory: MEMORY_{number}.cell(), \
             supervisor: {supervisor:?}, budget: {}, watchdog_nanos: {}, is_timed: {}, peers: PEERS_{number}, mappings: MAPPINGS_{number}, interrupts: INTERRUPTS_{number}, interrupt_notifications: {told:#x}, events_at: {:#x}, events: {}, ports: {ports}, stack: &STACK_{number} }}),",
            task.name,
            task.priority,
            task.cpu,
            program.entry,
            base(number),
            program.data.at,
            program.data_size,
            budget(task),
            task.watchdog_us.unwrap_or_default() * 1000,
            task.budget().is_some() || task.watchdog_us.is_some(),
            program.events.at,
            events::of(programs, number),
        )?;
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
    // The host reads it for names of addresses; it is not loaded.
    writeln!(
        statics,
        "core::arch::global_asm!(\".pushsection .takt.task_elf, \\\"\\\", @progbits\", {elves} \".popsection\");"
    )?;
    let nr = programs.len();
    let arguments: Vec<_> = manifest.tasks.iter().map(|task| task.argument).collect();
    let until = manifest.until.as_ref().and_then(|it| manifest.number(it));
    writeln!(
        statics,
        "const ARGUMENTS: &[u64] = &{arguments:?};\nconst UNTIL: Option<usize> = {until:?};\n\
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

/// A task's budget, as Rust.
fn budget(task: &Task) -> String {
    let Some((budget, period)) = task.budget() else {
        return "None".to_owned();
    };
    format!(
        "Some(takt_kernel::task::Budget {{ nanos: {budget}_000, period_nanos: {period}_000, \
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

pub(super) fn update(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
