//! A browser without a window, driven over WebDriver's HTTP.

use crate::command::{find_program, output, repository};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time for one command.
const PATIENCE: Duration = Duration::from_mins(2);
/// Size of the window.
const WINDOW: &str = "--window-size=1280,860";

/// A browser, with the program that drives it.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts both. The browser resolves no name but that of this machine.
    pub(crate) fn start() -> Result<Self> {
        let mut command = Command::new("chromedriver");
        let mut driver =
            command.arg("--port=0").stdout(Stdio::piped()).spawn().context("chromedriver")?;
        let out = driver.stdout.take().context("no standard output")?;
        let mut port = None;
        for line in BufReader::new(out).lines() {
            let line = line?;
            let found = line
                .split("successfully on port ")
                .nth(1)
                .and_then(|rest| rest.trim_end_matches('.').parse().ok());
            if found.is_some() {
                port = found;
                break;
            }
        }
        let port = port.context("chromedriver names no port")?;
        let mut browser = Self { driver, port, session: String::new() };
        let options = json!({
            "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", WINDOW,
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ],
        });
        let wanted = json!({
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        });
        let made = browser.call(
            "POST",
            "/session",
            &json!({ "capabilities": { "alwaysMatch": wanted } }),
        )?;
        let id = made["sessionId"].as_str().context("no session")?;
        browser.session = format!("/session/{id}");
        Ok(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut reader = BufReader::new(stream);
        let (mut line, mut len) = (String::new(), 0);
        while reader.read_line(&mut line)? > 0 && line != "\r\n" {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                len = value.trim().parse()?;
            }
            line.clear();
        }
        let mut answer = vec![0; len];
        reader.read_exact(&mut answer)?;
        let mut answer: Value = serde_json::from_slice(&answer)?;
        let value = answer["value"].take();
        match value["error"].as_str() {
            Some(error) => bail!("{path}: {error}: {}", value["message"]),
            None => Ok(value),
        }
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    /// Opens an address.
    pub(crate) fn go(&self, address: &str) -> Result<()> {
        self.post("/url", &json!({ "url": address })).map(drop)
    }

    /// Runs a script in the page; returns its result.
    pub(crate) fn js(&self, script: &str, args: &[Value]) -> Result<Value> {
        self.post("/execute/sync", &json!({ "script": script, "args": args }))
    }

    /// The same for a script that calls its last argument with the result.
    pub(crate) fn wait_js(&self, script: &str) -> Result<Value> {
        self.post("/timeouts", &json!({ "script": 60_000 }))?;
        self.post("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Runs a script at the start of every page from now on.
    pub(crate) fn watch(&self, script: &str) -> Result<()> {
        let command = "Page.addScriptToEvaluateOnNewDocument";
        self.cdp(command, &json!({ "source": script }))
    }

    /// Prefers the colour scheme `light` or `dark`.
    pub(crate) fn scheme(&self, scheme: &str) -> Result<()> {
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.cdp("Emulation.setEmulatedMedia", &json!({ "features": feature }))
    }

    fn cdp(&self, command: &str, params: &Value) -> Result<()> {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": params })).map(drop)
    }

    /// Presses and releases each key.
    pub(crate) fn keys(&self, keys: &str) -> Result<()> {
        let press = |key: char| {
            let value = key.to_string();
            [
                json!({ "type": "keyDown", "value": value }),
                json!({ "type": "keyUp", "value": value }),
            ]
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        let device = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.post("/actions", &json!({ "actions": [device] })).map(drop)
    }

    /// Returns the messages of a log since the last call, with their levels.
    pub(crate) fn log(&self, kind: &str) -> Result<Vec<String>> {
        let entries = self.post("/se/log", &json!({ "type": kind }))?;
        let is_plain = kind == "performance";
        let text = |entry: &Value| {
            let message = entry["message"].as_str().unwrap_or_default();
            if is_plain { message.to_owned() } else { format!("{} {message}", entry["level"]) }
        };
        Ok(entries.as_array().into_iter().flatten().map(text).collect())
    }

    /// Returns a picture of the window as PNG.
    pub(crate) fn screenshot(&self) -> Result<Vec<u8>> {
        let picture = self.call("GET", &format!("{}/screenshot", self.session), &Value::Null)?;
        decoded(picture.as_str().context("no picture")?).context("the picture is no base64")
    }

    /// Fails if axe-core finds a serious fault of accessibility in the page.
    pub(crate) fn ensure_accessible(&self) -> Result<()> {
        self.js(&format!("{}; window.axe = axe", axe()?), &[])?;
        let script = "const done = arguments[arguments.length - 1]; axe.run().then((found) => \
            done(found.violations.filter((it) => ['serious', 'critical'].includes(it.impact)) \
            .map((it) => it.id + ': ' + it.nodes.slice(0, 3).map((node) => node.html).join(' | '))))";
        let found = self.wait_js(script)?;
        ensure!(found == json!([]), "{found}");
        Ok(())
    }
}

/// Returns axe-core, which npm fetches once.
fn axe() -> Result<String> {
    let folder = repository().join("target/explore");
    let file = folder.join("package/axe.min.js");
    if !file.is_file() && find_program("npm").is_some() {
        fs::create_dir_all(&folder)?;
        let pack = "npm pack --silent axe-core@4 && tar xzf axe-core-*.tgz package/axe.min.js";
        let _ = output(Command::new("sh").args(["-c", pack]).current_dir(&folder));
    }
    fs::read_to_string(file).context("axe-core is missing (hint: npm is needed to fetch it)")
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.call("DELETE", &self.session, &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Decodes base64; `None` if it is none.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            // The bits above were taken before.
            bytes.push(u8::try_from(held >> bits & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_decoded() {
        assert_eq!(decoded("iVBORw0KGgo=").unwrap(), b"\x89PNG\r\n\x1a\n");
        assert_eq!(decoded("<"), None);
    }
}
