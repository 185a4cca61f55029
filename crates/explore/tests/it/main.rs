//! The server as a client sees it: what it answers, and what it refuses.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used)]

use eraseblock_explore::{Answer, Question, Refusal, Server, ServerOptions, Source};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Answers a few questions; `slow` never.
#[derive(Debug)]
struct Few;

impl Source for Few {
    fn answer(&self, question: &Question) -> Result<Answer, Refusal> {
        match question.path()[..] {
            ["summary"] => Ok(Answer::Json(b"{\"target\":\"x\"}".to_vec())),
            ["content"] => Ok(Answer::Bytes(b"<script>alert(1)</script>".to_vec())),
            ["bytes"] if question.number("len", 0)? > 65536 => Err(Refusal::bad("too much")),
            ["later"] => Err(Refusal::not_yet("not yet")),
            _ => Err(Refusal::missing("no such thing")),
        }
    }
}

struct Running {
    port: u16,
    stop: Box<dyn Fn() + Send>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(idle: Option<Duration>) -> Self {
        let options = ServerOptions { port: 0, token: TOKEN.to_owned(), idle };
        let server = Server::new(Arc::new(Few), &options).unwrap();
        let (port, stop) = (server.port(), Box::new(server.stopper()));
        let thread = Some(thread::spawn(move || server.run()));
        Self { port, stop, thread }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends a head as it is; returns status and answer.
    fn send(&self, head: &str) -> (u16, String) {
        let mut stream = self.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A server that refuses while it is written to may reset the connection.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
        (status.unwrap_or(0), answer)
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: 127.0.0.1:{}\r\n", self.port);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        self.send(&(head + "\r\n"))
    }

    fn api(&self, path: &str) -> (u16, String) {
        self.ask("GET", path, &[("X-Eraseblock-Token", TOKEN)])
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        (self.stop)();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn the_page_needs_no_token_and_the_answers_do() {
    let server = Running::start(None);
    for path in ["/", "/main.js", "/api.js", "/style.css"] {
        let (status, answer) = server.ask("GET", path, &[]);
        assert_eq!(status, 200, "{path}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "require-trusted-types-for 'script'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "cross-origin-opener-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(answer.contains(header), "{path}: {header}");
        }
    }
    assert_eq!(server.api("/api/summary").0, 200);
    assert!(server.api("/api/summary").1.ends_with("{\"target\":\"x\"}"));
    for token in ["", "0", &TOKEN[1..], &TOKEN.replace('0', "1"), &format!("{TOKEN}0")] {
        let (status, answer) = server.ask("GET", "/api/summary", &[("X-Eraseblock-Token", token)]);
        assert_eq!(status, 401, "{token}");
        assert!(!answer.contains("target") && answer.contains("nosniff"));
    }
    assert_eq!(server.ask("GET", "/api/summary", &[]).0, 401);
    // A secret in an address would end up in histories and logs.
    assert_eq!(server.ask("GET", &format!("/api/summary?token={TOKEN}"), &[]).0, 401);
    assert_eq!(server.ask("GET", "/api/nothing", &[]).0, 401);
}

#[test]
fn foreign_names_and_pages_are_refused() {
    let server = Running::start(None);
    let own = format!("localhost:{}", server.port);
    for host in [own.as_str(), &format!("[::1]:{}", server.port)] {
        let headers = [("Host", host), ("X-Eraseblock-Token", TOKEN)];
        assert_eq!(server.ask("GET", "/api/summary", &headers).0, 200, "{host}");
    }
    let other_port = format!("127.0.0.1:{}", server.port ^ 1);
    let longer = format!("127.0.0.1:{}.evil.example", server.port);
    for host in ["evil.example", "evil.example:80", "127.0.0.1", &other_port, &longer, ""] {
        for path in ["/", "/api/summary", "/nothing"] {
            let headers = [("Host", host), ("X-Eraseblock-Token", TOKEN)];
            assert_eq!(server.ask("GET", path, &headers).0, 421, "{host} {path}");
        }
    }
    let twice =
        format!("GET / HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert_eq!(server.send(&twice).0, 421);
    let none = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(server.send(none).0, 421);
    let absolute =
        format!("GET http://evil.example/ HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n\r\n");
    assert_eq!(server.send(&absolute).0, 421);
    for (name, value) in [
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Origin", "https://127.0.0.1"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Sec-Fetch-Site", ""),
    ] {
        let headers = [(name, value), ("X-Eraseblock-Token", TOKEN)];
        assert_eq!(server.ask("GET", "/api/summary", &headers).0, 403, "{name} {value}");
        assert_eq!(server.ask("GET", "/main.js", &headers).0, 403, "{name} {value}");
    }
    let origin = format!("http://127.0.0.1:{}", server.port);
    for (name, value) in
        [("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "none")]
    {
        let headers = [(name, value), ("X-Eraseblock-Token", TOKEN)];
        assert_eq!(server.ask("GET", "/api/summary", &headers).0, 200, "{name} {value}");
    }
    // The page itself is opened from a file, in a window of its own; never in a frame.
    let opened = |to: &str| {
        let headers = [
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", "navigate"),
            ("Sec-Fetch-Dest", to),
        ];
        server.ask("GET", "/", &headers).0
    };
    assert_eq!((opened("document"), opened("iframe")), (200, 403));
}

#[test]
fn nothing_is_written_and_questions_are_plain() {
    let server = Running::start(None);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"] {
        let headers = [("X-Eraseblock-Token", TOKEN), ("Content-Length", "0")];
        let (status, _) = server.ask(method, "/api/summary", &headers);
        // CONNECT has no path: its address is that of another host.
        let expected = if method == "CONNECT" { [400, 421] } else { [405, 405] };
        assert!(expected.contains(&status), "{method}: {status}");
    }
    let (status, answer) = server.ask("HEAD", "/api/summary", &[("X-Eraseblock-Token", TOKEN)]);
    assert_eq!(status, 200);
    assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
    for (path, expected) in [
        ("/api/bytes?len=65536", 404),
        ("/api/bytes?len=65537", 400),
        ("/api/bytes?len=-1", 400),
        ("/api/bytes?len=99999999999999999999", 400),
        ("/api/summary?x=%3Cscript%3E", 400),
        ("/api/..%2f..%2fetc", 400),
        ("/api/later", 503),
        ("/api/nothing", 404),
        ("/api/", 404),
        ("/..%2fCargo.toml", 404),
        ("/nothing.js", 404),
        ("/a/b", 404),
    ] {
        assert_eq!(server.api(path).0, expected, "{path}");
    }
    let (status, answer) = server.api("/api/content");
    assert_eq!(status, 200);
    assert!(answer.contains("content-type: application/octet-stream"));
    assert!(answer.contains("content-disposition: attachment"));
}

#[test]
fn heads_have_limits() {
    let server = Running::start(None);
    let large = "x".repeat(20 << 10);
    let (status, _) = server.ask("GET", "/", &[("X-Large", &large)]);
    assert!([0, 431].contains(&status), "{status}");
    let names: Vec<String> = (0..100).map(|number| format!("X-{number}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let (status, _) = server.ask("GET", "/", &many);
    assert!([0, 431].contains(&status), "{status}");
    assert_eq!(server.send("nonsense\r\n\r\n").0, 400);
    assert_eq!(server.ask("GET", "/", &[]).0, 200);
}

#[test]
fn clients_that_hang_keep_nobody_out() {
    let server = Running::start(None);
    let mut hanging = Vec::new();
    for number in 0..1000 {
        let mut stream = server.connect();
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
        }
        hanging.push(stream);
        if number % 100 == 99 {
            let begin = Instant::now();
            assert_eq!(server.api("/api/summary").0, 200);
            assert!(begin.elapsed() < Duration::from_secs(5), "{number}");
        }
    }
    drop(hanging);
    assert_eq!(server.api("/api/summary").0, 200);
}

#[test]
fn only_loopback_addresses_are_bound() {
    let server = Running::start(None);
    let address: SocketAddr = ([127, 0, 0, 2], server.port).into();
    assert!(TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_err());
    let busy = ServerOptions { port: server.port, token: TOKEN.to_owned(), idle: None };
    assert!(Server::new(Arc::new(Few), &busy).is_err());
}

#[test]
fn a_server_that_nobody_asks_ends() {
    let mut server = Running::start(Some(Duration::from_millis(300)));
    // Refused requests keep no server alive.
    assert_eq!(server.ask("GET", "/api/summary", &[]).0, 401);
    server.thread.take().unwrap().join().unwrap();
}
