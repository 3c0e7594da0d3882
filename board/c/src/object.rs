//! Objects of the kernel's in memory that C lays out: static and zeroed, until they are initialised.
//!
//! An object has a word in front, which is 0, or the magic number of the kind of object behind it. A mutex is held without a
//! guard (`Mutex::unlock_forgotten`). A stack is of `TAKT_STACK`, which lays it out and registers it and its memory as
//! `thread_stack!` does.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::result::{TAKT_INVALID_ARGUMENT, TAKT_INVALID_STATE, TAKT_NOT_INITIALISED};

/// What an object has inside.
pub(crate) trait Body: Sized + 'static {
    /// What C sees of it: room.
    type Storage;
    /// Stands in front of one that is initialised; no two kinds have the same.
    const MAGIC: u32;
}

/// Nothing is inside.
const EMPTY: u32 = 0;
/// Someone is about to put something inside.
const CLAIMED: u32 = 1;

/// What lies in the room.
#[repr(C)]
pub(crate) struct Object<T> {
    state: AtomicU32,
    body: UnsafeCell<MaybeUninit<T>>,
}

impl<T: Body> Object<T> {
    /// The object in this room.
    ///
    /// # Errors
    /// `TAKT_INVALID_ARGUMENT` if there is none.
    ///
    /// # Safety
    /// NULL, or memory that stays and that only this module's functions write to.
    unsafe fn at(storage: *mut T::Storage) -> Result<&'static Self, i32> {
        const {
            assert!(size_of::<Self>() <= size_of::<T::Storage>());
            assert!(align_of::<Self>() <= align_of::<T::Storage>());
        }
        let object = storage.cast::<Self>();
        if object.is_null() || !object.is_aligned() {
            return Err(TAKT_INVALID_ARGUMENT);
        }
        // SAFETY: the caller's duty; any bytes are a state and a body that may be uninitialised.
        Ok(unsafe { &*object })
    }

    /// Takes an empty room, for [`Object::publish`] or [`Object::clear`].
    ///
    /// # Errors
    /// `TAKT_INVALID_ARGUMENT`; `TAKT_INVALID_STATE` if it is not empty.
    ///
    /// # Safety
    /// As [`Object::at`].
    pub(crate) unsafe fn claim(storage: *mut T::Storage) -> Result<&'static Self, i32> {
        // SAFETY: the caller's duty.
        let object = unsafe { Self::at(storage) }?;
        match object
            .state
            .compare_exchange(EMPTY, CLAIMED, Relaxed, Relaxed)
        {
            Ok(_) => Ok(object),
            Err(_) => Err(TAKT_INVALID_STATE),
        }
    }

    /// Fills a room that the caller has claimed.
    pub(crate) fn publish(&'static self, body: T) {
        debug_assert!(self.state.load(Relaxed) == CLAIMED);
        // SAFETY: claimed, so that nobody else looks inside.
        unsafe { (*self.body.get()).write(body) };
        self.state.store(T::MAGIC, Release);
    }

    /// Empties the room; what was inside needs no drop.
    pub(crate) fn clear(&self) {
        self.state.store(EMPTY, Release);
    }

    /// Puts the object into an empty room, or says why not.
    ///
    /// # Safety
    /// As [`Object::at`].
    pub(crate) unsafe fn init(storage: *mut T::Storage, body: T) -> Result<(), i32> {
        // SAFETY: the caller's duty.
        unsafe { Self::claim(storage) }?.publish(body);
        Ok(())
    }

    /// An initialised object, and what it has inside.
    ///
    /// # Errors
    /// `TAKT_INVALID_ARGUMENT`, `TAKT_NOT_INITIALISED`.
    ///
    /// # Safety
    /// As [`Object::at`].
    pub(crate) unsafe fn get(storage: *mut T::Storage) -> Result<(&'static Self, &'static T), i32> {
        // SAFETY: the caller's duty.
        let object = unsafe { Self::at(storage) }?;
        if object.state.load(Acquire) != T::MAGIC {
            return Err(TAKT_NOT_INITIALISED);
        }
        // SAFETY: inside an object that is there.
        let body = unsafe { &*object.body.get() };
        // SAFETY: `publish` wrote it before the magic number.
        Ok((object, unsafe { body.assume_init_ref() }))
    }
}
