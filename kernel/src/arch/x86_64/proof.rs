//! What `cargo xtask prove` has to be told of the code: a section that is not loaded, of entries of 8 bytes, an address of code
//! and what is so there (see `docs/PROVE.md`). None of it is an instruction.

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
        concat!(
            "776:\n",
            $instruction,
            "\n.pushsection .takt.proof, \"\", @progbits\n",
            ".long 776b, ",
            $kind,
            "\n.popsection\n",
        )
    };
}

// The running thread's control block is never null (see `percpu::current`).
core::arch::global_asm!(
    ".pushsection .takt.proof, \"\", @progbits",
    ".long {CURRENT}, 3",
    ".popsection",
    CURRENT = const super::percpu::CURRENT,
);

pub(crate) use {handles, resumed, resumes, told};
