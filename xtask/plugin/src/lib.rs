//! A plugin for QEMU's translator (TCG) that counts what the guest executes.
//!
//! It counts every instruction, of all CPUs together, and logs at which count certain instructions (*marks*: the guest's
//! readings of its clock) were executed and when another CPU took its turn. Under icount with `shift=0` a nanosecond is an
//! instruction, so the log says from outside what the guest's latencies must be.
//!
//! It is for icount, where all CPUs run in one thread of QEMU; the counter is a plain load and store. The guest does not
//! see it: neither an instruction nor its time changes.
//!
//! Beside it, or instead, it has the guest stand at an instruction until the host lets it go on: no time passes for the
//! guest there.
//!
//! Arguments: `log=FILE`, what is written ([`mod@format`]), and `marks=ADDRESS+ADDRESS…`, in hexadecimal; besides `lines=FROM-TO+FROM-TO…`,
//! to count the cache lines of data that are touched from one mark to the next, but for accesses to these ranges; `stand=ADDRESS`, `asked=PIPE`, which a byte is written to there, and `answered=PIPE`, which one is waited for from.

pub mod api;
pub mod format;

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use api::{Block, Id, Info};
use format::{Entry, MAGIC};

/// Bytes of the log that are gathered before they are written.
const BUFFER: usize = 1 << 20;

/// Instructions executed so far.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The CPU whose turn it is.
static CPU: AtomicU32 = AtomicU32::new(u32::MAX);
static MARKS: OnceLock<HashMap<u64, u32>> = OnceLock::new();
static LOG: Mutex<Option<Log>> = Mutex::new(None);
/// The cache lines touched since the last mark, where they are counted.
static LINES: OnceLock<Mutex<HashSet<u64>>> = OnceLock::new();
/// The addresses that do not count.
static OTHERS: OnceLock<Vec<Range<u64>>> = OnceLock::new();
/// Where the guest stands, and the pipes by which it is asked whether it may go on.
static STAND: OnceLock<(u64, File, File)> = OnceLock::new();

/// The log that is being written.
struct Log {
    out: BufWriter<File>,
    /// The count of the last entry.
    at: u64,
}

impl Log {
    fn create(path: &str) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(BUFFER, File::create(path)?);
        out.write_all(&MAGIC)?;
        Ok(Self { out, at: 0 })
    }

    fn add(&mut self, entry: Entry, at: u64) -> io::Result<()> {
        entry.write(&mut self.out, at - self.at)?;
        self.at = at;
        match entry {
            Entry::End => self.out.flush(),
            _ => Ok(()),
        }
    }
}

fn log() -> MutexGuard<'static, Option<Log>> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds to the log. One that cannot be written ends there, without the entry that a whole one ends with.
#[cold]
fn add(entry: Entry, at: u64) {
    let mut log = log();
    if let Some(Err(error)) = log.as_mut().map(|log| log.add(entry, at)) {
        eprintln!("takt-plugin: the log ends, since it cannot be written: {error}");
        *log = None;
    }
}

/// Counts an instruction of this CPU.
#[inline]
fn count(cpu: u32) -> u64 {
    let before = COUNT.load(Relaxed);
    if CPU.load(Relaxed) != cpu {
        CPU.store(cpu, Relaxed);
        add(Entry::Turn(cpu), before);
    }
    COUNT.store(before + 1, Relaxed);
    before + 1
}

extern "C" fn executed(cpu: c_uint, _: *mut c_void) {
    count(cpu);
}

/// `index` is the mark's number, no pointer.
extern "C" fn mark_executed(cpu: c_uint, index: *mut c_void) {
    let at = count(cpu);
    if let Some(lines) = LINES.get() {
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        add(Entry::Lines(lines.len() as u32), at);
        lines.clear();
    }
    add(Entry::Mark(index.addr() as u32), at);
}

/// A line is 64 bytes, as in every CPU that the guest may run on. No access that is counted lies in two.
extern "C" fn accessed(_: c_uint, _: u32, address: u64, _: *mut c_void) {
    let mut others = OTHERS.get().into_iter().flatten();
    if let Some(lines) = LINES.get()
        && !others.any(|range| range.contains(&address))
    {
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.insert(address / 64);
    }
}

extern "C" fn stand(_: c_uint, _: *mut c_void) {
    if let Some((_, asked, answered)) = STAND.get() {
        let (mut asked, mut answered) = (asked, answered);
        // A host that is gone ends QEMU as well.
        let _ = asked
            .write_all(&[0])
            .and_then(|()| answered.read_exact(&mut [0]));
    }
}

extern "C" fn translated(_: Id, block: *mut Block) {
    // SAFETY: the block is valid during this call.
    let nr = unsafe { api::qemu_plugin_tb_n_insns(block) };
    for index in 0..nr {
        // SAFETY: as above, and it has an instruction of this number.
        let instruction = unsafe { api::qemu_plugin_tb_get_insn(block, index) };
        // SAFETY: the instruction is valid as long as its block.
        let address = unsafe { api::qemu_plugin_insn_vaddr(instruction) };
        if STAND.get().is_some_and(|(at, ..)| *at == address) {
            let none = std::ptr::null_mut();
            // SAFETY: as below.
            unsafe {
                api::qemu_plugin_register_vcpu_insn_exec_cb(instruction, stand, api::NO_REGS, none);
            }
        }
        let Some(marks) = MARKS.get() else {
            continue;
        };
        if LINES.get().is_some() {
            let none = std::ptr::null_mut();
            // SAFETY: as below.
            unsafe {
                api::qemu_plugin_register_vcpu_mem_cb(
                    instruction,
                    accessed,
                    api::NO_REGS,
                    api::READ_AND_WRITE,
                    none,
                );
            }
        }
        let (function, data) = match marks.get(&address) {
            None => (executed as extern "C" fn(c_uint, *mut c_void), 0),
            Some(&mark) => (mark_executed as _, mark as usize),
        };
        let data = std::ptr::without_provenance_mut(data);
        // SAFETY: as above; the function lives as long as the library, which is never unloaded.
        unsafe {
            api::qemu_plugin_register_vcpu_insn_exec_cb(instruction, function, api::NO_REGS, data);
        }
    }
}

extern "C" fn ended(_: Id, _: *mut c_void) {
    add(Entry::End, COUNT.load(Relaxed));
    *log() = None;
}

/// `FROM-TO`, in hexadecimal.
fn range(text: &str) -> Option<Range<u64>> {
    let (from, to) = text.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(address(from)?..address(to)?)
}

/// Takes the arguments.
fn set_up<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let (mut address, mut asked, mut answered) = (None, None, None);
    let opened = |path: &str, options: &OpenOptions| {
        let file = options.open(path);
        file.map_err(|error| format!("cannot open {path}: {error}"))
    };
    for argument in arguments {
        match argument.split_once('=') {
            Some(("log", path)) => {
                let made = Log::create(path);
                *log() = Some(made.map_err(|error| format!("cannot write {path}: {error}"))?);
            }
            Some(("marks", list)) => {
                let address = |text: &str| u64::from_str_radix(text, 16);
                let marks: Result<HashMap<_, _>, _> = list
                    .split('+')
                    .zip(0..)
                    .map(|(text, index)| address(text).map(|at| (at, index)))
                    .collect();
                let marks = marks.map_err(|error| format!("marks={list}: {error}"))?;
                // QEMU installs a plugin once.
                let _ = MARKS.set(marks);
            }
            Some(("lines", list)) => {
                let others = list.split('+').map(range).collect::<Option<_>>();
                let others = others.ok_or_else(|| format!("lines={list}: no ranges"))?;
                let _ = OTHERS.set(others);
                let _ = LINES.set(Mutex::default());
            }
            Some(("stand", text)) => {
                let parsed = u64::from_str_radix(text, 16);
                address = Some(parsed.map_err(|error| format!("stand={text}: {error}"))?);
            }
            Some(("asked", path)) => asked = Some(opened(path, OpenOptions::new().write(true))?),
            Some(("answered", path)) => {
                answered = Some(opened(path, OpenOptions::new().read(true))?);
            }
            _ => return Err(format!("`{argument}` is no argument of this plugin")),
        }
    }
    match (address, asked, answered) {
        (Some(address), Some(asked), Some(answered)) => {
            let _ = STAND.set((address, asked, answered));
        }
        (None, None, None) => {}
        _ => return Err("stand=, asked= and answered= belong together".into()),
    }
    match (&*log(), MARKS.get()) {
        (Some(_), Some(_)) => Ok(()),
        (None, None) if STAND.get().is_some() => Ok(()),
        _ => Err("log=FILE and marks= belong together".into()),
    }
}

/// QEMU calls this when it has loaded the library; other than 0 ends it.
///
/// # Safety
/// `arguments` are `nr` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _: *const Info,
    nr: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let arguments = match usize::try_from(nr) {
        // SAFETY: the caller's duty.
        Ok(nr @ 1..) => unsafe { std::slice::from_raw_parts(arguments, nr) },
        _ => &[],
    };
    let texts = arguments.iter().map(|argument| {
        // SAFETY: as above; QEMU keeps them as long as the plugin is loaded.
        let text = unsafe { CStr::from_ptr(*argument) };
        text.to_str().unwrap_or_default()
    });
    if let Err(why) = set_up(texts) {
        eprintln!("takt-plugin: {why}");
        return 1;
    }
    // SAFETY: `id` is the one that this call was given; the functions live as long as the library.
    unsafe { api::qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
    // SAFETY: as above; the function does not use its data.
    unsafe { api::qemu_plugin_register_atexit_cb(id, ended, std::ptr::null_mut()) };
    0
}
