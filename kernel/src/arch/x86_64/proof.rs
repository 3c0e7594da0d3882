//! What `cargo xtask prove` has to be told of the code: a section that is not loaded, of entries of an address of code, what is so
//! there, and a text. None of it is an instruction. `docs/PROVE.md` says what is proved.
//!
//! | mark | says | asserted |
//! |---|---|---|
//! | `resumes!`, `resumed!` | a jump goes on with another thread; where threads go on | |
//! | `told!(.., "22")`, `"23"` | behind this branch that is not taken the next thread is none that was preempted; where such a one goes on | the branch asks |
//! | `handles!`, `targets!` | the call, or the next indirect one, is of a function that is not the kernel's: it comes on top | the call is looked at if it is no indirect one |
//! | `apart!` | the next direct call comes on top | the call is looked at if it is none |
//! | `bounded!` | how often a stretch comes here is n; what n counts | nothing: n is free; one that stands in no loop fails |
//! | `not_alone!` | while one CPU runs nobody comes here | that more than one runs |
//! | kinds 17 and 18 | the instruction disables preemption once more, once less | |
//! | kinds 19, 20 and 21 | a lock of several CPUs is taken, waited for, given | |
//! | `only_with!` | nobody comes here in a system without what it names, if whoever proves says so | nothing: the code around it asks |
//! | `guard_begins!`, `guard_ends!`, `guards_left!` | the running thread counts an `IrqGuard` more, one less; there are some | with interrupts on it counts none |
//! | `flags_kept!`, `flags_again!` | the flags in this register are those in that one | they are the same |
//! | `not_null!` | this register is not 0 | it is not |
//! | `shown!` | nobody comes to this assembly but by what the code shows | |
//!
//! Feature `asserts`, which the tests on the target have, checks the assertions as they run; the image that is proved is without.

/// A jump to where the next thread goes on.
macro_rules! resumes {
    ($jump:literal) => {
        $crate::arch::proof::told!($jump, "1")
    };
}

/// Where a thread goes on: each address that such a jump may find.
macro_rules! resumed {
    ($first:literal) => {
        $crate::arch::proof::told!($first, "2")
    };
}

/// A call of an interrupt's handler, which is not the kernel's: what it takes comes on top.
macro_rules! handles {
    ($call:literal) => {
        $crate::arch::proof::told!($call, "4")
    };
}

/// The instruction, with an entry of that kind.
macro_rules! told {
    ($instruction:literal, $kind:literal) => {
        $crate::arch::proof::told!($instruction, $kind, "")
    };
    ($instruction:literal, $kind:literal, $text:literal) => {
        concat!(
            "776:\n",
            $instruction,
            "\n",
            $crate::arch::proof::entry!("776b", $kind, $text),
        )
    };
}

/// The entry of a place, with a text.
macro_rules! entry {
    ($place:literal, $kind:literal, $text:literal) => {
        concat!(
            ".pushsection .takt.proof, \"\", @progbits\n",
            ".long ",
            $place,
            ", ",
            $kind,
            "\n.asciz \"",
            $text,
            "\"\n.balign 4\n.popsection\n",
        )
    };
}

/// An entry of the place in Rust where this stands.
macro_rules! here {
    ($kind:literal, $text:literal) => {
        // SAFETY: there is no instruction.
        unsafe {
            core::arch::asm!(
                concat!("776:\n", $crate::arch::proof::entry!("776b", $kind, $text)),
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}

/// How often a stretch with interrupts off comes here is n, and its bound a formula in that; the text says what n counts.
macro_rules! bounded {
    ($counts:literal) => {
        $crate::arch::proof::here!("5", $counts)
    };
}

/// While one CPU runs nobody comes here; the text says why.
macro_rules! not_alone {
    ($why:literal) => {{
        $crate::arch::proof::here!("6", $why);
        if cfg!(feature = "asserts") {
            assert!($crate::cpus::is_smp!(), $why);
        }
    }};
}

/// Nobody comes here in a system without what the text names, which whoever proves can say of it. Where the code around it has the
/// compiler put others' instructions at the same place, `|` and the static key by which they come there stand behind the text.
macro_rules! only_with {
    ($what:literal) => {
        $crate::arch::proof::here!("16", $what)
    };
}

/// The next indirect call is of a function that is not the kernel's, which the text names: what it takes comes on top.
macro_rules! targets {
    ($what:literal) => {
        $crate::arch::proof::here!("7", $what)
    };
}

/// What the next call does, a direct one, comes on top; the text says what that is.
#[cfg(any(feature = "rules", feature = "osnoise"))]
macro_rules! apart {
    ($what:literal) => {
        $crate::arch::proof::here!("14", $what)
    };
}

/// The running thread counts one `IrqGuard` more: none before one that finds interrupts on.
macro_rules! guard_begins {
    () => {
        $crate::arch::proof::here!("9", "")
    };
}

/// It counts one less.
macro_rules! guard_ends {
    () => {
        $crate::arch::proof::here!("10", "")
    };
}

/// It counts some yet.
macro_rules! guards_left {
    () => {
        $crate::arch::proof::here!("11", "")
    };
}

/// This word is not 0.
macro_rules! not_null {
    ($word:expr) => {{
        let word: usize = $word;
        if cfg!(feature = "asserts") {
            assert!(word != 0, "a null pointer");
        }
        // SAFETY: there is no instruction.
        unsafe {
            core::arch::asm!(
                concat!("776:\n", $crate::arch::proof::entry!("776b", "15", "{0}")),
                in(reg) word,
                options(nomem, nostack, preserves_flags)
            )
        };
        word
    }};
}

/// What the interrupt flag is in this word is what it is in that of the next [`flags_again`].
macro_rules! flags_kept {
    ($flags:expr) => {
        // SAFETY: there is no instruction.
        unsafe {
            core::arch::asm!(
                concat!("776:\n", $crate::arch::proof::entry!("776b", "12", "{0}")),
                in(reg) $flags,
                options(nomem, nostack, preserves_flags)
            )
        }
    };
}

/// The word of flags, of which [`flags_kept`] has told.
macro_rules! flags_again {
    ($flags:expr) => {{
        let flags: u64;
        // SAFETY: there is no instruction.
        unsafe {
            core::arch::asm!(
                concat!("776:\n", $crate::arch::proof::entry!("776b", "13", "{0}")),
                inout(reg) $flags => flags,
                options(nomem, nostack, preserves_flags)
            )
        };
        flags
    }};
}

/// Nobody comes to the function that this is in, which is not compiled, but by the jumps and calls that the code shows.
#[cfg(feature = "trace")]
macro_rules! shown {
    ($first:literal) => {
        $crate::arch::proof::told!($first, "8")
    };
}

#[cfg(any(feature = "rules", feature = "osnoise"))]
pub(crate) use apart;
#[cfg(feature = "trace")]
pub(crate) use shown;
pub(crate) use {
    bounded, entry, flags_again, flags_kept, guard_begins, guard_ends, guards_left, handles, here,
    not_alone, not_null, only_with, resumed, resumes, targets, told,
};
