//! `tracefs shell`: `cat`, `echo` and `ls` on the file tree, where there is no FUSE or no wish for it.
//!
//! What goes wrong is said as bash and coreutils say it, and the exit code is that of the last command.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::session::{Piped, Session};
use super::syntax::{self, Command, Redirect};
use super::tree::{self, Node, Of};

/// How often a pipe with nothing in it is looked at.
const POLL: Duration = Duration::from_millis(10);
/// Exit status of a command that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

const HELP: &str = "\
cat FILE...            shows files; trace_pipe waits for more until Ctrl-C or the tracer changes
echo [-n] TEXT > FILE  writes to a file; >> adds to it
ls [-l] [DIR]...       lists folders
help                   this
exit [STATUS]          ends the session
Commands are separated by `;` or newlines; words may be quoted; `#` begins a comment. `cat README` tells the files.
";

/// Where commands write.
pub struct Streams<'s> {
    /// What they have to say.
    pub out: &'s mut dyn Write,
    /// What went wrong.
    pub err: &'s mut dyn Write,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// A shell.
#[derive(Debug)]
pub struct Shell {
    session: Session,
    /// Set by Ctrl-C.
    is_interrupted: Arc<AtomicBool>,
    status: u8,
    is_over: bool,
}

/// What a command comes to: why it failed is said already, or there is nobody to say it to.
type Done = io::Result<u8>;

impl Shell {
    /// A shell on this session, whose waiting ends when `is_interrupted` is set.
    #[must_use]
    pub fn new(session: Session, is_interrupted: Arc<AtomicBool>) -> Self {
        Self {
            session,
            is_interrupted,
            status: 0,
            is_over: false,
        }
    }

    /// Carries out the lines of `input`; with a prompt if it is a terminal. Gives the exit status.
    ///
    /// # Errors
    ///
    /// If input or output fail.
    pub fn run(&mut self, input: &mut dyn BufRead, streams: &mut Streams<'_>) -> Done {
        let has_prompt = io::stdin().is_terminal();
        let mut line = String::new();
        while !self.is_over {
            if has_prompt {
                write!(streams.err, "tracefs# ")?;
                streams.err.flush()?;
            }
            line.clear();
            if input.read_line(&mut line)? == 0 {
                break;
            }
            self.execute(&line, streams)?;
        }
        Ok(self.status)
    }

    /// Carries out commands. Gives the status of the last.
    ///
    /// # Errors
    ///
    /// If the output fails.
    pub fn execute(&mut self, text: &str, streams: &mut Streams<'_>) -> Done {
        self.is_interrupted.store(false, Relaxed);
        match syntax::parse(text) {
            Err(error) => {
                writeln!(streams.err, "bash: {error}")?;
                self.status = 2;
            }
            Ok(commands) => {
                for command in commands {
                    self.status = self.command(&command, streams)?;
                    if self.is_over || self.status == INTERRUPTED {
                        break;
                    }
                }
            }
        }
        streams.out.flush()?;
        Ok(self.status)
    }

    fn command(&mut self, command: &Command, streams: &mut Streams<'_>) -> Done {
        let Some(redirect) = &command.redirect else {
            return self.simple(&command.words, streams);
        };
        let file = match self.open(redirect) {
            Ok(file) => file,
            Err(error) => {
                writeln!(streams.err, "bash: {}: {}", redirect.file, text_of(error))?;
                return Ok(1);
            }
        };
        // Collected first: what a command says is one write.
        let mut said = Vec::new();
        let mut inner = Streams {
            out: &mut said,
            err: streams.err,
        };
        let status = self.simple(&command.words, &mut inner)?;
        let (file, of) = file;
        let written = match said.is_empty() {
            true => Ok(()),
            false => file.write(&mut self.session, &of, &said),
        };
        if let Err(error) = written.and(self.session.close()) {
            let name = command.words.first().map_or("", String::as_str);
            let name = if name == "echo" { "bash: echo" } else { name };
            writeln!(streams.err, "{name}: write error: {}", text_of(error))?;
            return Ok(1);
        }
        Ok(status)
    }

    /// Opens a file for writing, as `>` and `>>` do.
    fn open(&mut self, redirect: &Redirect) -> super::Result<(&'static super::files::File, Of)> {
        match tree::find(&self.session, path(&redirect.file)) {
            Ok(Node::Dir) => Err(Errno::ISDIR),
            Ok(Node::File(file, of)) => {
                if !redirect.is_append {
                    file.truncate(&mut self.session)?;
                }
                Ok((file, of))
            }
            Err(Errno::NOENT) => {
                let (parent, _) = path(&redirect.file).rsplit_once('/').unwrap_or_default();
                match tree::find(&self.session, parent)? {
                    // Nobody can make files here.
                    Node::Dir => Err(Errno::ACCESS),
                    Node::File(..) => Err(Errno::NOTDIR),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn simple(&mut self, words: &[String], streams: &mut Streams<'_>) -> Done {
        let Some((name, arguments)) = words.split_first() else {
            return Ok(0);
        };
        match name.as_str() {
            "cat" => self.cat(arguments, streams),
            "echo" => echo(arguments, streams),
            "ls" => self.ls(arguments, streams),
            "help" => streams.out.write_all(HELP.as_bytes()).map(|()| 0),
            "exit" => {
                self.is_over = true;
                match arguments.first().map(|status| status.parse()) {
                    None => Ok(self.status),
                    Some(Ok(status)) => Ok(status),
                    Some(Err(_)) => {
                        writeln!(streams.err, "bash: exit: numeric argument required")?;
                        Ok(2)
                    }
                }
            }
            "true" | ":" => Ok(0),
            "false" => Ok(1),
            "sleep" => self.sleep(arguments, streams),
            other => {
                writeln!(streams.err, "bash: {other}: command not found")?;
                Ok(127)
            }
        }
    }

    fn cat(&mut self, files: &[String], streams: &mut Streams<'_>) -> Done {
        let mut status = 0;
        for name in files {
            let result = match tree::find(&self.session, path(name)) {
                Ok(Node::Dir) => Err(Errno::ISDIR),
                Ok(Node::File(file, of)) if file.is_pipe => match self.cat_pipe(&of, streams)? {
                    Ok(INTERRUPTED) => return Ok(INTERRUPTED),
                    other => other.map(drop),
                },
                Ok(Node::File(file, of)) => match file.read(&mut self.session, &of) {
                    Ok(content) => {
                        streams.out.write_all(&content)?;
                        Ok(())
                    }
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                streams.out.flush()?;
                writeln!(streams.err, "cat: {name}: {}", text_of(error))?;
                status = 1;
            }
        }
        Ok(status)
    }

    /// Shows a pipe until its end.
    fn cat_pipe(&mut self, of: &Of, streams: &mut Streams<'_>) -> io::Result<super::Result<u8>> {
        let cpu = match of {
            Of::Cpu(cpu) => Some(*cpu),
            _ => None,
        };
        let mut opened = match self.session.open_pipe() {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            if self.is_interrupted.load(Relaxed) {
                return Ok(Ok(INTERRUPTED));
            }
            match self.session.pipe(cpu, &mut opened) {
                Ok(Piped::Text(text)) => {
                    streams.out.write_all(&text)?;
                    streams.out.flush()?;
                }
                Ok(Piped::Nothing) => thread::sleep(POLL),
                Ok(Piped::End) => return Ok(Ok(0)),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    fn ls(&mut self, arguments: &[String], streams: &mut Streams<'_>) -> Done {
        let (flags, dirs): (Vec<_>, Vec<_>) = arguments
            .iter()
            .map(String::as_str)
            .partition(|word| word.starts_with('-') && word.len() > 1);
        let is_long = flags.contains(&"-l");
        if let Some(flag) = flags.iter().find(|flag| !["-l", "-1"].contains(*flag)) {
            writeln!(streams.err, "ls: invalid option -- '{}'", &flag[1..])?;
            return Ok(2);
        }
        let here = [""];
        let dirs = if dirs.is_empty() { &here[..] } else { &dirs };
        let mut status = 0;
        for (number, dir) in dirs.iter().enumerate() {
            let names = match tree::find(&self.session, path(dir)) {
                Ok(Node::File(..)) => Ok(vec![((*dir).to_owned(), false)]),
                Ok(Node::Dir) => tree::list(&self.session, path(dir)),
                Err(error) => Err(error),
            };
            match names {
                Err(error) => {
                    writeln!(streams.err, "ls: cannot access '{dir}': {}", text_of(error))?;
                    status = 2;
                }
                Ok(names) => {
                    if dirs.len() > 1 {
                        let gap = if number > 0 { "\n" } else { "" };
                        writeln!(streams.out, "{gap}{dir}:")?;
                    }
                    for (name, is_dir) in names {
                        let mode = match (is_long, is_dir) {
                            (false, _) => "",
                            (true, true) => "drwxr-xr-x ",
                            (true, false) => self.mode(dir, &name),
                        };
                        writeln!(streams.out, "{mode}{name}")?;
                    }
                }
            }
        }
        Ok(status)
    }

    fn mode(&self, dir: &str, name: &str) -> &'static str {
        match tree::find(&self.session, &format!("{}/{name}", path(dir))) {
            Ok(Node::File(file, _)) => match (file.is_readable(), file.is_writable()) {
                (true, true) => "-rw-r--r-- ",
                (true, false) => "-r--r--r-- ",
                _ => "--w------- ",
            },
            _ => "-r--r--r-- ",
        }
    }

    /// Waits so many seconds, so that scripts can let something happen.
    fn sleep(&self, arguments: &[String], streams: &mut Streams<'_>) -> Done {
        let seconds = arguments.first().and_then(|text| text.parse::<f64>().ok());
        let Some(length) = seconds.and_then(|text| Duration::try_from_secs_f64(text).ok()) else {
            writeln!(streams.err, "sleep: invalid time interval")?;
            return Ok(1);
        };
        let end = std::time::Instant::now().checked_add(length);
        while end.is_none_or(|end| std::time::Instant::now() < end) {
            if self.is_interrupted.load(Relaxed) {
                return Ok(INTERRUPTED);
            }
            thread::sleep(POLL.min(length));
        }
        Ok(0)
    }
}

fn echo(arguments: &[String], streams: &mut Streams<'_>) -> Done {
    let (words, end) = match arguments.split_first() {
        Some((first, rest)) if first == "-n" => (rest, ""),
        _ => (arguments, "\n"),
    };
    write!(streams.out, "{}{end}", words.join(" "))?;
    Ok(0)
}

/// A path from the root: `/x`, `./x` and `x` are the same here.
fn path(text: &str) -> &str {
    let text = text.strip_prefix("./").unwrap_or(text);
    match text {
        "." => "",
        text => text.trim_start_matches('/'),
    }
}

/// An error's text as a shell says it.
fn text_of(error: Errno) -> String {
    let text = io::Error::from(error).to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_what_a_shell_says() {
        for (error, text) in [
            (Errno::INVAL, "Invalid argument"),
            (Errno::NOENT, "No such file or directory"),
            (Errno::NOMEM, "Cannot allocate memory"),
            (Errno::BUSY, "Device or resource busy"),
        ] {
            assert_eq!(text_of(error), text);
        }
    }

    #[test]
    fn paths_begin_at_the_root() {
        for (given, meant) in [("/", ""), (".", ""), ("./trace", "trace"), ("//a/b", "a/b")] {
            assert_eq!(path(given), meant);
        }
    }
}
