//! Timelines, judged by the tools that they are for.

use crate::history::used;
use crate::sample::{Run, Sample};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a program of the packages that `make setup` installs; it has to succeed.
fn judge(sample: &Sample, program: &str, arguments: &[&str]) -> Run {
    let run = sample.classic(program, arguments);
    let run = run.unwrap_or_else(|| panic!("{program} is installed; `make setup` does it"));
    assert_eq!(run.code, 0, "{program} {arguments:?}: {}{}", run.out, run.err);
    run
}

/// What the judge of DFXML finds in a file.
fn dfxml(sample: &Sample, image: &str, xml: &str, order: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/dfxml.py");
    let mut python = Command::new("python3");
    python.arg(script).args([image, xml, order].map(|name| sample.path(name)));
    let said = python.output().expect("python3 runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap()
}

/// An image with several commits and all that a timeline writes differently: a link, a further name, a pipe,
/// a hole, names that end fields or elements.
pub(crate) fn odd(compressor: &str) -> Sample {
    let sample = Sample::new();
    let lines = [
        "mkdir tree && cd tree",
        "seq 1 5000 >long && ln long further && ln -s 'to<there>' link && mkfifo pipe",
        "truncate -s 100000 hole && echo end >>hole && echo 1 >\"$(printf 'a|b<&>\\n\\377')\"",
        "echo 'the secret' >gone && chmod 4755 long && touch -h -d @1700000000 ./*",
        "touch -d @1700000001 gone && touch -d @1700000000 .",
    ];
    let mut shell = Command::new("sh");
    shell.arg("-ec").arg(lines.join("\n")).current_dir(sample.path(""));
    assert!(shell.status().unwrap().success());
    fs::write(sample.path("other"), "another content\n").unwrap();
    let sizes = ["--leb", "15872", "--min-io", "512", "--max-lebs", "60"];
    let made = ["mkfs", "ubifs", "tree", "-q", "-o", "odd", "--compressor", compressor];
    sample.ok(&[&made[..], &sizes].concat());
    let steps = ["-c", "put other long", "-c", "sync", "-c", "rm gone", "-c", "sync"];
    sample.ok(&[&["edit", "odd"][..], &steps].concat());
    sample
}

/// The same image by itself, in a part of a file, and in a UBI: targets, and their files.
pub(crate) fn everywhere(sample: &Sample) -> [(&'static str, &'static str); 3] {
    let mut shifted = vec![0x5A; 12_345];
    shifted.extend(fs::read(sample.path("odd")).unwrap());
    fs::write(sample.path("shifted"), &shifted).unwrap();
    let layout = "[flash]\npeb = \"16KiB\"\npage = 512\nsubpage = 256\nblocks = 100\n[[volume]]\n\
         name = \"it\"\nsize = \"1MiB\"\ncontent = { file = \"odd\" }\n";
    fs::write(sample.path("layout.toml"), layout).unwrap();
    sample.ok(&["build", "layout.toml", "-q", "-o", "ubi"]);
    [("odd", "odd"), ("shifted@12345", "shifted"), ("ubi:it", "ubi")]
}

#[test]
fn all_formats_have_all_versions() {
    let sample = used();
    let body = sample.ok(&["timeline", "used"]).out;
    assert!(body.lines().all(|line| line.split('|').count() == 11), "{body}");
    assert!(body.contains("|/gone (deleted)|0-"), "{body}");
    assert!(body.lines().any(|line| line.contains("|/kept|0-")), "{body}");
    let csv = sample.ok(&["timeline", "used", "--as", "csv"]).out;
    assert!(csv.starts_with("time,what,class,inode,sqnum,size,path\n"), "{csv}");
    let json = sample.ok(&["timeline", "used", "--as", "jsonl"]).out;
    let count = |text: &str, words: &str| text.lines().filter(|it| it.contains(words)).count();
    assert_eq!(count(&json, "\"class\":\"live\""), 2, "{json}");
}

/// Inodes were `volume:inode:sequence number`: mactime left out every line. Versions of one path had one name:
/// mactime showed the size of the last of them for all.
#[test]
fn mactime_shows_each_time_of_each_version() {
    let sample = odd("zlib");
    let body = sample.ok(&["timeline", "odd", "--hash", "md5"]).out;
    fs::write(sample.path("body"), &body).unwrap();
    let shown = judge(&sample, "mactime", &["-b", "body", "-d", "-y", "-z", "UTC"]).out;
    // Time, inode, name, size, and the letters of a row: modified, accessed, changed.
    let mut expected: BTreeMap<[String; 4], BTreeSet<char>> = BTreeMap::new();
    let versions = sample.ok(&["timeline", "odd", "--as", "jsonl"]).out;
    for line in versions.lines() {
        let version: Value = serde_json::from_str(line).unwrap();
        let inode = format!("0-{}-{}", version["ino"], version["inode_sqnum"]);
        for (letter, time) in [('m', "mtime"), ('a', "atime"), ('c', "ctime")] {
            let time = version[time]["seconds"].as_u64().unwrap();
            let time = judge(&sample, "date", &["-u", &format!("-d@{time}"), "+%FT%TZ"]).out;
            for path in version["paths"].as_array().unwrap() {
                let path = format!("/{}", path.as_str().unwrap().replace('|', "\\x7c"));
                let time = time.trim_end().to_owned();
                let key = [time, inode.clone(), path, version["size"].to_string()];
                expected.entry(key).or_default().insert(letter);
            }
        }
    }
    assert!(expected.len() > 15, "{expected:?}");
    let mut found: BTreeMap<[String; 4], BTreeSet<char>> = BTreeMap::new();
    for row in shown.lines().skip(1) {
        let row: Vec<&str> = row.splitn(8, ',').collect();
        let [time, size, letters, _, _, _, inode, name] = row[..] else { panic!("{row:?}") };
        let name = name.trim_matches('"');
        let ends = [" [sqnum", " (deleted)", " (superseded)"];
        let name = ends.iter().fold(name, |name, end| name.split(end).next().unwrap());
        let letters: BTreeSet<char> = letters.chars().filter(|it| *it != '.').collect();
        // UBIFS does not know when a file was made.
        if letters != BTreeSet::from(['b']) {
            found.insert([time, inode, name, size].map(str::to_owned), letters);
        }
    }
    assert_eq!(found, expected, "{shown}");
}

#[test]
fn digests_are_those_of_the_contents() {
    let sample = odd("lzo");
    let sums = |program: &str| -> BTreeMap<String, String> {
        let names = ["long", "hole", "gone"].map(|name| format!("tree/{name}"));
        let names: Vec<&str> = names.iter().map(String::as_str).chain(["other"]).collect();
        let out = judge(&sample, program, &names).out;
        let rows = out.lines().map(|line| line.split_once("  ").unwrap());
        rows.map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect()
    };
    let (md5, sha256) = (sums("md5sum"), sums("sha256sum"));
    let body = sample.ok(&["timeline", "odd", "--hash", "md5"]).out;
    let csv = sample.ok(&["timeline", "odd", "--as", "csv", "--hash", "sha256,md5"]).out;
    assert!(csv.starts_with("time,what,class,inode,sqnum,size,md5,sha256,path\n"), "{csv}");
    let json = sample.ok(&["timeline", "odd", "--as", "jsonl", "--hash", "sha256"]).out;
    for (file, name, end) in [
        ("tree/long", "/long", " (superseded)"),
        ("other", "/long", ""),
        ("tree/hole", "/hole", ""),
        ("tree/gone", "/gone", " (deleted)"),
    ] {
        let (md5, sha256) = (&md5[file], &sha256[file]);
        let start = format!("{md5}|{name}");
        let is_it = |line: &str| line.starts_with(&start) && line.contains(&format!("{end}|0-"));
        assert!(body.lines().any(is_it), "{file}: {body}");
        assert!(csv.contains(&format!(",{md5},{sha256},\"{name}{end}\"")), "{file}: {csv}");
        assert!(json.contains(&format!("\"md5\":null,\"sha256\":\"{sha256}\"")), "{file}: {json}");
    }
    // Links and pipes have none.
    for name in ["/link", "/pipe"] {
        assert!(body.lines().any(|line| line.starts_with(&format!("0|{name}|"))), "{body}");
    }
    let refused = sample.run(&["timeline", "odd", "--hash", "md5,sha256"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("a bodyfile has a column for MD5 only"), "{}", refused.err);
}

#[test]
fn dfxml_leads_to_each_byte() {
    for compressor in ["zlib", "none"] {
        let sample = odd(compressor);
        // The order of elements is that of fiwalk.
        let disk = ["-q", "-t", "ext2", "-d", "tree", "theirs", "1m"];
        judge(&sample, "mke2fs", &disk);
        judge(&sample, "debugfs", &["-w", "-R", "rm gone", "theirs"]);
        judge(&sample, "fiwalk", &["-X", "order.xml", "theirs"]);
        for (target, image) in everywhere(&sample) {
            let wanted = ["timeline", target, "--as", "dfxml", "--hash", "md5,sha256"];
            fs::write(sample.path("xml"), sample.ok(&wanted).out).unwrap();
            judge(&sample, "xmllint", &["--noout", "xml"]);
            let found = dfxml(&sample, image, "xml", "order.xml");
            let json = sample.ok(&["timeline", target, "--as", "jsonl"]).out;
            let names = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let names = names.map(|line| line["paths"].as_array().unwrap().len().max(1));
            assert_eq!(found["objects"], names.sum::<usize>(), "{target}");
            assert_eq!(found["rebuilt"], 8, "{target}: {found}");
            assert_eq!(found["links"], serde_json::json!(["to<there>"]), "{target}");
            assert_eq!(found["holes"], 1, "{target}: {found}");
        }
    }
}

/// Offsets in a chip were written as if they were those of its file.
#[test]
fn places_in_a_simulated_chip_are_none_in_its_file() {
    let sample = Sample::new();
    let image = sample.ubi();
    sample.ok(&["chip", "new", "chip", "--part", "W29N01HV"]);
    sample.ok(&["chip", "import", "chip", image]);
    let places = |target: &str| {
        let xml = sample.ok(&["timeline", target, "--as", "dfxml"]).out;
        let count = |words: &str| xml.matches(words).count();
        (count(" img_offset='"), count(" eraseblock:leb_offset='"))
    };
    let (of_file, of_volume) = places("all.ubi:rootfs");
    assert!(of_file > 20 && of_file == of_volume, "{of_file} of {of_volume}");
    assert_eq!(places("chip:rootfs"), (0, of_volume));
}
