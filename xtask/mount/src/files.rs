//! [`TracingFiles`]: what the kernel asks of the file system.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::inodes::Inodes;
use super::reader::{Handle, Reader};
use super::{lock, number_of};
use takt_tracefs::session::Session;
use takt_tracefs::tree::{self, Node, Of};

/// Nothing is kept by the kernel: the guest may change everything.
const TTL: Duration = Duration::ZERO;

/// The tree as a file system.
#[derive(Debug)]
pub(super) struct TracingFiles {
    session: Arc<Mutex<Session>>,
    inodes: Mutex<Inodes>,
    handles: Mutex<HashMap<u64, Arc<Mutex<Handle>>>>,
    next_handle: AtomicU64,
    is_ending: Arc<AtomicBool>,
}

/// The path of what is called so in a folder; the root's path is empty.
fn inside(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

impl TracingFiles {
    /// The files of `session`; once `is_ending`, pipes have an end.
    pub(super) fn new(session: Arc<Mutex<Session>>, is_ending: Arc<AtomicBool>) -> Self {
        Self {
            session,
            inodes: Mutex::default(),
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
            is_ending,
        }
    }

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

impl Filesystem for TracingFiles {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.path(parent).and_then(|parent| {
            let name = name.to_str().ok_or(Errno::ENOENT)?;
            self.attr(&inside(&parent, name))
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
        let pipe = lock(&self.session).open_pipe();
        match (self.node(ino), pipe) {
            (Ok(Node::File(..)), Ok(pipe)) => {
                let number = self.next_handle.fetch_add(1, Relaxed);
                let handle = Handle {
                    content: None,
                    pipe,
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
            let number = lock(&self.inodes).number(&inside(&path, &name));
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

    // Nobody makes, removes or renames anything there: EPERM, as a file system without these operations has it.

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }
}
