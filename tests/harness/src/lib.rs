//! Tests that run on the target: the table of them, and how one is run.
//!
//! An image with tests declares them with [`target_test!`] and says `takt_board::entry!(takt_test::main)`.
//!
//! Each test runs in a fresh thread of priority [`PRIORITY`] while the runner waits above all others, so that a test
//! which never ends is noticed. A test returns an [`Outcome`]; [`check!`](crate::check), [`check_eq!`](crate::check_eq)
//! and `?` end it at the first thing that is not as it should be. Nothing unwinds.
//!
//! The host reads lines from the serial port: `test NAME ... ok`, `test NAME ... FAILED: PLACE: MESSAGE`, and at the
//! end `summary: N passed, N failed`.
#![no_std]

use core::fmt::{self, Write};
use core::panic::Location;

use embedded_io::Write as _;
use heapless::String;
use takt_board::cmdline::CommandLine;
use takt_board::lock::IrqLock;
use takt_board::serial::Serial;
pub use takt_kernel::Error;
use takt_kernel::time::{Instant, Nanos};
use takt_kernel::{thread, thread_stack};

/// Priority of the thread that runs a test.
pub const PRIORITY: u8 = 50;
/// Priority of the thread that waits for its end.
const RUNNER_PRIORITY: u8 = 99;
/// How long a test that shares a boot may take of the guest's time.
const LIMIT: Nanos = Nanos::from_secs(5);

/// How a test is booted and what it has to come to.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    /// Passes, in one boot with others.
    Shared,
    /// Passes, in a boot of its own: it uses things up or takes long.
    Alone,
    /// As `Alone`, and with 128 ns an instruction instead of one: long times, not exact ones.
    Slow,
    /// Passes, in a boot of its own with two CPUs that run at the same time, in real time.
    TwoCpus,
    /// Passes, in boots of its own with 1, 2 and 4 CPUs, under icount and in real time. The words `cpus`, `seed`,
    /// `operations` and `patience_ms` of the command line say what it is to do (see [`number`]).
    Stress,
    /// Passes, in a boot of its own with a capture, in real time and in another under icount, while the host injects
    /// NMIs from the moment when the test [asks for them](ask_for_nmis); then the host judges what was recorded.
    Nmis,
    /// Passes, in a boot of its own and in another without a tracer ([`is_untraced`]), where the host counts every
    /// instruction; it holds the two against each other.
    Counted,
    /// Passes, in a boot of its own, and the host finds these texts on the serial port, in this order.
    Prints(&'static [&'static str]),
    /// Ends in a fault whose report, with names for the addresses, has these texts in this order.
    Fault(&'static [&'static str]),
    /// The same, and when the test [asks for it](ask_for_machine_check), the host injects a machine check.
    MachineCheck(&'static [&'static str]),
}

/// A test. [`target_test!`](crate::target_test) makes them.
#[derive(Debug)]
pub struct Test {
    /// `image::module::name`.
    pub path: &'static str,
    /// The test.
    pub run: fn() -> Outcome,
    /// What is expected of it.
    pub expect: Expect,
}

impl Test {
    /// Its name: without that of the image.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.path
            .split_once("::")
            .map_or(self.path, |(_, name)| name)
    }
}

/// How a test ended.
pub type Outcome = Result<(), Failure>;

/// What the last failure was about. Apart from it, so that an outcome is small.
static MESSAGE: IrqLock<String<320>> = IrqLock::new(String::new());

/// Where something was not as it should be. What it was is kept until the next failure.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    place: &'static Location<'static>,
}

impl Failure {
    /// A failure at the caller's place.
    #[track_caller]
    #[must_use]
    pub fn new(message: fmt::Arguments<'_>) -> Self {
        // Without the lock: what formats itself may fail a check, or never end. What does not fit is cut.
        let mut text = String::new();
        let _ = text.write_fmt(message);
        MESSAGE.with(|last| *last = text);
        Self {
            place: Location::caller(),
        }
    }
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::new(format_args!("the kernel said {error:?}"))
    }
}

impl From<takt_tracer::control::setting::Errno> for Failure {
    fn from(error: takt_tracer::control::setting::Errno) -> Self {
        Self::new(format_args!("a setting was refused: {error:?}"))
    }
}

impl<T> From<(T, Error)> for Failure {
    #[track_caller]
    fn from((_, error): (T, Error)) -> Self {
        Self::new(format_args!("the kernel said {error:?}"))
    }
}

/// Declares tests: `/// What holds.` `fn name(EXPECT) { … }` with a variant of [`Expect`](Expect).
#[macro_export]
macro_rules! target_test {
    ($($(#[doc = $doc:literal])* fn $name:ident($($expect:tt)*) $body:block)*) => {$(
        $(#[doc = $doc])*
        fn $name() -> $crate::Outcome {
            $body
        }
        const _: () = {
            #[used]
            #[unsafe(link_section = ".takt.tests")]
            static TEST: $crate::Test = $crate::Test {
                path: ::core::concat!(::core::module_path!(), "::", ::core::stringify!($name)),
                run: $name,
                expect: $crate::Expect::$($expect)*,
            };
        };
    )*};
}

/// Ends the test unless the condition holds; a message may follow.
#[macro_export]
macro_rules! check {
    ($condition:expr $(,)?) => {
        $crate::check!($condition, "not so: {}", ::core::stringify!($condition))
    };
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(::core::format_args!($($message)+)));
        }
    };
}

/// Ends the test unless both are equal.
#[macro_export]
macro_rules! check_eq {
    ($left:expr, $right:expr $(,)?) => {
        match (&$left, &$right) {
            (left, right) => $crate::check!(
                *left == *right,
                "{} is {:?}, not {:?}",
                ::core::stringify!($left),
                left,
                right
            ),
        }
    };
}

/// Ends the test unless the expression is that error.
#[macro_export]
macro_rules! check_err {
    ($result:expr, $error:ident) => {
        match $result.map(|_| ()) {
            Err($crate::Error::$error) => {}
            other => $crate::check!(
                false,
                "{} gave {:?}, not {}",
                ::core::stringify!($result),
                other,
                ::core::stringify!($error)
            ),
        }
    };
}

unsafe extern "C" {
    static __tests_start: u8;
    static __tests_end: u8;
}

/// The tests of this image.
#[must_use]
pub fn tests() -> &'static [Test] {
    let start = (&raw const __tests_start).cast::<Test>();
    let end = (&raw const __tests_end).cast::<Test>();
    // SAFETY: the linker script puts both symbols around the table.
    let nr = unsafe { end.offset_from(start) } as usize;
    // SAFETY: as above; `target_test!` alone puts things there.
    unsafe { core::slice::from_raw_parts(start, nr) }
}

/// Writes to the serial port.
pub fn print(text: fmt::Arguments<'_>) {
    let mut line = String::<400>::new();
    // What does not fit is cut.
    let _ = line.write_fmt(text);
    let Ok(()) = Serial::com1().write_all(line.as_bytes());
}

/// A line for whoever reads the serial port: a measured value.
#[macro_export]
macro_rules! note {
    ($($text:tt)+) => {
        $crate::print(::core::format_args!("note: {}\n", ::core::format_args!($($text)+)))
    };
}

/// Has the host inject NMIs until the machine ends. For a test that expects them ([`Expect::Nmis`]).
pub fn ask_for_nmis() {
    print(format_args!("inject: nmi\n"));
}

/// Has the host inject a machine check. For a test that expects it ([`Expect::MachineCheck`]).
pub fn ask_for_machine_check() {
    print(format_args!("inject: machine check\n"));
}

static LINE: spin::Once<&'static str> = spin::Once::new();

fn line() -> CommandLine<'static> {
    CommandLine(LINE.get().copied().unwrap_or_default())
}

/// Whether this is the boot of an [`Expect::Counted`] test without a tracer.
#[must_use]
pub fn is_untraced() -> bool {
    line().get("untraced").is_some()
}

/// A number that the command line has for a test.
///
/// # Errors
/// If it has something else there.
pub fn number(key: &str, default: u64) -> Result<u64, Failure> {
    line()
        .number(key, default)
        .map_err(|_| Failure::new(format_args!("{key} is no number")))
}

/// Prints a line for every test: `list KIND NAME`, and `text` lines for what is expected of it.
pub fn list() {
    for test in tests() {
        let (kind, texts): (_, &[&str]) = match test.expect {
            Expect::Shared => ("shared", &[]),
            Expect::Alone => ("alone", &[]),
            Expect::Slow => ("slow", &[]),
            Expect::TwoCpus => ("two-cpus", &[]),
            Expect::Stress => ("stress", &[]),
            Expect::Nmis => ("nmis", &[]),
            Expect::Counted => ("counted", &[]),
            Expect::Prints(texts) => ("alone", texts),
            Expect::Fault(texts) => ("fault", texts),
            Expect::MachineCheck(texts) => ("machine-check", texts),
        };
        print(format_args!("list {kind} {}\n", test.name()));
        for text in texts {
            print(format_args!("text {text}\n"));
        }
    }
}

/// The main function of an image with tests: `test=list` names the tests, `test=A,B` runs these, otherwise those that
/// share a boot run; of either those behind `after=NAME` in the table.
#[cfg(feature = "image")]
pub fn main(text: &'static str) {
    main_with(text, || {});
}

/// The same with something to be done before each test.
#[cfg(feature = "image")]
pub fn main_with(text: &'static str, before_each: fn()) {
    use takt_kernel::fault::ExitCode;

    LINE.call_once(|| text);
    let line = line();
    let tests = tests();
    let wanted = line.get("test");
    if wanted == Some("list") {
        list();
        return;
    }
    let after = line
        .get("after")
        .and_then(|name| tests.iter().position(|test| test.name() == name));
    let chosen = tests
        .iter()
        .skip(after.map_or(0, |at| at + 1))
        .filter(|test| match wanted {
            Some(names) => names.split(',').any(|name| name == test.name()),
            None => matches!(test.expect, Expect::Shared),
        });
    let code = if run(chosen, before_each) {
        ExitCode::Passed
    } else {
        ExitCode::Failed
    };
    takt_board::end(code)
}

/// Runs tests one after the other, each after `before_each`; says whether all passed.
pub fn run(tests: impl Iterator<Item = &'static Test>, before_each: fn()) -> bool {
    if let Err(error) = thread::current().set_priority(RUNNER_PRIORITY) {
        print(format_args!("the runner cannot run: {error:?}\n"));
        return false;
    }
    let (mut passed, mut failed) = (0, 0);
    for test in tests {
        print(format_args!("test {} ... ", test.name()));
        before_each();
        match run_one(test) {
            Ok(()) => {
                passed += 1;
                print(format_args!("ok\n"));
            }
            Err(Failure { place }) => {
                failed += 1;
                let (file, line) = (place.file(), place.line());
                let message = MESSAGE.with(|last| last.clone());
                print(format_args!("FAILED: {file}:{line}: {message}\n"));
                if left_behind() != 0 {
                    // Whatever it left would disturb the others: the host boots again for those.
                    return false;
                }
            }
        }
    }
    print(format_args!("summary: {passed} passed, {failed} failed\n"));
    failed == 0
}

thread_stack!(static STACK: 65536);

static RESULT: spin::Mutex<Option<Outcome>> = spin::Mutex::new(None);

fn test_thread(test: usize) {
    // SAFETY: `run_one` passes the address of an element of the table.
    let test = unsafe { &*(test as *const Test) };
    let outcome = (test.run)();
    *RESULT.lock() = Some(outcome);
}

fn run_one(test: &'static Test) -> Outcome {
    // The others have a boot each, and the host's patience.
    let limit = match test.expect {
        Expect::Shared => Instant::after(LIMIT),
        _ => Instant::NEVER,
    };
    let thread = thread::Builder::new("test", PRIORITY)?.spawn(
        &STACK,
        test_thread,
        core::ptr::from_ref(test) as usize,
    )?;
    if thread.join(limit).is_err() {
        return Err(Failure::new(format_args!("it does not end")));
    }
    RESULT
        .lock()
        .take()
        .unwrap_or_else(|| Err(Failure::new(format_args!("it ended without a result"))))?;
    match left_behind() {
        0 => Ok(()),
        nr => Err(Failure::new(format_args!("it left {nr} threads behind"))),
    }
}

/// Threads besides the idle threads and the runner.
fn left_behind() -> usize {
    let mut nr: usize = 0;
    thread::for_each(|_| nr += 1);
    nr.saturating_sub(takt_kernel::smp::nr_online() as usize + 1)
}
