//! Which SSE registers an interrupt keeps.
//!
//! Integer code as the compiler makes it needs two, `xmm0` and `xmm1`, to move structures. Code that names another lies at
//! the beginning of the text, up to `__sse_end` (see `takt.ld`): what is known to do so, and what an application puts there
//! by `#[unsafe(link_section = ".text.sse.NAME")]`. No function keeps an SSE register for its caller (one that is `extern "win64"`
//! does, and lies there if its caller does), so the other fourteen hold something only where the interrupted instruction itself is
//! that code's. There an interrupt keeps all, elsewhere two.
//! What its handler uses does not matter.
//!
//! That the rest of the text names no others, and that nothing deals with MXCSR, is shown by xtask, which reads the code of
//! each image that it builds or runs, and then writes the border into the entry's comparisons. As an image is linked they know
//! of no border: where xtask has found other code that uses more, or has not looked, all and MXCSR are kept always.
//!
//! Two sections that are not loaded tell xtask what it must know: `.takt.border` where a comparison has its operand, and what
//! that is to be (4 bytes each); `.takt.keeps` where a stretch of code that names registers only to keep them begins and ends
//! (4 bytes each). Code that calls by inline assembly declares all SSE registers as clobbered; what it calls may be
//! interrupted as any other.

use core::arch::asm;

/// Compares the address in `$what` with the border: below it is code that uses more.
macro_rules! where_uses_more {
    ($compare:literal) => {
        concat!(
            // Above every address of code.
            $compare,
            ", 0x7fffffff\n",
            "773:\n",
            ".pushsection .takt.border, \"\", @progbits\n",
            ".long 773b - 4, __sse_end\n",
            ".popsection\n",
        )
    };
}

/// Instructions that name SSE registers or MXCSR only to keep what is in them, or to put it back.
macro_rules! keeps {
    ($($instruction:expr),+ $(,)?) => {
        concat!(
            "774:\n",
            $($instruction, "\n",)+
            "775:\n",
            ".pushsection .takt.keeps, \"\", @progbits\n",
            ".long 774b, 775b\n",
            ".popsection\n",
        )
    };
}

/// What deals with MXCSR and, in as many bytes, the same without that, which stands there in an image where nothing else does.
macro_rules! mxcsr {
    ([$($with:expr),+ $(,)?], without: [$($without:literal),+ $(,)?]) => {
        concat!(
            $crate::arch::sse::keeps!($($with),+),
            ".pushsection .takt.no_mxcsr, \"\", @progbits\n",
            ".long 774b, 775b, 779f - 778f\n",
            "778:\n",
            $($without, "\n",)+
            "779:\n",
            ".balign 4\n",
            ".popsection\n",
        )
    };
}

pub(crate) use {keeps, mxcsr, where_uses_more};

/// Has this CPU's SSE unit begin with it: whoever has booted may have left another.
#[inline(always)]
pub(crate) fn load_mxcsr(mxcsr: &u32) {
    // SAFETY: masks all exceptions, as the ABI wants.
    unsafe { asm!(keeps!("ldmxcsr [{}]"), in(reg) mxcsr, options(nostack, preserves_flags)) };
}
