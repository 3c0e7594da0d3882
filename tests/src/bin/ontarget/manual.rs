//! The examples of the kernel's documentation, as they stand there.

use takt_tests::{check_eq, target_test};

macro_rules! examples {
    ($($name:ident = $path:literal)*) => {$(
        #[path = $path]
        mod $name;
    )*};
}

examples! {
    mutex = "../../../../kernel/src/sync/examples/mutex.rs"
    semaphore = "../../../../kernel/src/sync/examples/semaphore.rs"
    queue = "../../../../kernel/src/sync/examples/queue.rs"
    condvar = "../../../../kernel/src/sync/examples/condvar.rs"
    event_flags = "../../../../kernel/src/sync/examples/event_flags.rs"
}

target_test! {
    /// Each comes to what it says.
    fn examples_hold(Shared) {
        check_eq!(mutex::example()?, 42);
        semaphore::example()?;
        check_eq!(queue::example()?, 45);
        check_eq!(condvar::example()?, 3);
        check_eq!(event_flags::example()?, 3);
        Ok(())
    }
}
