//! Sends back what is typed, in capitals, until Ctrl-D: a serial port by interrupts.
//!
//! On the first serial port, `cargo xtask run echo --serial stdio`, or the second by `port=com2`: `cargo xtask run echo --append
//! port=com2 --qemu '-serial tcp::4321,server=on'` waits until `nc localhost 4321` is there to type in.
#![no_std]
#![no_main]

use embedded_io::{Read, Write};
use takt_board::cmdline::CommandLine;
use takt_board::drivers::{Error, uart::Uart};
use takt_kernel::fault::ExitCode;

takt_board::entry!(main);

static COM1: Uart = Uart::com1();
static COM2: Uart = Uart::com2();

const CTRL_D: u8 = 4;

fn echo(command_line: &'static str) -> Result<(), Error> {
    let uart = match CommandLine(command_line).get("port") {
        Some("com2") => &COM2,
        _ => &COM1,
    };
    let mut port = uart.open(115_200, 0)?;
    port.write_all(b"type something\r\n")?;
    let mut bytes = [0; 16];
    loop {
        let nr = port.read(&mut bytes)?;
        let typed = &mut bytes[..nr];
        typed.make_ascii_uppercase();
        let end = typed.iter().position(|byte| *byte == CTRL_D);
        port.write_all(&typed[..end.unwrap_or(nr)])?;
        if end.is_some() {
            port.flush()?;
            defmt::info!("{}", defmt::Debug2Format(&port.counts()));
            return Ok(());
        }
    }
}

fn main(command_line: &'static str) {
    if let Err(error) = echo(command_line) {
        defmt::error!("{}", defmt::Display2Format(&error));
        takt_board::end(ExitCode::Failed);
    }
}
