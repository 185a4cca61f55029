//! The local page: every answer against what the commands print, refusals, and the report.

use crate::sample::Sample;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// Names that are markup, scripts, escapes of terminals, or turn text around.
const NAMES: [&str; 4] =
    ["<script>alert(1)<", "<img src=x onerror=alert(1)>", "\u{1b}[31mred\n", "\u{202e}gpj.exe"];

/// A server of one image.
struct Page {
    server: Child,
    host: String,
    token: String,
}

impl Page {
    fn serve(sample: &Sample, image: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_eraseblock"));
        command.args(["explore", image, "--no-open"]).current_dir(sample.path(""));
        let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (host, token) = line.trim().strip_prefix("http://").unwrap().split_once("/#").unwrap();
        Self { server, host: host.to_owned(), token: token.to_owned() }
    }

    fn send(&self, question: &str) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let (host, token) = (&self.host, &self.token);
        let head = format!(
            "GET /api/{question} HTTP/1.1\r\nHost: {host}\r\nX-Eraseblock-Token: {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
        (status, answer.split_off(end))
    }

    /// Asks until the answer is worked out.
    fn ask(&self, question: &str) -> Value {
        loop {
            let (status, body) = self.send(question);
            if status != 503 {
                let text = String::from_utf8_lossy(&body);
                assert_eq!(status, 200, "{question}: {text}");
                return serde_json::from_slice(&body).unwrap();
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A bare UBIFS with a past and odd names.
fn used() -> Sample {
    let sample = Sample::new();
    fs::create_dir(sample.path("tree")).unwrap();
    fs::write(sample.path("tree/kept"), "first\n").unwrap();
    fs::write(sample.path("tree/gone"), "secret\n").unwrap();
    for name in NAMES {
        fs::create_dir(sample.path("tree").join(name)).unwrap();
        fs::write(sample.path("tree").join(name).join(name), name).unwrap();
    }
    fs::write(sample.path("second"), "second\n").unwrap();
    let sizes = ["--leb", "15872", "--min-io", "512", "--max-lebs", "60"];
    sample.ok(&[&["mkfs", "ubifs", "tree", "-q", "-o", "used"][..], &sizes[..]].concat());
    let steps = ["-c", "put second kept", "-c", "sync", "-c", "rm gone", "-c", "sync"];
    sample.ok(&[&["edit", "used"][..], &steps[..]].concat());
    sample
}

/// What a command prints, with any exit code.
fn printed(sample: &Sample, arguments: &[&str]) -> Value {
    let out = sample.run(&[arguments, &["--json"]].concat()).out;
    serde_json::from_str(&out).unwrap()
}

/// Whether everything that a command prints is in an answer.
fn holds(answer: &Value, printed: &Value) {
    for (name, value) in printed.as_object().unwrap() {
        assert_eq!(&answer[name], value, "{name}");
    }
}

#[test]
fn answers_are_what_the_commands_print() {
    let sample = used();
    let page = Page::serve(&sample, "used");
    let summary = page.ask("summary");
    let census = printed(&sample, &["debug", "used", "-c", "census"]);
    assert_eq!(summary["census"], census["census"]);
    let mut info = printed(&sample, &["info", "used"]);
    info.as_object_mut().unwrap().retain(|name, _| !name.starts_with("findings"));
    assert_eq!(summary["info"], info);
    holds(&page.ask("findings"), &printed(&sample, &["check", "used"]));
    holds(&page.ask("plan?vol=0"), &printed(&sample, &["repair", "used"]));
    holds(&page.ask("history?vol=0&what=commits"), &printed(&sample, &["history", "used"]));
    let deleted = printed(&sample, &["history", "used", "--deleted"]);
    holds(&page.ask("history?vol=0&what=deleted"), &deleted);
    let tree = page.ask("tree?vol=0");
    let listed = printed(&sample, &["ls", "used", "--all"]);
    assert_eq!(tree["entries"], listed["directories"][0]["entries"]);
    let past = page.ask("tree?vol=0&asof=commit:0");
    let listed = printed(&sample, &["ls", "used", "--all", "--as-of", "commit:0"]);
    assert_eq!(past["entries"], listed["directories"][0]["entries"]);
    assert_ne!(past["entries"], tree["entries"]);
    let kept = printed(&sample, &["stat", "used", "kept"]);
    let mut inode = page.ask(&format!("inode/0/{}", kept["ino"]));
    assert!(!inode["places"].as_array().unwrap().is_empty());
    inode["path"] = json!("kept");
    inode["findings"] = kept["findings"].clone();
    inode["findings_dropped"] = kept["findings_dropped"].clone();
    holds(&inode, &kept);
    let ino = kept["ino"].to_string();
    let versions = printed(&sample, &["history", "used", "--ino", &ino]);
    holds(&page.ask(&format!("history?vol=0&ino={ino}&what=versions")), &versions);
    let content = |more: &str| page.send(&format!("content?vol=0&ino={ino}&{more}")).1;
    assert_eq!(content("from=0&len=100"), b"second\n");
    assert_eq!(content("from=2&len=3"), b"con");
    assert_eq!(content("from=9&len=3"), b"");
    // `put` gives the new content to a new inode.
    let before = printed(&sample, &["stat", "used", "kept", "--as-of", "commit:0"])["ino"].clone();
    let content = |more: &str| page.send(&format!("content?vol=0&ino={before}&{more}")).1;
    assert_eq!(content("asof=commit:0&len=100"), b"first\n");
    let before = printed(&sample, &["history", "used", "--ino", &before.to_string()]);
    let proven = before["versions"].as_array().unwrap().iter().find(|it| it["class"] == "proven");
    let sqnum = format!("sqnum={}&len=100", proven.unwrap()["newest_sqnum"]);
    assert_eq!(content(&sqnum), b"first\n");
    assert_eq!(page.send("dump").0, 404);
}

#[test]
fn blocks_structures_and_bytes_fit_the_image() {
    let sample = used();
    let image = fs::read(sample.path("used")).unwrap();
    let page = Page::serve(&sample, "used");
    let blocks = page.ask("blocks?from=0");
    let (summary, total) = (page.ask("summary"), blocks["total"].as_u64().unwrap());
    assert_eq!(total, summary["blocks"].as_u64().unwrap());
    for (state, sum) in summary["census"].as_object().unwrap() {
        let column = blocks[state].as_array().unwrap();
        let bytes: u64 = column.iter().map(|value| value.as_u64().unwrap()).sum();
        assert_eq!(bytes, sum["bytes"].as_u64().unwrap(), "{state}");
    }
    assert_eq!(page.ask("blocks?by=entropy")["entropy"].as_array().unwrap().len() as u64, total);
    let mut end = 0;
    for number in 0..total {
        let block = page.ask(&format!("peb/{number}"));
        for row in block["rows"].as_array().unwrap() {
            assert_eq!(row["at"].as_u64().unwrap(), end, "records tile the image");
            end += row["len"].as_u64().unwrap();
        }
    }
    assert_eq!(end, image.len() as u64);
    // The superblock: its fields tile it, and its bytes are those of the file.
    let node = page.ask("node?at=0");
    assert_eq!((node["kind"].as_str(), node["crc"].as_str()), (Some("ubifs.sb"), Some("ok")));
    let mut bit = 0;
    for field in node["fields"].as_array().unwrap() {
        assert_eq!(field["bit"].as_u64().unwrap(), bit, "{field}");
        bit += field["bits"].as_u64().unwrap();
    }
    assert_eq!(bit, 4096 * 8);
    let bytes = page.ask("bytes?at=4&len=8");
    let number = u64::from_be_bytes(image[4..12].try_into().unwrap());
    assert_eq!(bytes["hex"], json!(format!("{number:016x}")));
    assert_eq!(page.ask("leb/0/0"), page.ask("peb/0"));
    // The root of the index: the master node refers to it, and it refers to leaves.
    let root = (0..total).flat_map(|number| {
        let block = page.ask(&format!("peb/{number}"));
        block["rows"].as_array().unwrap().clone()
    });
    let root = root.into_iter().find(|row| row["kind"] == "ubifs.idx" && row["state"] == "live");
    let node = page.ask(&format!("node?at={}", root.unwrap()["at"]));
    let below = node["refers_to"].as_array().unwrap();
    assert!(!below.is_empty());
    let leaf = page.ask(&format!("node?at={}", below[0]["at"]));
    assert_eq!(leaf["referred_by"]["at"], node["at"]);
    let space = page.ask("space?vol=0");
    let names: Vec<&Value> =
        space["children"].as_array().unwrap().iter().map(|child| &child["name"]).collect();
    assert_eq!(names.len(), NAMES.len() + 1);
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let sample = used();
    let page = Page::serve(&sample, "used");
    for (question, expected) in [
        ("bytes?at=0&len=65536", 200),
        ("bytes?at=0&len=65537", 400),
        ("bytes?at=99999999999&len=1", 400),
        ("bytes?at=18446744073709551615&len=65536", 400),
        ("node?at=99999999999", 400),
        ("node?at=x", 400),
        ("peb/99999", 404),
        ("peb/x", 400),
        ("leb/9/9", 404),
        ("blocks?by=nothing", 400),
        ("content?vol=0&ino=1&len=9", 400),
        ("content?vol=0&ino=65&len=8388609", 400),
        ("content?vol=7&ino=65", 404),
        ("tree?vol=0&ino=999999", 422),
        ("tree?vol=0&asof=yesterday", 400),
        ("tree?vol=0&asof=commit:99", 422),
        ("inode/0/4294967296", 422),
        ("space?vol=0&ino=999999", 404),
        ("history?vol=0&what=nothing", 400),
        ("nothing", 404),
    ] {
        let status = loop {
            let (status, _) = page.send(question);
            if status != 503 {
                break status;
            }
        };
        assert_eq!(status, expected, "{question}");
    }
}

#[test]
fn a_dump_is_decoded_and_named_volumes_are_found() {
    let sample = Sample::new();
    // Codewords only count if they differ.
    let noise = |number: u32| number.wrapping_mul(2_654_435_761).to_be_bytes();
    let bytes: Vec<u8> = (0..60_000).flat_map(noise).collect();
    fs::write(sample.path("src/noise"), bytes).unwrap();
    let image = sample.ubi();
    let page = Page::serve(&sample, image);
    let info = printed(&sample, &["info", image]);
    let volume = info["volumes"].as_array().unwrap().iter().find(|it| it["ubifs"].is_object());
    let (id, name) = (volume.unwrap()["id"].to_string(), volume.unwrap()["name"].as_str().unwrap());
    let target = format!("{image}:{name}");
    let tree = page.ask(&format!("tree?vol={id}"));
    let listed = printed(&sample, &["ls", &target, "--all"]);
    assert_eq!(tree["entries"], listed["directories"][0]["entries"]);
    holds(&page.ask(&format!("plan?vol={id}")), &printed(&sample, &["repair", &target]));
    holds(&page.ask("findings"), &printed(&sample, &["check", image]));
    let recipe = ["--recipe", "linux-bch4:2048+64"];
    sample.ok(&[&["nand", "encode", image, "-o", "dump"][..], &recipe[..]].concat());
    let dump = Page::serve(&sample, "dump");
    let answer = dump.ask("dump");
    let mut detected = printed(&sample, &["nand", "detect", "dump"]);
    detected.as_object_mut().unwrap().retain(|name, _| !name.starts_with("findings"));
    assert_eq!(answer["detection"], detected);
    assert_eq!(answer["columns"].as_array().unwrap().len(), 64);
    assert_eq!(dump.ask("summary")["census"], page.ask("summary")["census"]);
    assert_eq!(dump.ask("blocks")["corrected_bits"][0], json!(0));
    let printed = sample.ok(&["nand", "recipes", "linux-bch4:2048+64"]).out;
    assert_eq!(answer["recipe"]["text"].as_str().unwrap().trim_end(), printed.trim_end());
    parts_fit_the_page(&answer["recipe"], 4 * 4 * 13);
}

/// Data covers as many bits as a page has, nothing overlaps, and the parity has so many bits.
fn parts_fit_the_page(recipe: &Value, parity: u64) {
    let page = recipe["page"].as_u64().unwrap() * 8;
    let (mut end, mut data, mut sums) = (0, 0, 0);
    for slice in recipe["regions"][0]["slices"].as_array().unwrap() {
        let [from, to] = ["from", "to"].map(|name| slice[name].as_u64().unwrap());
        assert!(from >= end && to > from, "{slice}");
        end = to;
        match slice["what"].as_str().unwrap() {
            "data" => data += to - from,
            "parity" => sums += to - from,
            _ => {}
        }
    }
    assert!(end <= page + recipe["oob"].as_u64().unwrap() * 8);
    assert_eq!((data, sums), (page, parity));
}

#[test]
fn a_dump_is_shown_by_the_recipe_of_a_file() {
    let sample = Sample::new();
    let noise = |number: u32| number.wrapping_mul(2_654_435_761).to_be_bytes();
    let bytes: Vec<u8> = (0..60_000).flat_map(noise).collect();
    fs::write(sample.path("src/noise"), bytes).unwrap();
    let image = sample.ubi();
    // A scrambler, which no built-in recipe has.
    let plain = sample.ok(&["nand", "recipes", "linux-bch4:2048+64"]).out;
    let scrambler =
        "[region.scrambler]\nwidth = 15\ntaps = 3\nseeds = [5, 6, 77]\ncovers = [\"0..2048\"]\n\n";
    let at = plain.find("[[region.codewords]]").unwrap();
    let text = format!("{}{scrambler}{}", &plain[..at], &plain[at..]);
    fs::write(sample.path("own.toml"), text).unwrap();
    sample.ok(&["nand", "encode", image, "-o", "dump", "--recipe", "own.toml"]);
    let refused = sample.run(&["explore", image, "--recipe", "nothing", "--no-open"]);
    assert!(refused.code == 2 && refused.err.contains("neither a built-in recipe"));
    let part = format!("{image}@0");
    let refused = sample.run(&["explore", &part, "--recipe", "own.toml", "--no-open"]);
    assert!(refused.code == 2 && refused.err.contains("only a whole file"), "{}", refused.err);
    sample.ok(&["explore", "dump", "--recipe", "own.toml", "--export", "report.html"]);
    let report = fs::read_to_string(sample.path("report.html")).unwrap();
    let data = report.split("id=\"answers\">").nth(1).unwrap().split("</script>").next();
    let answers: Value = serde_json::from_str(data.unwrap()).unwrap();
    let dump = &answers["dump"];
    parts_fit_the_page(&dump["recipe"], 4 * 4 * 13);
    let scrambler = &dump["recipe"]["regions"][0]["scrambler"];
    assert_eq!(scrambler["polynomial"], "x^15 + x + 1");
    assert_eq!(scrambler["seeds"], json!([5, 6, 77]));
    assert_eq!((&scrambler["period"], &scrambler["known_seeds"]), (&json!(3), &json!(3)));
    assert_eq!(
        (&dump["decoded"]["uncorrectable"], &dump["decoded"]["corrected_bits"]),
        (&json!(0), &json!(0))
    );
    // All views show the decoded image.
    let info = printed(&sample, &["info", image]);
    assert_eq!(answers["summary"]["info"]["volumes"], info["volumes"]);
}

#[test]
fn the_report_is_one_file_without_markup_of_the_image() {
    let sample = used();
    let before = fs::read(sample.path("used")).unwrap();
    sample.ok(&["explore", "used", "--export", "report.html"]);
    assert_eq!(fs::read(sample.path("used")).unwrap(), before);
    let report = fs::read_to_string(sample.path("report.html")).unwrap();
    assert!(report.starts_with("<!doctype html>"));
    // Styles and scripts of its own, and the block of answers.
    assert_eq!(report.matches("<script").count(), 2);
    assert!(report.contains("\\u003cscript>alert(1)\\u003c"));
    assert!(!report.contains("<script>alert") && !report.contains("<img"));
    for part in
        ["\"summary\"", "\"findings\"", "\"peb/0?from=0\"", "\"node?at=0\"", "\"plan?vol=0\""]
    {
        assert!(report.contains(part), "{part}");
    }
    let again = sample.run(&["explore", "used", "--export", "used"]);
    assert_ne!(again.code, 0, "a report replaces no input");
    assert_eq!(fs::read(sample.path("used")).unwrap(), before);
    assert_eq!(sample.run(&["explore", "missing"]).code, 3);
}

#[test]
fn a_report_has_the_small_contents_that_fit() {
    let sample = used();
    let refused = sample.run(&["explore", "used", "--with-contents", "1MiB"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    let exported = |limit: &str| -> serde_json::Map<String, Value> {
        let limit = ["--with-contents", limit];
        let limit = if limit[1].is_empty() { &[][..] } else { &limit };
        sample.ok(&[&["explore", "used", "--export", "report.html"][..], limit].concat());
        let report = fs::read_to_string(sample.path("report.html")).unwrap();
        let data = report.split("id=\"answers\">").nth(1).unwrap().split("</script>").next();
        let answers: Value = serde_json::from_str(data.unwrap()).unwrap();
        answers.as_object().unwrap().clone()
    };
    let contents = |limit: &str| -> Vec<(String, String)> {
        let all = exported(limit).into_iter().filter(|(name, _)| name.starts_with("content?"));
        all.map(|(name, value)| (name, value.as_str().unwrap().to_owned())).collect()
    };
    assert_eq!(contents(""), []);
    assert_eq!(contents("5"), []);
    let ino = |path: &str, more: &[&str]| {
        printed(&sample, &[&["stat", "used", path][..], more].concat())["ino"].to_string()
    };
    // base64 of "first\n", "secret\n" and "second\n".
    let past = ["--as-of", "commit:0"];
    let (kept, before, gone) = (ino("kept", &[]), ino("kept", &past), ino("gone", &past));
    let all = contents("1MiB");
    let find = |start: &str, coded: &str| {
        let is_it = |it: &&(String, String)| it.0.starts_with(start) && it.1 == coded;
        assert!(all.iter().any(|it| is_it(&it)), "{start}: {all:?}");
    };
    find(&format!("content?ino={kept}&vol=0"), "c2Vjb25kCg==");
    find(&format!("content?ino={before}&sqnum="), "Zmlyc3QK");
    find(&format!("content?ino={gone}&sqnum="), "c2VjcmV0Cg==");
    assert!(all.len() >= NAMES.len() + 3, "{all:?}");
    // The smallest ones that fit together.
    let few = contents("20");
    let sizes = few.iter().map(|(_, coded)| coded.len() / 4 * 3 - coded.matches('=').count());
    assert!(!few.is_empty() && sizes.sum::<usize>() <= 20, "{few:?}");
    assert!(few.iter().all(|it| all.contains(it)));
    // Versions of deleted files are listed, and those of the contents are among them.
    let answers = exported("1MiB");
    let versions = &answers[&format!("history?from=0&ino={gone}&vol=0&what=versions")];
    let newest = &versions["versions"][0]["newest_sqnum"];
    assert!(all.iter().any(|it| it.0 == format!("content?ino={gone}&sqnum={newest}&vol=0")));
}

#[test]
fn the_past_of_a_jffs2_is_shown() {
    let sample = Sample::new();
    sample.ok(&["mkfs", "jffs2", "src", "-q", "-o", "j", "--peb", "16KiB", "--pad-to", "512KiB"]);
    let edited = sample.run(&["edit", "j", "-c", "rm etc/hosts", "-c", "truncate 3 bin/tool"]);
    assert!(edited.code <= 1, "{}", edited.err);
    let page = Page::serve(&sample, "j");
    let deleted = printed(&sample, &["history", "j", "--deleted"]);
    assert_eq!(deleted["deleted"][0]["path"], "etc/hosts");
    assert_eq!(page.ask("history?vol=0&what=deleted")["deleted"], deleted["deleted"]);
    assert_eq!(page.ask("history?vol=0&what=commits")["total"], 0);
    let ino = deleted["deleted"][0]["ino"].to_string();
    let versions = printed(&sample, &["history", "j", "--ino", &ino]);
    let answer = page.ask(&format!("history?vol=0&ino={ino}&what=versions"));
    assert_eq!(answer["versions"], versions["versions"]);
    let sqnum = &versions["versions"][0]["newest_sqnum"];
    let (status, content) = page.send(&format!("content?vol=0&ino={ino}&sqnum={sqnum}&len=100"));
    assert_eq!((status, &content[..]), (200, &b"127.0.0.1 localhost\n"[..]));
}
