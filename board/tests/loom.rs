//! Messages of several CPUs under every order of their steps and every visibility of their stores that the memory model
//! allows.

/// The log's module, with the model checker's memory.
#[path = "../src/log"]
mod log {
    #[expect(dead_code, reason = "for what does not run here")]
    pub(crate) mod messages;

    mod atomic {
        use loom::cell::UnsafeCell;
        pub(super) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

        /// As the log's own.
        #[derive(Debug, Default)]
        pub(super) struct Cell<T>(UnsafeCell<T>);

        impl<T> Cell<T> {
            pub(super) fn new(value: T) -> Self {
                Self(UnsafeCell::new(value))
            }
        }

        impl<T> Cell<T> {
            pub(super) fn with<R>(&self, act: impl FnOnce(*const T) -> R) -> R {
                self.0.with(act)
            }

            pub(super) fn with_mut<R>(&self, act: impl FnOnce(*mut T) -> R) -> R {
                self.0.with_mut(act)
            }
        }
    }
}

use log::messages::{Log, Messages, Step};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A log that is used by one at a time: the model checker says if it is not.
struct Bytes(UnsafeCell<Vec<u8>>);

// SAFETY: so it is to be, and is checked.
unsafe impl Sync for Bytes {}
// SAFETY: bytes, which are no thread's own.
unsafe impl Send for Bytes {}

impl Log for &Bytes {
    fn has_room(&self, _: usize) -> bool {
        true
    }

    fn put(&mut self, done: usize, bytes: &[u8]) -> usize {
        let nr = bytes.len().min(2);
        self.add(done, &bytes[..nr]);
        nr
    }

    fn end(&mut self, len: usize) {
        self.add(len, b".");
    }
}

impl Bytes {
    /// Puts bytes behind so many of the same message.
    fn add(&self, done: usize, bytes: &[u8]) {
        self.0.with_mut(|log| {
            // SAFETY: checked.
            let log = unsafe { &mut *log };
            let begin = log
                .iter()
                .rposition(|byte| *byte == b'.')
                .map_or(0, |at| at + 1);
            assert_eq!(log.len(), begin + done);
            log.extend_from_slice(bytes);
        });
    }
}

struct Shared {
    messages: Messages<2, 20>,
    log: Bytes,
}

/// As the logger does it.
fn say(shared: &Shared, bytes: &[u8]) -> bool {
    let Some(buffer) = shared.messages.take() else {
        return false;
    };
    // SAFETY: just taken.
    unsafe { shared.messages.push(buffer, bytes) };
    // SAFETY: it was taken, and is not published.
    assert!(unsafe { shared.messages.is_whole(buffer) });
    // SAFETY: it was taken, and is published this once.
    unsafe { shared.messages.publish(buffer) };
    while shared.messages.step(&mut &shared.log) == Step::More {}
    true
}

/// With as many changes between the two at other places than those where one ends.
fn model(act: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(act);
}

/// Two messages, one in two pieces come whole, whoever brings them into the log, and none stays behind.
#[test]
fn nothing_is_lost_or_mixed() {
    model(|| {
        let shared = Arc::new(Shared {
            messages: Messages::new(),
            log: Bytes(UnsafeCell::new(Vec::new())),
        });
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || assert!(say(&other, b"b")));
        assert!(say(&shared, b"aaa"));
        other.join().unwrap();
        // SAFETY: checked.
        let log = shared.log.0.with(|log| unsafe { (*log).clone() });
        let (a, b) = ("aaa.", "b.");
        let log = String::from_utf8(log).unwrap();
        assert!(
            log == format!("{a}{b}") || log == format!("{b}{a}"),
            "{log}"
        );
    });
}

/// A buffer is given to one at a time, and comes back.
#[test]
fn buffers_come_back() {
    model(|| {
        let shared = Arc::new(Shared {
            messages: Messages::new(),
            log: Bytes(UnsafeCell::new(Vec::new())),
        });
        let other = Arc::clone(&shared);
        let other = thread::spawn(move || u32::from(say(&other, b"b")));
        let mut said = u32::from(say(&shared, b"a")) + u32::from(say(&shared, b"a"));
        said += other.join().unwrap();
        // SAFETY: checked.
        let log = shared.log.0.with(|log| unsafe { (*log).len() });
        assert_eq!(log, 2 * said as usize);
        assert!(say(&shared, b"c"));
    });
}

/// Who had a number and was halted before its message stood there does not keep those behind it from coming.
#[test]
fn numbers_without_messages_are_passed_over() {
    model(|| {
        let shared = Shared {
            messages: Messages::new(),
            log: Bytes(UnsafeCell::new(Vec::new())),
        };
        let _ = shared.messages.number();
        let said = |text: &[u8]| {
            let wrote = say(&shared, text);
            // SAFETY: nobody else runs.
            wrote.then(|| shared.log.0.with(|log| unsafe { (*log).clone() }))
        };
        assert_eq!(said(b"a").unwrap(), b"");
        // SAFETY: nobody else runs.
        unsafe { shared.messages.take_over(1) };
        assert_eq!(said(b"b").unwrap(), b"a.b.");
        assert_eq!(said(b"c").unwrap(), b"a.b.c.");
    });
}
