//! `tracefs mount`: the file tree in the file system, by FUSE.
//!
//! Requests come one after the other; a pipe with nothing in it is waited for by a thread of its own, so that nothing
//! else waits for it. A signal to whoever reads ends the waiting: crate `fuser` does not hand interrupts on, so the
//! thread looks for them itself.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File as StdFile, OpenOptions};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, OpenAccMode, OpenFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

use super::session::{Piped, Session};
use super::tree::{self, Node, Of};
use crate::term::WithHelp;

/// How often a pipe with nothing in it is looked at.
const POLL: Duration = Duration::from_millis(20);
/// Nothing is kept by the kernel: the guest may change everything.
const TTL: Duration = Duration::ZERO;
/// How long the end of readers is waited for when unmounting.
const END_WITHIN: Duration = Duration::from_secs(2);

/// What an open file is.
#[derive(Debug)]
struct Handle {
    /// A file's content, from its first read on, or what of a pipe was not handed over yet.
    content: Option<Vec<u8>>,
    /// For pipes: the tracers chosen when it was opened.
    chosen: u32,
    is_closed: bool,
}

/// The tree as a file system.
#[derive(Debug)]
struct TracingFiles {
    session: Arc<Mutex<Session>>,
    inodes: Mutex<Inodes>,
    handles: Mutex<HashMap<u64, Arc<Mutex<Handle>>>>,
    next_handle: AtomicU64,
    is_ending: Arc<AtomicBool>,
}

/// Numbers for paths, given out as they are looked up.
#[derive(Debug, Default)]
struct Inodes {
    paths: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Inodes {
    fn number(&mut self, path: &str) -> u64 {
        if path.is_empty() {
            return INodeNo::ROOT.into();
        }
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        self.paths.push(path.to_owned());
        // 1 is the root.
        let number = self.paths.len() as u64 + 1;
        self.numbers.insert(path.to_owned(), number);
        number
    }

    fn path(&self, number: u64) -> Option<String> {
        match number {
            1 => Some(String::new()),
            _ => self
                .paths
                .get(usize::try_from(number).ok()?.checked_sub(2)?)
                .cloned(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A request that panicked has left nothing half done that another would trip over.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number_of(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

impl TracingFiles {
    fn path(&self, ino: INodeNo) -> std::result::Result<String, Errno> {
        lock(&self.inodes).path(ino.into()).ok_or(Errno::ENOENT)
    }

    fn node(&self, ino: INodeNo) -> std::result::Result<Node, Errno> {
        let path = self.path(ino)?;
        tree::find(&lock(&self.session), &path).map_err(number_of)
    }

    fn attr(&self, path: &str) -> std::result::Result<FileAttr, Errno> {
        let node = tree::find(&lock(&self.session), path).map_err(number_of)?;
        let (kind, perm) = match node {
            Node::Dir => (FileType::Directory, 0o755),
            Node::File(file, _) => {
                let read = if file.is_readable() { 0o444 } else { 0 };
                let write = if file.is_writable() { 0o200 } else { 0 };
                (FileType::RegularFile, read | write)
            }
        };
        Ok(FileAttr {
            ino: INodeNo(lock(&self.inodes).number(path)),
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn truncate(&self, ino: INodeNo) -> std::result::Result<(), Errno> {
        match self.node(ino)? {
            Node::Dir => Err(Errno::EISDIR),
            Node::File(file, _) => file.truncate(&mut lock(&self.session)).map_err(number_of),
        }
    }

    fn handle(&self, fh: FileHandle) -> std::result::Result<Arc<Mutex<Handle>>, Errno> {
        let handles = lock(&self.handles);
        handles.get(&fh.into()).cloned().ok_or(Errno::EBADF)
    }

    /// A file's content, read at its first access.
    fn read_at(
        &self,
        ino: INodeNo,
        handle: &Mutex<Handle>,
        offset: u64,
        size: u32,
    ) -> std::result::Result<Vec<u8>, Errno> {
        let mut handle = lock(handle);
        if handle.content.is_none() || offset == 0 {
            let Node::File(file, of) = self.node(ino)? else {
                return Err(Errno::EISDIR);
            };
            let content = file.read(&mut lock(&self.session), &of);
            handle.content = Some(content.map_err(number_of)?);
        }
        let content = handle.content.as_deref().unwrap_or_default();
        let from = usize::try_from(offset).map_or(content.len(), |from| from.min(content.len()));
        let to = from.saturating_add(size as usize).min(content.len());
        Ok(content[from..to].to_vec())
    }
}

/// Waits until a pipe has something, and answers.
struct Reader {
    session: Arc<Mutex<Session>>,
    handle: Arc<Mutex<Handle>>,
    is_ending: Arc<AtomicBool>,
    cpu: Option<usize>,
    size: usize,
    /// The thread that reads.
    tid: u32,
}

impl Reader {
    fn wait(&self) -> std::result::Result<Vec<u8>, Errno> {
        loop {
            let mut handle = lock(&self.handle);
            if let Some(text) = take(&mut handle.content, self.size) {
                return Ok(text);
            }
            if handle.is_closed || self.is_ending.load(Relaxed) {
                return Ok(Vec::new());
            }
            let piped = lock(&self.session).pipe(self.cpu, handle.chosen);
            match piped.map_err(number_of)? {
                Piped::Text(text) => handle.content = Some(text),
                Piped::End => return Ok(Vec::new()),
                Piped::Nothing => {
                    drop(handle);
                    if has_signal(self.tid) {
                        return Err(Errno::EINTR);
                    }
                    thread::sleep(POLL);
                }
            }
        }
    }
}

/// Takes the first `size` bytes.
fn take(content: &mut Option<Vec<u8>>, size: usize) -> Option<Vec<u8>> {
    let text = content.as_mut().filter(|text| !text.is_empty())?;
    let rest = text.split_off(size.min(text.len()));
    Some(std::mem::replace(text, rest))
}

/// Whether a signal waits for a thread, one that it has not blocked.
fn has_signal(tid: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{tid}/status")) else {
        return false;
    };
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok())
            .unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") != 0
}

impl Filesystem for TracingFiles {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.path(parent).and_then(|parent| {
            let name = name.to_str().ok_or(Errno::ENOENT)?;
            let path = match parent.as_str() {
                "" => name.to_owned(),
                parent => format!("{parent}/{name}"),
            };
            self.attr(&path)
        });
        match found {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.path(ino).and_then(|path| self.attr(&path)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let done = match size {
            Some(0) => self.truncate(ino),
            _ => Ok(()),
        };
        match done.and_then(|()| self.attr(&self.path(ino)?)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let chosen = lock(&self.session).nr_chosen();
        match (self.node(ino), chosen) {
            (Ok(Node::File(..)), Ok(chosen)) => {
                let number = self.next_handle.fetch_add(1, Relaxed);
                let handle = Handle {
                    content: None,
                    chosen,
                    is_closed: false,
                };
                lock(&self.handles).insert(number, Arc::new(Mutex::new(handle)));
                // Sizes are not known before reading.
                reply.opened(FileHandle(number), FopenFlags::FOPEN_DIRECT_IO);
            }
            (Ok(Node::Dir), _) => reply.error(Errno::EISDIR),
            (Err(error), _) => reply.error(error),
            (_, Err(error)) => reply.error(number_of(error)),
        }
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (node, handle) = match (self.node(ino), self.handle(fh)) {
            (Ok(node), Ok(handle)) => (node, handle),
            (Err(error), _) | (_, Err(error)) => return reply.error(error),
        };
        let cpu = match node {
            Node::File(file, Of::Cpu(cpu)) if file.is_pipe => Some(cpu),
            Node::File(file, _) if file.is_pipe => None,
            _ => {
                return match self.read_at(ino, &handle, offset, size) {
                    Ok(text) => reply.data(&text),
                    Err(error) => reply.error(error),
                };
            }
        };
        let reader = Reader {
            session: Arc::clone(&self.session),
            handle,
            is_ending: Arc::clone(&self.is_ending),
            cpu,
            size: size as usize,
            tid: request.pid(),
        };
        thread::spawn(move || match reader.wait() {
            Ok(text) => reply.data(&text),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let done = self.node(ino).and_then(|node| match node {
            Node::Dir => Err(Errno::EISDIR),
            Node::File(file, of) => file
                .write(&mut lock(&self.session), &of, data)
                .map_err(number_of),
        });
        match done {
            // As long as a request can be.
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        flags: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let handle = lock(&self.handles).remove(&fh.into());
        if let Some(handle) = handle {
            lock(&handle).is_closed = true;
        }
        // Not with `flush`, which comes for each copy of the descriptor. Nobody is there to hear of an error.
        if flags.acc_mode() != OpenAccMode::O_RDONLY
            && let Ok(path) = self.path(ino)
        {
            let _ = lock(&self.session).close_file(&path);
        }
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.path(ino).and_then(|path| {
            let names = tree::list(&lock(&self.session), &path).map_err(number_of)?;
            Ok((path, names))
        });
        let (path, names) = match listed {
            Ok(listed) => listed,
            Err(error) => return reply.error(error),
        };
        let mut entries = vec![
            (ino.into(), FileType::Directory, ".".to_owned()),
            (ino.into(), FileType::Directory, "..".to_owned()),
        ];
        for (name, is_dir) in names {
            let full = match path.as_str() {
                "" => name.clone(),
                path => format!("{path}/{name}"),
            };
            let number = lock(&self.inodes).number(&full);
            let kind = match is_dir {
                true => FileType::Directory,
                false => FileType::RegularFile,
            };
            entries.push((number, kind, name));
        }
        for (next, (number, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(INodeNo(number), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    /// Nobody can make files here.
    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EACCES);
    }
}

/// Refuses what cannot be mounted on, before anything is started.
///
/// # Errors
///
/// If `dir` is not an empty folder, or the system has no FUSE.
pub fn check(dir: &Path) -> Result<()> {
    let mut entries = fs::read_dir(dir).with_context(|| {
        format!(
            "cannot mount on {}: it has to be an empty folder",
            dir.display()
        )
    })?;
    if entries.next().is_some() {
        bail!("cannot mount on {}: it is not empty", dir.display());
    }
    open_fuse()
        .map(drop)
        .help("without FUSE the same files are there in: cargo xtask tracefs shell")
}

fn open_fuse() -> Result<StdFile> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    opened
        .map_err(|error| anyhow!("this machine has no FUSE: /dev/fuse cannot be opened ({error})"))
}

/// A mounted session.
#[derive(Debug)]
pub struct Mounted {
    background: BackgroundSession,
    session: Arc<Mutex<Session>>,
    is_ending: Arc<AtomicBool>,
    dir: std::path::PathBuf,
}

impl Mounted {
    /// Mounts a session's files on `dir`.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn new(session: Session, dir: &Path) -> Result<Self> {
        let session = Arc::new(Mutex::new(session));
        let is_ending = Arc::new(AtomicBool::new(false));
        let files = TracingFiles {
            session: Arc::clone(&session),
            inodes: Mutex::default(),
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
            is_ending: Arc::clone(&is_ending),
        };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("takt".into()),
            MountOption::Subtype("tracefs".into()),
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoExec,
        ];
        let background = fuser::spawn_mount(files, dir, &config)
            .with_context(|| format!("cannot mount on {}", dir.display()))?;
        Ok(Self {
            background,
            session,
            is_ending,
            dir: dir.canonicalize()?,
        })
    }

    /// Whether there is anything left to wait for: the guest runs, and nobody has unmounted.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.background.guard.is_finished() && lock(&self.session).guest.is_alive()
    }

    /// Unmounts. Readers of pipes find their end first.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn unmount(self) -> Result<()> {
        self.is_ending.store(true, Relaxed);
        let asked = Instant::now();
        if !self.background.guard.is_finished() {
            detach(&self.dir)?;
        }
        // Whoever still has a file open keeps it from ending; then it ends with this process.
        while !self.background.guard.is_finished() && asked.elapsed() < END_WITHIN {
            thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Takes the mount away from its folder, also while somebody is in it.
fn detach(dir: &Path) -> Result<()> {
    use rustix::mount::{UnmountFlags, unmount};
    let Err(error) = unmount(dir, UnmountFlags::DETACH) else {
        return Ok(());
    };
    // Those who are not root have a helper for it.
    let mut helper = Command::new("fusermount3");
    helper.args(["-u", "-z", "--"]).arg(dir);
    if error == rustix::io::Errno::PERM && helper.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(anyhow!("cannot unmount {}: {error}", dir.display()))
}
