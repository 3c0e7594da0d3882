//! Headless Chromium, told what to do by the DevTools protocol over a pipe.
//!
//! Source: "Chrome DevTools Protocol", the document of the Chromium project: messages are JSON, each ends with a zero byte;
//! the browser reads them from descriptor 3 and writes to descriptor 4.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use tempfile::TempDir;

/// A browser that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Puts the descriptors where the browser looks for them.
const DESCRIPTORS: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

const FLAGS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    // Whatever it might want to ask is not there.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
    "about:blank",
];

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) width: u32,
    pub(super) is_dark: bool,
}

/// A browser with one page.
pub(super) struct Browser {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    next_id: u64,
    session: Option<String>,
    /// What it has told of itself.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts `program`.
    pub(super) fn start(program: &Path) -> Result<Self> {
        let profile = tempfile::Builder::new().prefix("takt-test-").tempdir()?;
        let mut child = Command::new("sh")
            .args(["-c", DESCRIPTORS])
            .arg(program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        let (sender, messages) = channel();
        // Ends with the browser.
        thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                if let Ok(value) = serde_json::from_slice(&message)
                    && sender.send(value).is_err()
                {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            input,
            messages,
            next_id: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))?;
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        )?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Network", "Log", "Runtime"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// Calls a method and waits for its result.
    pub(super) fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next_id += 1;
        let id = self.next_id;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let input = self.input.as_mut().context("the browser is gone")?;
        input.write_all(format!("{message}\0").as_bytes())?;
        input.flush()?;
        loop {
            let message = self
                .next()
                .with_context(|| format!("waiting for {method}"))?;
            if message["id"] != id {
                self.events.push(message);
                continue;
            }
            ensure!(message["error"].is_null(), "{method}: {}", message["error"]);
            return Ok(message["result"].clone());
        }
    }

    fn next(&mut self) -> Result<Value> {
        self.messages
            .recv_timeout(PATIENCE)
            .context("the browser has ended, or hangs")
    }

    /// Opens a file and gives what the browser has said meanwhile.
    pub(super) fn open(&mut self, file: &Path, look: Look) -> Result<Vec<Value>> {
        let theme = if look.is_dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": theme}]}),
        )?;
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": look.width < 500}),
        )?;
        self.events.clear();
        let url = format!("file://{}", file.display());
        let done = self.call("Page.navigate", json!({"url": url}))?;
        ensure!(done["errorText"].is_null(), "{url}: {}", done["errorText"]);
        while !self
            .events
            .iter()
            .any(|event| event["method"] == "Page.loadEventFired")
        {
            let event = self.next().context("waiting for the page")?;
            self.events.push(event);
        }
        // What belongs to the page has been said when a question is answered twice.
        for _ in 0..2 {
            self.evaluate("document.readyState")?;
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// The value of an expression in the page.
    pub(super) fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let done = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true}),
        )?;
        if !done["exceptionDetails"].is_null() {
            bail!("in the page: {}", done["exceptionDetails"]);
        }
        Ok(done["result"]["value"].clone())
    }

    /// A picture of the whole page, as base64 of a PNG file.
    pub(super) fn screenshot(&mut self) -> Result<String> {
        let done = self.call(
            "Page.captureScreenshot",
            json!({"format": "png", "captureBeyondViewport": true}),
        )?;
        Ok(done["data"].as_str().context("no picture")?.to_owned())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        let is_closed = self.call("Browser.close", json!({})).is_ok();
        self.input = None;
        if !is_closed {
            // It may be gone already.
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
