//! `run --serial`: a guest that is typed to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};

use super::Stage;

const GREETING: &str = "type something\r\n";

/// The example that sends back what is typed, in capitals, until Ctrl-D.
fn start(stage: &Stage, line: &str) -> Result<Child> {
    let mut command = stage.command(&[
        "run",
        "echo",
        "-e",
        "none",
        "--serial",
        line,
        "-o",
        &stage.dir("run"),
        "--force",
    ]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run this program once more")
}

/// Reads as many bytes as `text` has, which are to be those.
fn expect(from: &mut impl Read, text: &str) -> Result<()> {
    let mut bytes = vec![0; text.len()];
    from.read_exact(&mut bytes)?;
    let found = String::from_utf8_lossy(&bytes);
    ensure!(found == text, "{found:?}, not {text:?}");
    Ok(())
}

/// Waits for the end; says the exit code and what is on stderr.
fn ended(child: &mut Child) -> Result<(Option<i32>, String)> {
    let mut said = String::new();
    if let Some(stderr) = &mut child.stderr {
        stderr.read_to_string(&mut said)?;
    }
    Ok((child.wait()?.code(), said))
}

/// On stdin and stdout until the user leaves, and behind a TCP port until the guest ends.
pub(super) fn is_typed_to(stage: &Stage) -> Result<()> {
    let mut child = start(stage, "stdio")?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    let mut stdout = child.stdout.take().context("no stdout")?;
    expect(&mut stdout, GREETING)?;
    stdin.write_all(b"hello")?;
    expect(&mut stdout, "HELLO")?;
    stdin.write_all(b"\x01x")?;
    let (code, said) = ended(&mut child)?;
    ensure!(
        code == Some(0) && said.contains("the guest was stopped at its console"),
        "{code:?}: {said}"
    );

    let mut child = start(stage, "tcp:localhost:0")?;
    let mut stderr = BufReader::new(child.stderr.take().context("no stderr")?);
    let mut said = String::new();
    let address = loop {
        said.clear();
        ensure!(stderr.read_line(&mut said)? > 0, "no address is said");
        if let Some((_, address)) = said.trim().split_once("connects to ") {
            break address;
        }
    };
    let mut guest = TcpStream::connect(address)?;
    expect(&mut guest, GREETING)?;
    guest.write_all(b"bye\x04")?;
    expect(&mut guest, "BYE")?;
    let mut rest = String::new();
    stderr.read_to_string(&mut rest)?;
    let code = child.wait()?.code();
    ensure!(
        code == Some(0) && rest.contains("the guest ended well"),
        "{code:?}: {rest}"
    );
    Ok(())
}
