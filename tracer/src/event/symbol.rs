//! [`Symbol`]: an id as an address.

use core::fmt;

/// The symbol of an event's id, `N` bytes of which only the address counts: no memory is behind it, so nothing reads it.
///
/// ```compile_fail,E0608
/// # takt_tracer::event_class! { pub class Irq = "irq", core8 { vector: 8 u } print "vector={vector}"; }
/// # takt_tracer::event! { pub entered: Irq = core "irq:entered"; }
/// let id = entered::ID[0];
/// ```
/// ```
/// # takt_tracer::event_class! { pub class Irq = "irq", core8 { vector: 8 u } print "vector={vector}"; }
/// # takt_tracer::event! { pub entered: Irq = core "irq:entered"; }
/// let id = takt_tracer::event::Id::of(&entered::ID);
/// ```
#[repr(transparent)]
pub struct Symbol<const N: usize>([Byte; N]);

/// A byte of one.
#[repr(transparent)]
pub(super) struct Byte {
    _unread: u8,
}

impl<const N: usize> Symbol<N> {
    /// One for a static in a section that is not loaded.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "meant for statics only")]
    pub const fn new() -> Self {
        Self([const { Byte { _unread: 0 } }; N])
    }

    /// Where it begins.
    pub(super) const fn first(&'static self) -> &'static Byte {
        &self.0[0]
    }
}

impl<const N: usize> fmt::Debug for Symbol<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Symbol({self:p})")
    }
}

impl fmt::Debug for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:p}")
    }
}
