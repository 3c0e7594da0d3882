//! What an image may leave out, as constants: code of a part that is out is checked and not built.
//!
//! Where a part is out, what only it can bring about does not happen, so nothing asks for it.

use crate::config::MAX_CPUS;

/// Trace points.
pub(crate) const TRACE: bool = cfg!(feature = "trace");

/// A thread may wait for a mutex. Whoever rewrites code does: to switch trace points, or to start a CPU.
pub(crate) const MUTEXES: bool = cfg!(feature = "mutex") || TRACE || MAX_CPUS > 1;

/// A switch may have more to do than to switch: there are quanta, or run times are counted.
pub(crate) const WATCHERS: bool = cfg!(feature = "round-robin");
