//! [`Qmp`]: QEMU's monitor, spoken to in its machine protocol.
//!
//! Lines of JSON: a greeting, then an answer to each command, with events in between. Source: QEMU's `qmp-spec`.

use std::io::{BufRead, Write};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// QEMU's arguments for a monitor on its standard input and output.
pub const ON_STDIO: [&str; 4] = [
    "-chardev",
    "stdio,id=qmp,signal=off",
    "-mon",
    "chardev=qmp,mode=control",
];

/// A connection to the monitor.
#[derive(Debug)]
pub struct Qmp<R, W> {
    from: R,
    to: W,
}

impl<R: BufRead, W: Write> Qmp<R, W> {
    /// Waits for the greeting and leaves the mode in which only capabilities are negotiated.
    ///
    /// # Errors
    ///
    /// If there is no monitor at the other end.
    pub fn new(from: R, to: W) -> Result<Self> {
        let mut qmp = Self { from, to };
        let greeting = qmp.message()?.context("QEMU's monitor does not greet")?;
        ensure!(
            greeting.get("QMP").is_some(),
            "no greeting of QEMU's monitor: {greeting}"
        );
        ensure!(qmp.execute("qmp_capabilities")?, "QEMU's monitor is gone");
        Ok(qmp)
    }

    /// Carries out a command without arguments; says whether it did: not if QEMU has ended.
    ///
    /// # Errors
    ///
    /// If QEMU cannot do it, or what it says cannot be understood.
    pub fn execute(&mut self, command: &str) -> Result<bool> {
        let answer = self.answer(command, &json!({ "execute": command }))?;
        Ok(answer.is_some())
    }

    /// What the monitor for people prints for a command; `None` if QEMU has ended.
    ///
    /// # Errors
    ///
    /// As [`execute`](Self::execute).
    pub fn print(&mut self, command: &str) -> Result<Option<String>> {
        let arguments = json!({ "command-line": command });
        let request = json!({ "execute": "human-monitor-command", "arguments": arguments });
        let answer = self.answer(command, &request)?;
        Ok(answer.and_then(|text| text.as_str().map(str::to_owned)))
    }

    /// What is returned for a request; `None` if QEMU has ended.
    fn answer(&mut self, command: &str, request: &Value) -> Result<Option<Value>> {
        // QEMU may end at any moment; that shows in what can be read.
        let _ = writeln!(self.to, "{request}").and_then(|()| self.to.flush());
        while let Some(mut message) = self.message()? {
            if let Some(answer) = message.get_mut("return") {
                return Ok(Some(answer.take()));
            }
            if let Some(error) = message.get("error") {
                bail!("QEMU's monitor does not {command}: {error}");
            }
            // An event.
        }
        Ok(None)
    }

    /// The next message; `None` at the end.
    fn message(&mut self) -> Result<Option<Value>> {
        let mut line = String::new();
        // A pipe whose other end is killed ends with an error or without.
        if self.from.read_line(&mut line).unwrap_or(0) == 0 {
            return Ok(None);
        }
        let message = serde_json::from_str(&line)
            .with_context(|| format!("QEMU's monitor says `{}`", line.trim_end()))?;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: &str = "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\n";

    #[test]
    fn events_are_passed_over_and_the_end_is_noticed() {
        let answers = format!(
            "{GREETING}{{\"return\": {{}}}}\n{{\"event\": \"NMI\"}}\n{{\"return\": {{}}}}\n"
        );
        let mut sent = Vec::new();
        let mut qmp = Qmp::new(answers.as_bytes(), &mut sent).unwrap();
        assert!(qmp.execute("inject-nmi").unwrap());
        assert!(!qmp.execute("inject-nmi").unwrap());
        let sent = String::from_utf8(sent).unwrap();
        assert_eq!(sent.lines().count(), 3);
        assert_eq!(sent.lines().nth(1), Some("{\"execute\":\"inject-nmi\"}"));
    }

    #[test]
    fn what_is_printed_for_people_is_taken_as_text() {
        let answers = format!("{GREETING}{{\"return\": {{}}}}\n{{\"return\": \"CPU#0\\r\\n\"}}\n");
        let mut qmp = Qmp::new(answers.as_bytes(), Vec::new()).unwrap();
        assert_eq!(
            qmp.print("info cpus").unwrap().as_deref(),
            Some("CPU#0\r\n")
        );
        assert_eq!(qmp.print("info cpus").unwrap(), None);
    }

    #[test]
    fn what_goes_wrong_is_said() {
        assert!(Qmp::new(&b""[..], Vec::new()).is_err());
        assert!(Qmp::new(&b"{}\n"[..], Vec::new()).is_err());
        assert!(Qmp::new(&b"login:\n"[..], Vec::new()).is_err());
        let answers =
            format!("{GREETING}{{\"return\": {{}}}}\n{{\"error\": {{\"desc\": \"no\"}}}}\n");
        let mut qmp = Qmp::new(answers.as_bytes(), Vec::new()).unwrap();
        let error = qmp.execute("inject-nmi").unwrap_err().to_string();
        assert!(error.contains("does not inject-nmi"), "{error}");
    }
}
