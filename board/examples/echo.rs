//! Sends back what is typed, in capitals, until Ctrl-D: code for anything that `embedded-io` knows, here a serial port or a virtio
//! console, by interrupts.
//!
//! On the first serial port, `cargo xtask run echo --serial stdio`; on the second by `port=com2`: `cargo xtask run echo --append
//! port=com2 --qemu '-serial tcp::4321,server=on'` waits until `nc localhost 4321` is there to type in. On a virtio console by
//! `port=virtio`, with `--qemu '-chardev socket,id=typed,host=localhost,port=4321,server=on -device
//! virtio-serial-pci,max_ports=1,id=second -device virtconsole,bus=second.0,chardev=typed'`.
#![no_std]
#![no_main]

use embedded_io::{Read, Write};
use takt_board::cmdline::CommandLine;
use takt_board::drivers::Error;
use takt_board::drivers::uart::Uart;
use takt_board::drivers::virtio::{CONSOLE, Console};
use takt_board::pci;
use takt_kernel::fault::ExitCode;

takt_board::entry!(main);

static COM1: Uart = Uart::com1();
static COM2: Uart = Uart::com2();
static VIRTIO: Console = Console::new();

const CTRL_D: u8 = 4;

fn echo<P: Read + Write>(mut port: P) -> Result<(), P::Error> {
    port.write_all(b"type something\r\n")?;
    let mut bytes = [0; 16];
    loop {
        let nr = port.read(&mut bytes)?;
        let typed = &mut bytes[..nr];
        typed.make_ascii_uppercase();
        let end = typed.iter().position(|byte| *byte == CTRL_D);
        port.write_all(&typed[..end.unwrap_or(nr)])?;
        if end.is_some() {
            return port.flush();
        }
    }
}

fn serial(uart: &'static Uart) -> Result<(), Error> {
    let port = uart.open(115_200, 0)?;
    echo(port)?;
    defmt::info!("{}", defmt::Debug2Format(&port.counts()));
    Ok(())
}

fn virtio() -> Result<(), Error> {
    // The first one is the capture's.
    let function = pci::functions().filter(|function| function.id() == CONSOLE);
    let function = function.last().ok_or(takt_kernel::Error::InvalidArgument)?;
    echo(VIRTIO.open(function, 0)?)
}

fn main(command_line: &'static str) {
    let result = match CommandLine(command_line).get("port") {
        Some("virtio") => virtio(),
        Some("com2") => serial(&COM2),
        _ => serial(&COM1),
    };
    if let Err(error) = result {
        defmt::error!("{}", defmt::Display2Format(&error));
        takt_board::end(ExitCode::Failed);
    }
}
