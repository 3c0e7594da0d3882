//! Where a guest stood that had to be ended, in words.

use crate::qemu::Registers;
use takt_base::term;
use takt_guest::Elf;
use takt_guest::Ram;
use takt_guest::names::Threads;
use takt_guest::percpu::PerCpu;
use takt_guest::tasks;

/// Each CPU's thread, whether it takes interrupts, and the place in the code, the innermost inlined function first.
#[must_use]
pub fn describe(elf: &Elf, ram: &Ram, cpus: &[Registers]) -> Vec<String> {
    let tasks = tasks::Names::of(elf);
    let mut lines = Vec::new();
    for it in cpus {
        let halted = if it.is_halted { ", halted" } else { "" };
        let interrupts = if it.has_interrupts_on() { "on" } else { "off" };
        let mut found = elf.lookup(it.ip);
        if found.is_empty() {
            found = tasks.lookup(it.ip);
        }
        let thread = match found.is_empty() {
            // Without code of the image it has not come to the kernel, or left it.
            true => "outside the image".into(),
            false => thread(elf, ram, it.cpu),
        };
        let ip = it.ip;
        let cpu = it.cpu;
        let mut found = found.into_iter();
        let place = found
            .next()
            .map_or_else(String::new, |it| format!("  {it}"));
        lines.push(format!(
            "CPU {cpu}  {thread}, interrupts {interrupts}{halted}, at {ip:#018x}{place}"
        ));
        lines.extend(found.map(|outer| format!("       inlined into {outer}")));
    }
    lines
}

fn thread(elf: &Elf, ram: &Ram, cpu: u8) -> String {
    let Some(tid) = PerCpu::of(elf).and_then(|it| it.current(elf, ram, cpu).ok()) else {
        return "thread unknown".into();
    };
    match Threads::new(elf, ram).and_then(|threads| threads.name(tid)) {
        Some(name) => format!("thread {tid} `{}`", term::printable(name.as_bytes())),
        None => format!("thread {tid}"),
    }
}
