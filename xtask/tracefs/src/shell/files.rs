//! `cat`, `ls`, `cd`, and what reads lines of files.

use std::io::{self, Write};

use rustix::io::Errno;

use super::filter::{self, Filter, Reader};
use super::path::absolute;
use super::{Done, INTERRUPTED, POLL, Shell, Streams, text_of};
use crate::session::Piped;
use crate::tree::{self, Node, Of};

/// Size and time of every file, as `ls -l` shows them.
const SIZE_AND_TIME: &str = "0 Jan  1  1970";

impl Shell {
    pub(super) fn cat(&mut self, files: &[String], streams: &mut Streams<'_>) -> Done {
        let mut status = 0;
        for name in files {
            match self.feed(name, streams.out)? {
                Ok(INTERRUPTED) => return Ok(INTERRUPTED),
                Ok(_) => {}
                Err(error) => {
                    streams.out.flush()?;
                    writeln!(streams.err, "cat: {name}: {}", text_of(error))?;
                    status = 1;
                }
            }
        }
        Ok(status)
    }

    /// Gives a file's content to `out`; a pipe's until its end.
    fn feed(&mut self, name: &str, out: &mut dyn Write) -> io::Result<super::super::Result<u8>> {
        Ok(match tree::find(&self.session, &self.path(name)) {
            Ok(Node::Dir) => Err(Errno::ISDIR),
            Ok(Node::File(file, of)) if file.is_pipe => return self.feed_pipe(&of, out),
            Ok(Node::File(file, of)) => match file.read(&mut self.session, &of) {
                Ok(content) => {
                    out.write_all(&content)?;
                    Ok(0)
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        })
    }

    fn feed_pipe(&mut self, of: &Of, out: &mut dyn Write) -> io::Result<super::super::Result<u8>> {
        let cpu = match of {
            Of::Cpu(cpu) => Some(*cpu),
            _ => None,
        };
        let mut opened = match self.session.open_pipe() {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            if self.is_interrupted() {
                return Ok(Ok(INTERRUPTED));
            }
            match self.session.pipe(cpu, &mut opened) {
                Ok(Piped::Text(text)) => {
                    out.write_all(&text)?;
                    out.flush()?;
                }
                Ok(Piped::Nothing) => {
                    if let Err(error) = self.wait(POLL) {
                        return Ok(Err(error));
                    }
                }
                Ok(Piped::End) => return Ok(Ok(0)),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// `head`, `tail`, `grep`, `wc` of files.
    pub(super) fn read_lines(
        &mut self,
        command: &str,
        filter: &Filter,
        files: &[String],
        streams: &mut Streams<'_>,
    ) -> Done {
        let is_several = files.len() > 1;
        let has_title = matches!(filter, Filter::Head(_) | Filter::Tail(_) | Filter::From(_));
        let has_label = is_several || matches!(filter, Filter::Count(_));
        let mut total = [0; 3];
        let (mut has_failed, mut has_found) = (false, false);
        for (number, name) in files.iter().enumerate() {
            let mut said = Vec::new();
            if is_several && has_title {
                let gap = if number > 0 { "\n" } else { "" };
                writeln!(said, "{gap}==> {name} <==")?;
            }
            // A pipe may be read for long: what there is to say of it is said at once.
            streams.out.write_all(&said)?;
            let label = has_label.then(|| name.clone());
            let mut reader = Reader::new(filter.clone(), label, &mut *streams.out);
            let fed = match self.feed(name, &mut reader) {
                Err(error) => filter::not_enough(Err(error)).map(|()| Ok(0))?,
                Ok(fed) => fed,
            };
            match fed {
                Ok(INTERRUPTED) => return Ok(INTERRUPTED),
                Ok(_) => {
                    has_found |= reader.finish()? == 0;
                    for (sum, count) in total.iter_mut().zip(reader.counted()) {
                        *sum += count;
                    }
                }
                Err(error) => {
                    streams.out.flush()?;
                    writeln!(streams.err, "{command}: {name}: {}", text_of(error))?;
                    has_failed = true;
                }
            }
        }
        if let (Filter::Count(wanted), true) = (filter, is_several) {
            writeln!(
                streams.out,
                "{}",
                filter::row(*wanted, total, Some("total"))
            )?;
        }
        Ok(match (filter, has_failed, has_found) {
            (Filter::Grep(_), true, _) => 2,
            (_, false, true) => 0,
            _ => 1,
        })
    }

    /// Goes to a folder: without a word to the root, by `-` to the one before.
    pub(super) fn cd(&mut self, arguments: &[String], streams: &mut Streams<'_>) -> Done {
        let to = match arguments {
            [] => String::new(),
            [back] if back == "-" => {
                writeln!(streams.out, "{}", absolute(&self.last_cwd))?;
                self.last_cwd.clone()
            }
            [dir] => self.path(dir),
            _ => return super::say(streams, "cd: too many arguments", 1),
        };
        let why = match tree::find(&self.session, &to) {
            Ok(Node::Dir) => {
                self.last_cwd = std::mem::replace(&mut self.cwd, to);
                return Ok(0);
            }
            Ok(Node::File(..)) => Errno::NOTDIR,
            Err(error) => error,
        };
        let what = format!("cd: {}: {}", arguments.join(" "), text_of(why));
        super::say(streams, &what, 1)
    }

    pub(super) fn ls(&mut self, arguments: &[String], streams: &mut Streams<'_>) -> Done {
        let (flags, paths): (Vec<_>, Vec<_>) = arguments
            .iter()
            .map(String::as_str)
            .partition(|word| word.starts_with('-') && word.len() > 1);
        let letters: String = flags.iter().map(|flags| &flags[1..]).collect();
        if let Some(letter) = letters.chars().find(|letter| !"l1d".contains(*letter)) {
            writeln!(streams.err, "ls: invalid option -- '{letter}'")?;
            return Ok(2);
        }
        let (is_long, is_itself) = (letters.contains('l'), letters.contains('d'));
        let paths = if paths.is_empty() { vec!["."] } else { paths };
        let mut status = 0;
        let mut dirs = Vec::new();
        for name in &paths {
            match tree::find(&self.session, &self.path(name)) {
                Ok(Node::Dir) if !is_itself => dirs.push(*name),
                Ok(node) => writeln!(streams.out, "{}{name}", mode(is_long, &node))?,
                Err(error) => {
                    let why = text_of(error);
                    writeln!(streams.err, "ls: cannot access '{name}': {why}")?;
                    status = 2;
                }
            }
        }
        for (number, name) in dirs.iter().enumerate() {
            if paths.len() > 1 {
                let is_first = number == 0 && dirs.len() == paths.len();
                let gap = if is_first { "" } else { "\n" };
                writeln!(streams.out, "{gap}{name}:")?;
            }
            if is_long {
                writeln!(streams.out, "total 0")?;
            }
            let dir = self.path(name);
            match tree::list(&self.session, &dir) {
                Ok(names) => {
                    for (name, _) in names {
                        // What has ended meanwhile is shown all the same.
                        let node = tree::find(&self.session, &format!("{dir}/{name}"));
                        let mode = node.map_or(String::new(), |node| mode(is_long, &node));
                        writeln!(streams.out, "{mode}{name}")?;
                    }
                }
                Err(error) => {
                    let why = text_of(error);
                    writeln!(streams.err, "ls: cannot access '{name}': {why}")?;
                    status = 2;
                }
            }
        }
        Ok(status)
    }
}

/// What stands before a name in a long list.
fn mode(is_long: bool, node: &Node) -> String {
    let mode = match node {
        _ if !is_long => return String::new(),
        Node::Dir => "drwxr-xr-x 2",
        Node::File(file, _) => match (file.is_readable(), file.is_writable()) {
            (true, true) => "-rw-r--r-- 1",
            (true, false) => "-r--r--r-- 1",
            _ => "--w------- 1",
        },
    };
    format!("{mode} root root {SIZE_AND_TIME} ")
}
