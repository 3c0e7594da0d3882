//! The first thread calls C's main function.

use core::ffi::c_int;

use takt_kernel::fault::ExitCode;

takt_board::entry!(run);

unsafe extern "C" {
    /// The program's.
    fn main() -> c_int;
}

fn run(_command_line: &'static str) {
    // SAFETY: the program defines it as C says.
    let result = unsafe { main() };
    if result != 0 {
        defmt::error!("main returned {=i32}", result);
        takt_board::end(ExitCode::Failed);
    }
}
