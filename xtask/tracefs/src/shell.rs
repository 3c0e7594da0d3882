//! `tracefs shell`: `cat`, `echo`, `ls` and the like on the file tree, where there is no FUSE or no wish for it.
//!
//! What goes wrong is said as bash and coreutils say it, under the shell's own name where bash says its own; the exit code is
//! that of the last command.
//!
//! | module | content |
//! |---|---|
//! | `path` | what a path means |
//! | `files` | the commands that read files and folders |
//! | `filter` | those that read lines: `head`, `tail`, `grep`, `wc` |

mod files;
mod filter;
mod path;

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::io::Errno;
use takt_tracer::control::Setting;

use self::filter::{Filter, Reader, not_enough};
use super::session::Session;
use super::tree::{self, Node, Of};
use takt_guest::syntax::{self, Command, Redirect};

/// How often a pipe with nothing in it is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How much of the guest's time passes at once where it stands still otherwise: Ctrl-C is looked for in between.
const PASS: Duration = Duration::from_secs(1);
/// Exit status of a command that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;
/// The shell's name, before what it says of errors.
const NAME: &str = "tracefs";

const HELP: &str = "\
cat FILE...            shows files; trace_pipe waits for more until Ctrl-C or the tracer changes
cd [DIR]               goes to a folder; without one to the root; pwd says where that is
echo [-n] TEXT > FILE  writes to a file; >> adds to it
grep [-EFcinoqvw] PATTERN [FILE]..., head [-N] [FILE]..., tail [-N] [FILE]..., wc [-lwc] [FILE]...
                       show or count lines, of files or of what comes through a pipe: cat trace | grep -c timerlat
ls [-1dl] [DIR]...     lists folders
sleep SECONDS          waits; with --icount so much of the guest's time passes, which stands still otherwise
help                   this
exit [STATUS]          ends the session
Commands are separated by `;` or newlines, and `|` gives the output of one to the next; words may be quoted; `\\` at a line's
end has it go on in the next; `#` begins a comment. /sys/kernel/tracing, /sys/kernel/debug/tracing and /debug/tracing are
the root, as `/` is. `cat README` tells the files.
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
    /// The folder that paths begin in, and the one before: from the root.
    cwd: String,
    last_cwd: String,
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
            cwd: String::new(),
            last_cwd: String::new(),
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
    pub fn run(
        &mut self,
        input: &mut dyn BufRead,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<u8> {
        let has_prompt = io::stdin().is_terminal();
        let mut lines = String::new();
        while !self.is_over {
            if has_prompt {
                let prompt = if lines.is_empty() { "tracefs# " } else { "> " };
                write!(streams.err, "{prompt}")?;
                streams.err.flush()?;
            }
            let is_end = input.read_line(&mut lines).context("cannot read stdin")? == 0;
            // Without the newline, which a `\` before it would take away.
            let typed = lines.strip_suffix('\n').unwrap_or(&lines);
            if !is_end && matches!(syntax::parse(typed), Err(syntax::Error::Incomplete(_))) {
                continue;
            }
            self.execute(&lines, streams)?;
            lines.clear();
            if is_end {
                break;
            }
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
            Err(error) => self.status = say(streams, &error.to_string(), 2)?,
            Ok(pipelines) => {
                for pipeline in pipelines {
                    self.status = self.pipeline(&pipeline, streams)?;
                    if self.is_over || self.status == INTERRUPTED {
                        break;
                    }
                }
            }
        }
        streams.out.flush()?;
        if let Some(said) = self.session.guest.last_words() {
            writeln!(streams.err, "{said}")?;
        }
        Ok(self.status)
    }

    /// Carries out commands of which each may read what the one before writes.
    fn pipeline(&mut self, commands: &[Command], streams: &mut Streams<'_>) -> Done {
        // Where one reads nothing, or the one before writes elsewhere, nobody reads what those before write.
        let mut begin = 0;
        for at in 1..commands.len() {
            let reads = reader(&commands[at]).is_some() && commands[at - 1].redirect.is_none();
            if !reads {
                let mut nobody = Streams {
                    out: &mut Nobody,
                    err: streams.err,
                };
                match self.chain(&commands[begin..at], &mut nobody) {
                    Err(error) => not_enough(Err(error))?,
                    Ok(INTERRUPTED) => return Ok(INTERRUPTED),
                    Ok(_) => {}
                }
                begin = at;
            }
        }
        self.chain(&commands[begin..], streams)
    }

    /// The same where each command behind the first does read; the last one may write to a file.
    fn chain(&mut self, commands: &[Command], streams: &mut Streams<'_>) -> Done {
        let Some((command, redirect)) = commands
            .last()
            .and_then(|last| Some((last, last.redirect.as_ref()?)))
        else {
            return self.piped(commands, streams);
        };
        let (file, of) = match self.open(redirect) {
            Ok(file) => file,
            Err(error) => {
                let what = format!("{}: {}", redirect.file, text_of(error));
                return say(streams, &what, 1);
            }
        };
        // Collected first: what a command says is one write.
        let mut said = Vec::new();
        let mut inner = Streams {
            out: &mut said,
            err: streams.err,
        };
        let status = self.piped(commands, &mut inner)?;
        let written = match said.is_empty() {
            true => Ok(()),
            false => file.write(&mut self.session, &of, &said),
        };
        if let Err(error) = written.and(self.session.close()) {
            let name = command.words.first().map_or("", String::as_str);
            return say(
                streams,
                &format!("{name}: write error: {}", text_of(error)),
                1,
            );
        }
        Ok(status)
    }

    /// The same where none writes to a file.
    fn piped(&mut self, commands: &[Command], streams: &mut Streams<'_>) -> Done {
        let Some((first, others)) = commands.split_first() else {
            return Ok(0);
        };
        if others.is_empty() {
            return self.simple(&first.words, streams);
        }
        let mut next: Box<dyn Stage + '_> = Box::new(Last(&mut *streams.out));
        for filter in others.iter().rev().filter_map(reader) {
            next = Box::new(Reader::new(filter, None, next));
        }
        let mut inner = Streams {
            out: &mut next,
            err: streams.err,
        };
        match self.simple(&first.words, &mut inner) {
            Ok(INTERRUPTED) => return Ok(INTERRUPTED),
            Ok(_) => {}
            Err(error) => not_enough(Err(error))?,
        }
        Ok(next.finish_all()?.unwrap_or(0))
    }

    /// Opens a file for writing, as `>` and `>>` do.
    fn open(&mut self, redirect: &Redirect) -> super::Result<(&'static super::files::File, Of)> {
        let path = self.path(&redirect.file);
        match tree::find(&self.session, &path) {
            Ok(Node::Dir) => Err(Errno::ISDIR),
            Ok(Node::File(file, of)) => {
                if !redirect.is_append {
                    file.truncate(&mut self.session)?;
                }
                Ok((file, of))
            }
            Err(Errno::NOENT) => {
                let (parent, _) = path.rsplit_once('/').unwrap_or_default();
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
            "cd" => self.cd(arguments, streams),
            "echo" => echo(arguments, streams),
            "ls" => self.ls(arguments, streams),
            "pwd" => writeln!(streams.out, "{}", path::absolute(&self.cwd)).map(|()| 0),
            "help" => streams.out.write_all(HELP.as_bytes()).map(|()| 0),
            "exit" => {
                self.is_over = true;
                match arguments.first().map(|status| status.parse()) {
                    None => Ok(self.status),
                    Some(Ok(status)) => Ok(status),
                    Some(Err(_)) => say(streams, "exit: numeric argument required", 2),
                }
            }
            "true" | ":" => Ok(0),
            "false" => Ok(1),
            "sleep" => self.sleep(arguments, streams),
            other => match filter::parse(words) {
                Some(Ok((filter, []))) => Reader::new(filter, None, &mut *streams.out).finish(),
                Some(Ok((filter, files))) => self.read_lines(other, &filter, files, streams),
                Some(Err(error)) => {
                    writeln!(streams.err, "{other}: {error}")?;
                    Ok(if other == "grep" { 2 } else { 1 })
                }
                None => say(streams, &format!("{other}: command not found"), 127),
            },
        }
    }

    /// The path from the root of what the user calls so.
    fn path(&self, text: &str) -> String {
        path::resolve(&self.cwd, text)
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Relaxed)
    }

    /// Waits so many seconds, so that scripts can let something happen.
    fn sleep(&mut self, arguments: &[String], streams: &mut Streams<'_>) -> Done {
        let seconds = arguments.first().and_then(|text| text.parse::<f64>().ok());
        let Some(length) = seconds.and_then(|text| Duration::try_from_secs_f64(text).ok()) else {
            writeln!(streams.err, "sleep: invalid time interval")?;
            return Ok(1);
        };
        let mut left = length;
        let end = Instant::now().checked_add(length);
        while !left.is_zero() {
            if self.is_interrupted() {
                return Ok(INTERRUPTED);
            }
            let part = left.min(if self.session.guest.stands_still() {
                PASS
            } else {
                POLL
            });
            if let Err(error) = self.wait(part) {
                writeln!(streams.err, "sleep: {}", text_of(error))?;
                return Ok(1);
            }
            left = match end {
                Some(end) if !self.session.guest.stands_still() => {
                    end.saturating_duration_since(Instant::now())
                }
                _ => left - part,
            };
        }
        Ok(0)
    }

    /// Waits so long, in the guest's time if that stands still otherwise.
    fn wait(&mut self, length: Duration) -> super::Result<()> {
        if self.session.guest.stands_still() {
            let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
            return self.session.guest.set(Setting::Pass(nanos));
        }
        thread::sleep(length);
        Ok(())
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

/// Says what is wrong. Gives this status.
fn say(streams: &mut Streams<'_>, what: &str, status: u8) -> Done {
    writeln!(streams.err, "{NAME}: {what}")?;
    Ok(status)
}

/// What a command does with the lines that it is given; `None` if it reads none.
fn reader(command: &Command) -> Option<Filter> {
    match filter::parse(&command.words)? {
        Ok((filter, [])) => Some(filter),
        _ => None,
    }
}

/// What a command in a pipe writes to.
trait Stage: Write {
    /// There is nothing more to come. Gives the exit status of the last command.
    fn finish_all(&mut self) -> io::Result<Option<u8>>;
}

impl Stage for Reader<Box<dyn Stage + '_>> {
    fn finish_all(&mut self) -> io::Result<Option<u8>> {
        let status = match self.finish() {
            Ok(status) => status,
            Err(error) => not_enough(Err(error)).map(|()| 0)?,
        };
        Ok(self.out.finish_all()?.or(Some(status)))
    }
}

/// Behind the last command.
struct Last<'o>(&'o mut dyn Write);

impl Write for Last<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Stage for Last<'_> {
    fn finish_all(&mut self) -> io::Result<Option<u8>> {
        Ok(None)
    }
}

/// Where nobody reads.
struct Nobody;

impl Write for Nobody {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
}
