//! What is set once, for whoever comes later.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use spin::Once;

/// A value that is set once, mostly as the system begins. Nobody waits for it: neither who sets it beside another, nor who looks.
pub struct SetOnce<T> {
    is_taken: AtomicBool,
    value: Once<T>,
}

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> SetOnce<T> {
    /// Without a value.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            value: Once::new(),
        }
    }

    /// Gives it its value, if it has none, and nobody else is about to give it one.
    ///
    /// # Context
    /// Any.
    pub fn set(&self, value: T) {
        // So there is one who comes to `call_once`, which waits for nobody then.
        if !self.is_taken.swap(true, Relaxed) {
            self.value.call_once(|| value);
        }
    }

    /// The value, once it has one.
    ///
    /// # Context
    /// Any.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }
}
