//! Following the frame pointers: who called whom, from any context.
//!
//! A frame is two words: the caller's frame pointer, and where the function returns to. A walk reads only frames that
//! lie on a stack that it knows (the CPU's interrupt and exception stacks, and the running thread's), each above the one
//! before, so it ends whatever the memory holds, and it touches neither guards nor anything else.
//!
//! Where an interrupt's or an NMI's frames end, the walk goes on with what it interrupted: first the interrupted
//! instruction, then the frames of the stack that the interrupted code ran on. A function that was interrupted where it has no
//! frame, at its first instructions or at its last, has its caller found by the stack pointer. Between the moment in which another thread
//! counts as the running one and the jump to it the stack is not known, and the walk ends at once.

use takt_tracer::frame::words_to_return;

use crate::arch::{descriptors, percpu};
use crate::thread::tcb::TcbRef;

/// A stack. What can be interrupted has a higher rank than what interrupts it.
#[derive(Clone, Copy)]
struct Stack {
    rank: Rank,
    bottom: usize,
    top: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Exception,
    Interrupt,
    Thread,
    /// No stack that is known: all of them, or the whole image, for reports of faults.
    Anything,
}

impl Stack {
    /// The stack of this CPU, or of its running thread, that an address lies on.
    #[inline(never)]
    fn of(address: usize) -> Option<Self> {
        let of_cpu = |bottom, top, is_irq| Self {
            rank: if is_irq {
                Rank::Interrupt
            } else {
                Rank::Exception
            },
            bottom,
            top,
        };
        let thread = || {
            let thread = TcbRef::current();
            Some(Self {
                rank: Rank::Thread,
                bottom: thread.stack_bottom(),
                top: thread.stack_top(),
            })
        };
        descriptors::cpu_stack(percpu::cpu(), address, of_cpu)
            .or_else(thread)
            .filter(|stack| (stack.bottom..stack.top).contains(&address))
    }

    /// Whether a frame can be there.
    #[inline(always)]
    fn has(&self, frame: usize) -> bool {
        frame.is_multiple_of(8) && self.bottom <= frame && frame < self.top.saturating_sub(15)
    }

    /// What was interrupted: its instruction and its stack pointer. They lie where the CPU has pushed them. Nothing that is known if it
    /// was a task in ring 3, which may have anything in both.
    #[inline(always)]
    fn interrupted(&self) -> Option<(usize, usize)> {
        match self.rank {
            Rank::Exception => {
                // SAFETY: the CPU begins such a stack with these five words: rip, cs, rflags, rsp, ss.
                let frame = unsafe {
                    ((self.top - descriptors::RESERVED - 40) as *const [usize; 5]).read_volatile()
                };
                (!is_ring_3(frame[1])).then_some((frame[0], frame[3]))
            }
            Rank::Interrupt => {
                let frame = TcbRef::current().frame();
                // SAFETY: a trap frame lies right before every control block.
                let frame = unsafe { frame.as_ref() }?;
                (!is_ring_3(frame.cs as usize)).then_some((frame.rip as usize, frame.rsp as usize))
            }
            Rank::Thread | Rank::Anything => None,
        }
    }
}

/// Whether code of this selector is a task's.
#[inline(always)]
const fn is_ring_3(cs: usize) -> bool {
    cfg!(feature = "tasks") && cs & 3 != 0
}

/// A walk: an iterator over the addresses of the calls that are under way, the innermost first, and where an interrupt
/// came the address of the interrupted instruction.
///
/// # Context
/// Any, NMI included; of the CPU and the thread that run.
pub(crate) struct Backtrace {
    frame: usize,
    stack: Option<Stack>,
    interrupted: Option<usize>,
    /// Where the interrupted function returns to lies there, if it has no frame.
    unframed: Option<usize>,
}

/// Where the return address lies of a function that has no frame at the instruction `ip`; the stack pointer is `sp` there.
#[inline(never)]
fn unframed(ip: usize, sp: usize) -> Option<usize> {
    let text = descriptors::text_range();
    if ip <= text.start || text.end.saturating_sub(8) < ip {
        return None;
    }
    // SAFETY: nine bytes of code, which can be read; other CPUs write to it only while this one waits for them.
    let [before, code @ ..] = unsafe { ((ip - 1) as *const [u8; 9]).read_volatile() };
    words_to_return(before, &code).map(|words| sp + 8 * words)
}

impl Backtrace {
    /// The calls from the function on that has its frame there.
    #[cfg(feature = "stacktrace")]
    pub(crate) fn from(frame: usize) -> Self {
        Self::begin(frame, None)
    }

    /// The calls from the function on that has its frame there, for the report of a fault at the instruction `ip` with this stack
    /// pointer: where no stack is known, anything in the image or on a stack that looks like a frame is taken for one. Where no
    /// code is, a call has led.
    pub(crate) fn for_report(frame: usize, ip: usize, sp: usize) -> impl Iterator<Item = usize> {
        let stacks = descriptors::window_range();
        let memory = match stacks.contains(&frame) {
            true => stacks,
            false => descriptors::image_range(),
        };
        let anything = Stack {
            rank: Rank::Anything,
            bottom: memory.start,
            top: memory.end,
        };
        let mut calls = Self::begin(frame, Some(anything));
        if !descriptors::text_range().contains(&ip) {
            let is_return = |slot: &usize| {
                // SAFETY: aligned, and on a stack.
                let word = || unsafe { (*slot as *const usize).read_volatile() };
                Stack::of(*slot).is_some_and(|stack| stack.has(*slot))
                    && descriptors::text_range().contains(&word())
            };
            calls.unframed = Some(sp).filter(is_return);
        }
        core::iter::from_fn(move || {
            // Where anything is taken for a frame, that may lie on a guard.
            let is_anywhere = calls.stack.is_some_and(|it| it.rank == Rank::Anything);
            if is_anywhere && crate::guards::is_guarded(calls.frame) {
                return None;
            }
            calls.next()
        })
    }

    #[inline(never)]
    fn begin(frame: usize, otherwise: Option<Stack>) -> Self {
        Self {
            frame,
            stack: Stack::of(frame)
                .or(otherwise)
                .filter(|stack| stack.has(frame)),
            interrupted: None,
            unframed: None,
        }
    }

    /// Goes on behind the last frame of a stack, whose caller's frame is `next`.
    #[inline(never)]
    fn leave(&mut self, stack: &Stack, next: usize) {
        self.stack = None;
        let Some((ip, sp)) = stack.interrupted() else {
            return;
        };
        // Of an interrupt that has already chosen another thread it is that thread's, and the frame is not on its stack.
        // A stack pointer may be anything: functions that call none need not align it.
        let below = Stack::of(sp).filter(|below| below.rank > stack.rank && below.has(next));
        if below.is_some() && next >= sp {
            self.interrupted = Some(ip);
            // Below the caller's frame, and so on its stack.
            self.unframed = unframed(ip, sp).filter(|slot| slot.is_multiple_of(8) && *slot < next);
            self.stack = below;
            self.frame = next;
        }
    }
}

impl Backtrace {
    /// The call that returns to `ret`, which lies at `slot`.
    #[cfg_attr(
        not(feature = "function"),
        expect(
            unused_variables,
            reason = "the graph has other return addresses there"
        )
    )]
    fn call(&mut self, slot: usize, ret: usize) -> Option<usize> {
        #[cfg(feature = "function")]
        let ret = crate::trace::function::shadow::return_address(slot, ret);
        if ret == 0 {
            self.stack = None;
            return None;
        }
        // The call, not the instruction behind it, which may be another function's.
        Some(ret - 1)
    }

    /// Where the return address lies that the next item is made of; `None` if it is an interrupted instruction, or if
    /// there is no next one.
    #[cfg(feature = "function")]
    pub(crate) fn next_slot(&self) -> Option<usize> {
        match self.interrupted {
            Some(_) => None,
            None => self.unframed.or(self.stack.map(|_| self.frame + 8)),
        }
    }
}

impl Iterator for Backtrace {
    type Item = usize;

    #[inline(never)]
    fn next(&mut self) -> Option<usize> {
        if let Some(ip) = self.interrupted.take() {
            return Some(ip);
        }
        if let Some(slot) = self.unframed.take() {
            // SAFETY: aligned, and on a stack.
            let ret = unsafe { (slot as *const usize).read_volatile() };
            return self.call(slot, ret);
        }
        let stack = self.stack?;
        let frame = self.frame;
        // SAFETY: aligned, and on a stack, whole.
        let [next, ret] = unsafe { (frame as *const [usize; 2]).read_volatile() };
        if next > frame && stack.has(next) {
            self.frame = next;
        } else {
            self.leave(&stack, next);
        }
        self.call(frame + 8, ret)
    }
}
