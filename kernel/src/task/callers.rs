//! Who had called whom in a task when it was stopped: by its frame pointers, which are the task's own and may be anything. Each frame is
//! copied from memory that the task may read, lies above the one before, and returns to the task's own code; else the walk is over. So it
//! names nothing of the kernel, and takes so many steps at most.

use takt_tracer::frame::words_to_return;

use super::fault::Fault;
use super::object::Task;
use super::program::Program;

/// The most that are found.
const MAX: usize = 16;

/// Where calls were, the innermost first: each one's last byte, so that its line is the call's.
pub(super) struct Callers {
    calls: [u64; MAX],
    nr: usize,
}

impl Callers {
    pub(super) fn as_slice(&self) -> &[u64] {
        self.calls.get(..self.nr).unwrap_or_default()
    }

    /// Those from this frame on.
    fn walk(&mut self, program: &Program, mut frame: u64) {
        while let Some([next, to]) = words(program, frame) {
            if !self.push(program, to) || next <= frame {
                break;
            }
            frame = next;
        }
    }

    /// There is one more, which returns there. Says whether it can be one.
    fn push(&mut self, program: &Program, to: u64) -> bool {
        let call = to.wrapping_sub(1);
        match self.calls.get_mut(self.nr) {
            Some(slot) if program.is_code(call) => *slot = call,
            _ => return false,
        }
        self.nr += 1;
        true
    }
}

impl Task {
    /// Who had called the function that this thread of a task was stopped in, by that thread or by the task's first one.
    #[cold]
    #[inline(never)]
    pub(super) fn callers(&self, fault: &Fault) -> Callers {
        let program = &self.program;
        let mut callers = Callers {
            calls: [0; MAX],
            nr: 0,
        };
        if let Some([to]) = unframed(program, fault).and_then(|at| words(program, at)) {
            callers.push(program, to);
        }
        let nr = callers.nr;
        callers.walk(program, fault.rbp());
        // In a call of a message `takt_user` has the frame pointer on its stack.
        if let (true, Some([frame])) = (callers.nr == nr, words(program, fault.rsp)) {
            callers.walk(program, frame);
        }
        callers
    }
}

/// Words of the task's memory.
fn words<const NR: usize>(program: &Program, at: u64) -> Option<[u64; NR]> {
    let mut words = [0; NR];
    // SAFETY: any bytes are words.
    let bytes = unsafe {
        core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), size_of::<[u64; NR]>())
    };
    // SAFETY: a thread of the task, in the kernel.
    unsafe { program.copy_from(at as usize, bytes) }.then_some(words)
}

/// Where it is written where the function returns to, if that has no frame at the instruction that stopped it; where no code is, a call
/// has led.
fn unframed(program: &Program, fault: &Fault) -> Option<u64> {
    if !program.is_code(fault.rip) {
        return Some(fault.rsp);
    }
    let mut code = [0; 9];
    // SAFETY: a thread of the task, in the kernel.
    let is_whole = unsafe { program.copy_from(fault.rip.wrapping_sub(1) as usize, &mut code) };
    let [before, code @ ..] = code;
    let words = words_to_return(before, &code).filter(|_| is_whole)?;
    Some(fault.rsp.wrapping_add(8 * words as u64))
}
