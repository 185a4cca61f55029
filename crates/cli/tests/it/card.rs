//! Simulated cards in files, and their server.

use crate::sample::Sample;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

const SMALL: [&str; 6] = ["--preset", "sd-2012-c10", "--size", "64MiB", "--unit", "1MiB"];

fn json(sample: &Sample, arguments: &[&str]) -> Value {
    serde_json::from_str(&sample.ok(&[arguments, &["--json"]].concat()).out).unwrap()
}

/// A server of the card `c` at the socket `s`.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Served {
    fn start(sample: &Sample, options: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_eraseblock"))
            .args(["card", "serve", "c", "--nbd", "s"])
            .args(options)
            .current_dir(sample.path(""))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut lines = BufReader::new(process.stderr.take().unwrap());
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "no server");
        assert_eq!(line, "c at nbd+unix:///?socket=s\n");
        process.stderr = Some(lines.into_inner());
        Self(process)
    }

    /// Ends it with SIGTERM; returns what it says then.
    fn stop(mut self) -> String {
        Command::new("kill").arg(self.0.id().to_string()).status().unwrap();
        assert!(self.0.wait().unwrap().success());
        let mut rest = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
        rest
    }
}

/// A client that has entered transmission by the oldest option.
fn client(sample: &Sample) -> UnixStream {
    let mut stream = UnixStream::connect(sample.path("s")).unwrap();
    stream
        .write_all(&[&3_u32.to_be_bytes()[..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 0]].concat())
        .unwrap();
    stream.read_exact(&mut [0; 18 + 10]).unwrap();
    stream
}

/// Sends a request and returns its error number and what it read.
fn ask(
    stream: &mut UnixStream,
    kind: u16,
    flags: u16,
    at: u64,
    length: u32,
    data: &[u8],
) -> (u32, Vec<u8>) {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend([flags.to_be_bytes(), kind.to_be_bytes()].concat());
    bytes.extend([7_u64.to_be_bytes(), at.to_be_bytes()].concat());
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes).unwrap();
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
    let mut read = vec![0; if kind == 0 && error == 0 { length as usize } else { 0 }];
    stream.read_exact(&mut read).unwrap();
    (error, read)
}

#[test]
fn a_card_is_served_logged_and_keeps_its_state() {
    let sample = Sample::new();
    sample.ok(&[&["card", "new", "c"][..], &SMALL].concat());
    let served = Served::start(&sample, &["--log", "log.csv"]);
    let mut stream = client(&sample);
    assert_eq!(ask(&mut stream, 1, 1, 3 << 20, 4096, &[7; 4096]).0, 0);
    assert_eq!(ask(&mut stream, 0, 0, 3 << 20, 8192, &[]), (0, [[7; 4096], [0; 4096]].concat()));
    assert_eq!(ask(&mut stream, 3, 0, 0, 0, &[]).0, 0);
    assert_eq!(ask(&mut stream, 4, 0, 3 << 20, 1 << 20, &[]).0, 0);
    assert_eq!(ask(&mut stream, 0, 0, 64 << 20, 512, &[]).0, 22);
    // A second server is refused while the first one has the card, and so is a reader.
    let reader = sample.run(&["card", "stats", "c"]);
    assert_eq!(reader.code, 3, "{}", reader.out);
    let second = sample.run(&["card", "serve", "c", "--nbd", "other"]);
    assert_eq!(second.code, 3);
    assert!(second.err.contains("in use by another process"), "{}", second.err);
    drop(stream);
    let said = served.stop();
    assert!(said.starts_with("2 reads and writes since the card was made, 0.0"), "{said}");
    assert!(!sample.path("s").exists());

    let log = fs::read_to_string(sample.path("log.csv")).unwrap();
    let rows: Vec<Vec<&str>> = log.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|one| *one == name).unwrap();
    let of = |name: &str| rows[1..].iter().map(|row| row[column(name)]).collect::<Vec<_>>();
    assert_eq!(of("kind"), ["write", "read", "flush", "trim"]);
    assert_eq!(of("fua"), ["1", "0", "0", "0"]);
    // t_w + t_s + 16 KiB of programming + t_p; t_r + 8 KiB; nothing; the log and the unit erased.
    assert_eq!(of("service_ns"), ["5975384", "1418596", "0", "10000000"]);
    assert_eq!(of("sha256")[0].len(), 32);

    let stats = json(&sample, &["card", "stats", "c"]);
    assert_eq!(stats["virtual_ns"], 5_975_384 + 1_418_596 + 10_000_000);
    assert_eq!(stats["counters"]["writes"], 1);
    assert_eq!(stats["wear"]["total_erases"], 2);
    assert_eq!(stats["parameters"]["open_units"], 5);
}

#[test]
fn a_cut_card_answers_with_errors_and_keeps_the_pages_before_it() {
    let sample = Sample::new();
    sample.ok(&[&["card", "new", "c", "-q"][..], &SMALL].concat());
    let served = Served::start(&sample, &["--cut-after", "2"]);
    let mut stream = client(&sample);
    assert_eq!(ask(&mut stream, 1, 0, 1 << 20, 65536, &vec![7; 65536]).0, 5);
    assert_eq!(ask(&mut stream, 0, 0, 0, 512, &[]).0, 5);
    drop(stream);
    assert!(served.stop().contains("the armed power cut fired"));
    let served = Served::start(&sample, &[]);
    let mut stream = client(&sample);
    let left = ask(&mut stream, 0, 0, 1 << 20, 65536, &[]).1;
    assert!(left[..32768].iter().all(|byte| *byte == 7));
    assert!(left[32768..].iter().all(|byte| *byte == 0));
    drop(served);
}

/// With a pace the replies come when the card would have sent them, never before.
#[test]
fn a_pace_holds_replies_back() {
    let sample = Sample::new();
    sample.ok(&[&["card", "new", "c", "-q"][..], &SMALL].concat());
    let served = Served::start(&sample, &["--pace", "2", "--log", "log.csv"]);
    let mut stream = client(&sample);
    let begin = std::time::Instant::now();
    for turn in 0..4 {
        assert_eq!(ask(&mut stream, 1, 0, turn << 20, 65536, &vec![7; 65536]).0, 0);
    }
    let taken = begin.elapsed().as_nanos();
    drop(stream);
    served.stop();
    let service = json(&sample, &["card", "stats", "c"])["virtual_ns"].as_u64().unwrap();
    assert!(taken >= 2 * u128::from(service), "{taken} {service}");
    let log = fs::read_to_string(sample.path("log.csv")).unwrap();
    let mut done = 0;
    for row in log.lines().skip(1) {
        let number = |at: usize| row.split(',').nth(at).unwrap().parse::<u64>().unwrap();
        assert!(number(5) >= done, "a request begins after the one before it: {row}");
        done = number(7);
        assert_eq!(number(5) + number(6), done);
    }
}

#[test]
fn impossible_cards_and_files_are_refused() {
    let sample = Sample::new();
    for (arguments, code, message) in [
        (
            &["new", "c", "--preset", "ideal", "--size", "1000"][..],
            2,
            "capacity: 1000, expected a multiple of 512",
        ),
        (&["new", "c", "--preset", "ideal", "--open", "65"], 2, "open units: 65, expected 1 to 64"),
        (&["new", "c", "--preset", "floppy"], 2, "floppy"),
        (&["stats", "missing"], 3, "missing: open failed: No such file"),
        (&["stats", "noise"], 3, "noise: byte 0: magic is 0x7070707, expected `EBCARD` CR LF"),
        (&["serve", "noise", "--nbd", "s"], 3, "noise: byte 0: magic is"),
    ] {
        fs::write(sample.path("noise"), vec![7; 8192]).unwrap();
        let run = sample.run(&[&["card"], arguments].concat());
        assert_eq!(run.code, code, "{arguments:?}: {}", run.err);
        assert!(run.err.contains(message), "{arguments:?}: {}", run.err);
        assert!(!sample.path("c").exists() && !sample.path("s").exists());
    }
    sample
        .ok(&["card", "new", "c", "--preset", "ideal", "--size", "1MiB", "--unit", "64KiB", "-q"]);
    let before = fs::read(sample.path("c")).unwrap();
    let run = sample.run(&["card", "new", "c", "--preset", "ideal"]);
    assert!(run.err.contains("--force replaces it"), "{}", run.err);
    // The card is no log, and a socket replaces no file.
    let run = sample.run(&["card", "serve", "c", "--nbd", "s", "--log", "c", "--force"]);
    assert!(run.err.contains("c: exists already"), "{}", run.err);
    let run = sample.run(&["card", "serve", "c", "--nbd", "noise"]);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(fs::read(sample.path("c")).unwrap() == before);
}

/// QEMU's own client, where it is installed.
#[test]
fn qemu_uses_a_card() {
    let sample = Sample::new();
    let Ok(version) = Command::new("qemu-io").arg("--version").output() else { return };
    assert!(version.status.success());
    sample.ok(&[&["card", "new", "c", "-q"][..], &SMALL].concat());
    let served = Served::start(&sample, &[]);
    let url = format!("nbd+unix:///?socket={}", sample.path("s").display());
    let commands = [
        "write -P 0x5a 1M 3M",
        "read -P 0x5a 1M 3M",
        "discard 1M 2M",
        "read -P 0 1M 2M",
        "read -P 0x5a 3M 1M",
        "flush",
    ];
    let mut io = Command::new("qemu-io");
    io.args(["-f", "raw", "-d", "unmap"]);
    for command in commands {
        io.args(["-c", command]);
    }
    let output = io.arg(&url).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("fail"), "{text}");
    served.stop();
    let counters = json(&sample, &["card", "stats", "c"])["counters"].clone();
    assert_eq!((&counters["log_bytes"], &counters["trims"]), (&(3 << 20).into(), &1.into()));
}
