//! A headless Chromium, driven through a pipe with its DevTools protocol: what was asked for, what was complained about, and what
//! the page is like.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use bluefin_test_support::left_out;
use serde_json::{Value, json};

use crate::common::Running;

/// Chromium takes commands from file descriptor 3, and answers on 4.
const LAUNCH: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";

pub struct Browser {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
    events: Vec<Value>,
    tab: String,
    _process: Running,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Nothing on a machine without one: BLUEFIN_TEST_CHROMIUM names it, as `tests/run` does.
    pub fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("BLUEFIN_TEST_CHROMIUM") else {
            left_out("BLUEFIN_TEST_CHROMIUM names no Chromium");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", LAUNCH]).arg(program).arg(format!("--user-data-dir={}", profile.path().display()));
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args([
            "--remote-debugging-pipe",
            "--disable-background-networking",
            "--hide-scrollbars",
            "about:blank",
        ]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let (process, tab) = (Running(child), String::new());
        let mut browser = Self { to, from, last: 0, events: Vec::new(), tab, _process: process, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.tab = attached["sessionId"].as_str().unwrap().to_string();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.window(1000, 800);
        Some(browser)
    }

    fn read(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "Chromium ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.answer(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// What it answers, or the error that it answers with.
    fn answer(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !self.tab.is_empty() {
            message["sessionId"] = json!(self.tab);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut answer = self.read();
            if answer["id"] == json!(self.last) {
                return if answer["error"].is_null() { Ok(answer["result"].take()) } else { Err(answer) };
            }
            self.events.push(answer);
        }
    }

    /// Opens a page; returns how long it took until all of it was there.
    pub fn open(&mut self, url: &str) -> Duration {
        self.events.clear();
        let begun = Instant::now();
        let answer = self.call("Page.navigate", json!({ "url": url }));
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
        while self.events.iter().all(|event| event["method"] != "Page.loadEventFired") {
            let event = self.read();
            self.events.push(event);
        }
        begun.elapsed()
    }

    /// The value of an expression of JavaScript.
    pub fn ask(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        // A page that gives way to the next answers nothing; the next one does.
        let gone = |error: &Value| error["error"]["message"] == "Inspected target navigated or closed";
        let mut answer = self.answer("Runtime.evaluate", params.clone());
        if answer.as_ref().is_err_and(gone) {
            answer = self.answer("Runtime.evaluate", params);
        }
        let mut answer = answer.unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    pub fn window(&mut self, width: u32, height: u32) {
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    /// As a user has it set: `light` or `dark`, `screen` or `print`.
    pub fn prefer(&mut self, scheme: &str, media: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": media, "features": features }));
    }

    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let code = if key == "Tab" { 9 } else { 13 };
            let params = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": if key == "Tab" { "" } else { "\r" } });
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Where the page has asked, itself included.
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let urls = sent.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_string());
        urls.filter(|url| !url.starts_with("data:")).collect()
    }

    /// Errors, exceptions and refusals on the console.
    pub fn complaints(&self) -> Vec<&Value> {
        let bad = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.events.iter().filter(bad).collect()
    }

    /// A picture of what is in the window, as `docs/img` has it, where BLUEFIN_TEST_SCREENSHOTS names a folder.
    pub fn picture(&mut self, name: &str) {
        if std::env::var_os("BLUEFIN_TEST_SCREENSHOTS").is_some() {
            self.made("Page.captureScreenshot", json!({ "format": "png" }), name);
        }
    }

    /// The page on paper, as a PDF, which is kept beside the pictures.
    pub fn paper(&mut self, name: &str) -> Vec<u8> {
        self.made("Page.printToPDF", json!({}), name)
    }

    fn made(&mut self, method: &str, params: Value, name: &str) -> Vec<u8> {
        let answer = self.call(method, params);
        let bytes = base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        if let Some(folder) = std::env::var_os("BLUEFIN_TEST_SCREENSHOTS") {
            std::fs::write(Path::new(&folder).join(name), &bytes).unwrap();
        }
        bytes
    }
}
