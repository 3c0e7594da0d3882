//! The tracer: what is done when it is chosen and when another one is.

use takt_tracer::control::Tracer as Name;

use super::timerlat;
#[cfg(feature = "tasks")]
use super::user;
use crate::error::Error;
use crate::trace::osnoise::threads;
use crate::trace::tracer::Tracer;

pub(in crate::trace) static TIMERLAT: Tracer =
    Tracer::new(Name::Timerlat, &[&timerlat::ID], begin, end);

fn begin() -> Result<(), Error> {
    #[cfg(feature = "tasks")]
    user::begin()?;
    super::begin().inspect_err(|_| {
        #[cfg(feature = "tasks")]
        user::end();
    })
}

fn end() -> Result<(), Error> {
    #[cfg(feature = "tasks")]
    user::end();
    threads::end()
}
