//! [`Session`]: a line is watched from its first byte to the machine's end.

use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use takt_timerlat::stats::RunState;
use takt_tracer::wire::FrameHeader;
use takt_tracer::wire::line::{CHANNEL_END, CHANNEL_HELLO, STOP};

use super::port::Port;
use super::receiver::{News, Receiver, is_plausible};
use takt_base::device::Device;
use takt_base::term::WithHelp;
use takt_guest;
use takt_guest::Elf;
use takt_guest::frames::{Damage, FrameScanner};
use takt_machine::qemu::GuestExit;
use takt_machine::run::RunConfig;
use takt_machine::run::live::Live;
use takt_machine::run::monitor::{Ending, Outcome, SILENCE};
use takt_machine::run::signals::{Interrupted, Watch, Wish};

/// A machine that runs says who it is every second.
const GREETED_WITHIN: Duration = Duration::from_secs(5);
/// If nothing comes for this long, no more of a frame will.
const PAUSE: Duration = Duration::from_millis(300);
/// A machine that sends at another speed is not silent for so long.
const QUIET: Duration = Duration::from_secs(3);
/// How often a machine that was asked to stop is asked again: what is sent to it may be damaged as well.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How often a connection is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// So many bytes that are neither frames nor text come from no boot loader.
const NOISE: u64 = 200;
/// Who begins to read in the middle of a frame has noise until the next one, which has come by then.
const NOISY: Duration = Duration::from_secs(1);

/// What is listened to.
#[derive(Debug)]
pub struct Session<'s> {
    /// The line.
    pub device: &'s Device,
    /// Its speed.
    pub baud: u32,
    /// Whether a boot is waited for, however long it takes.
    pub is_listening: bool,
    /// No live view.
    pub is_quiet: bool,
    /// The machine's image.
    pub elf: &'s Elf,
    /// Whether it measures; else there are no figures, and nobody in it hears that it is to stop.
    pub measures: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Taken {
    /// How it ended.
    pub outcome: Outcome,
    /// What was no sound frame.
    pub damage: Damage,
}

impl Session<'_> {
    /// Opens the line. Who listens waits for the other end of a socket.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or the user wants out.
    pub fn open(&self) -> Result<Port> {
        let mut watch = Watch::start().context("cannot watch for Ctrl-C")?;
        let mut is_told = self.is_quiet;
        loop {
            match Port::open(self.device, self.baud) {
                Err(error) if self.is_listening && self.may_come(&error) => {}
                other => return other,
            }
            if !is_told {
                tell!("Waiting for {}", self.device);
                is_told = true;
            }
            if watch.wish() != Wish::None {
                bail!(Interrupted("interrupted: nothing was there"));
            }
            thread::sleep(TRY_AGAIN);
        }
    }

    /// Whether who is to listen at a socket may only not be there yet.
    fn may_come(&self, error: &anyhow::Error) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        let kind = error.root_cause().downcast_ref().map(io::Error::kind);
        !matches!(self.device, Device::Path(_))
            && kind.is_some_and(|kind| matches!(kind, NotFound | ConnectionRefused))
    }

    /// Whether a frame is of a machine that has booted while it was listened to, for so long: it says every second how often
    /// it has said who it is.
    fn is_of_boot(&self, header: &FrameHeader, listened: Duration) -> bool {
        !self.is_listening
            || header.channel == CHANNEL_HELLO && u64::from(header.seq) <= listened.as_secs()
    }

    /// Takes in what comes until the machine has ended.
    ///
    /// # Errors
    ///
    /// If nothing of use comes at all, a file cannot be written, or the user wants out.
    pub fn take(&self, port: Port, receiver: &mut Receiver) -> Result<Taken> {
        let mut watch = Watch::start().context("cannot watch for Ctrl-C")?;
        let mut frames =
            FrameScanner::of_line(port, is_plausible, self.elf.build_id().unwrap_or_default());
        let mut view: Option<Live> = None;
        let mut started = Instant::now();
        let mut asked: Option<Instant> = None;
        let mut noisy: Option<Instant> = None;
        // A run that was under way before is not the one that is listened for, nor is its end. It gets no answer: its results
        // are there for who attaches without listening.
        let (mut has_begun, mut is_told) = (false, self.is_quiet);
        let mut is_over_told = self.is_quiet;
        let ending = loop {
            let mut is_first = false;
            let news = match frames.next() {
                Ok(Some((header, payload))) => {
                    noisy = None;
                    is_first = !has_begun && self.is_of_boot(&header, started.elapsed());
                    if is_first && self.is_listening {
                        receiver.restart()?;
                    }
                    has_begun |= is_first;
                    match has_begun {
                        true => receiver.take(&header, payload)?,
                        false => {
                            receiver.forget_before();
                            let is_over = header.channel == CHANNEL_END;
                            if is_over && !is_over_told {
                                tell!(
                                    "A run that began before is over: without --listen its results are taken, if the machine \
                                     still offers them; waiting for the next boot"
                                );
                            } else if !is_told {
                                tell!(
                                    "A run is under way that began before: waiting for the next boot"
                                );
                            }
                            is_over_told |= is_over;
                            is_told = true;
                            News::None
                        }
                    }
                }
                Ok(None) => break self.exit(receiver).unwrap_or(Ending::LineClosed),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => News::None,
                Err(error) => return Err(error).context("the serial line cannot be read"),
            };
            let silence = frames.input().silence();
            if silence >= PAUSE {
                frames.give_up();
            }
            let stray = frames.take_stray();
            if is_first {
                frames.forget_damage();
            }
            receiver
                .stray(&stray, is_first)
                .context("cannot write what came")?;
            match news {
                News::None => {}
                News::Figures => self.show(view.as_ref(), receiver)?,
                News::Answer(answer) => say(frames.input(), answer),
                News::Rebooted => break Ending::Rebooted,
            }
            match watch.wish() {
                Wish::None => {}
                Wish::Stop if receiver.greeting().is_none() => {
                    bail!(Interrupted("interrupted: no machine has said who it is"))
                }
                Wish::Stop if !self.measures => {
                    asked = Some(Instant::now());
                    break Ending::DidNotStop;
                }
                Wish::Stop if asked.is_none_or(|at| at.elapsed() >= ASK_AGAIN) => {
                    asked = Some(Instant::now());
                    say(frames.input(), STOP);
                }
                Wish::Stop => {}
                Wish::Quit => {
                    view.iter().for_each(Live::finish);
                    bail!(Interrupted(
                        "interrupted: nothing was reported, no run folder was made"
                    ));
                }
            }
            let Some(greeting) = receiver.greeting() else {
                if self.is_listening && silence >= QUIET {
                    receiver.forget_before();
                }
                if receiver.before().1 < NOISE {
                    noisy = None;
                }
                let noise = noisy.get_or_insert_with(Instant::now).elapsed();
                self.judge_start(receiver, started.elapsed(), noise)?;
                continue;
            };
            if view.is_none() && self.measures {
                started = Instant::now();
                let config = RunConfig::from_cmdline(&greeting.command_line, &[]);
                view = Some(Live::new(&config, self.is_quiet, None));
            }
            // Behind the answer to its end, it may ask once more.
            if let Some(exit) = self.exit(receiver).filter(|_| silence >= PAUSE) {
                break exit;
            }
            if silence >= SILENCE {
                break Ending::LineSilent;
            }
        };
        view.iter().for_each(Live::finish);
        let stray = frames.take_stray();
        receiver
            .stray(&stray, false)
            .context("cannot write what came")?;
        Ok(Taken {
            outcome: Outcome {
                ending,
                is_interrupted: asked.is_some(),
                took: started.elapsed(),
                stood: Vec::new(),
            },
            damage: frames.damage(),
        })
    }

    /// How the machine ended, if it has said so.
    fn exit(&self, receiver: &Receiver) -> Option<Ending> {
        let end = receiver.end()?;
        Some(Ending::Exited(GuestExit::of_value(end.code)))
    }

    /// Shows the figures.
    fn show(&self, view: Option<&Live>, receiver: &Receiver) -> Result<()> {
        let Some(view) = view else { return Ok(()) };
        let status = takt_guest::status(self.elf, receiver.ram())?;
        let Some(head) = status.head()? else {
            return Ok(());
        };
        view.update(&head, &status.slots()?);
        if !matches!(head.state, RunState::Booting | RunState::Running) {
            view.say("the measurement is over: receiving the trace");
        }
        Ok(())
    }

    /// What is to be said as long as nobody has said who sends.
    fn judge_start(&self, receiver: &Receiver, waited: Duration, noisy: Duration) -> Result<()> {
        let Self { device, baud, .. } = self;
        let (text, noise) = receiver.before();
        if noise >= NOISE && noise > text && noisy >= NOISY {
            return Err(anyhow!(
                "{noise} bytes came over {device} that are neither frames nor text: the machine sends at another speed \
                 than {baud} baud"
            ))
            .help(
                "the speed is that of the machine's command line, capture=com1[,SPEED]: --baud SPEED; above 115200 baud its port \
                 needs a faster input clock, 14.7456 MHz, which that of a PC's own board does not have",
            );
        }
        if self.is_listening || waited < GREETED_WITHIN {
            return Ok(());
        }
        let seconds = GREETED_WITHIN.as_secs();
        if text != 0 {
            return Err(anyhow!(
                "{text} bytes of text came over {device} within {seconds} s, and no frame"
            ))
            .help("the machine's console is there; boot it with capture=com1 on the kernel's command line");
        }
        Err(anyhow!("nothing came over {device} within {seconds} s")).help(
            "the machine is to be booted with capture=com1 on the kernel's command line, its COM1 connected by a null \
             modem cable; --listen waits for it",
        )
    }
}

/// Sends a byte. If it does not get there, the machine says again what it was the answer to.
fn say(port: &mut Port, byte: u8) {
    let _ = port.write_all(&[byte]);
}
