//! The log, and markers in the trace.

use core::ffi::{CStr, c_char};

use takt_kernel::trace;

use crate::result::{TAKT_INVALID_ARGUMENT, TAKT_OK, flatten};

/// A text of C's.
///
/// # Errors
/// `TAKT_INVALID_ARGUMENT` if it is NULL or no UTF-8.
///
/// # Safety
/// NULL, or a text that ends with a 0 and does not change during `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, i32> {
    if text.is_null() {
        return Err(TAKT_INVALID_ARGUMENT);
    }
    // SAFETY: the caller's duty.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| TAKT_INVALID_ARGUMENT)
}

/// Logs a text in UTF-8, of level info. `TAKT_OK` or `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The text ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_log(message: *const c_char) -> i32 {
    // SAFETY: the caller's duty.
    flatten(unsafe { text(message) }.map(|message| {
        defmt::info!("{=str}", message);
        TAKT_OK
    }))
}

/// Logs a text in UTF-8 and a value behind it, of level info. `TAKT_OK` or `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The text ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_log_value(message: *const c_char, value: i64) -> i32 {
    // SAFETY: the caller's duty.
    flatten(unsafe { text(message) }.map(|message| {
        defmt::info!("{=str}: {=i64}", message, value);
        TAKT_OK
    }))
}

/// Records a text in UTF-8, as writing to ftrace's trace_marker does. `TAKT_OK` or `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The text ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_trace_marker(marker: *const c_char) -> i32 {
    // SAFETY: the caller's duty.
    flatten(unsafe { text(marker) }.map(|marker| {
        trace::marker(marker);
        TAKT_OK
    }))
}

/// Records a text in UTF-8 and a value behind it, as "text: value". `TAKT_OK` or `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// The text ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_trace_marker_value(marker: *const c_char, value: i64) -> i32 {
    // SAFETY: the caller's duty.
    flatten(unsafe { text(marker) }.map(|marker| {
        takt_kernel::trace_marker!("{marker}: {value}");
        TAKT_OK
    }))
}
