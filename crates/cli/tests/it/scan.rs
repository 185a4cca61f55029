//! `scan`: one line for each image, also for one that cannot be opened.

use crate::sample::Sample;
use std::fs;

#[test]
fn every_image_has_one_line() {
    let sample = Sample::new();
    fs::create_dir(sample.path("tree")).unwrap();
    fs::write(sample.path("tree/motd"), "hello flash\n").unwrap();
    std::os::unix::fs::symlink("motd", sample.path("tree/issue")).unwrap();
    sample.ok(&["mkfs", "jffs2", "tree", "-o", "good.jffs2", "--peb", "64KiB", "-q"]);
    fs::write(sample.path("noise"), [0x5A; 5000]).unwrap();
    let run = sample.ok(&["scan", "noise", "good.jffs2", "missing"]);
    let rows: Vec<serde_json::Value> =
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |what: &str| rows.iter().map(|row| row[what].clone()).collect::<Vec<_>>();
    assert_eq!(of("image"), ["noise", "good.jffs2", "missing"]);
    assert_eq!(of("status"), ["refused", "read", "refused"]);
    assert!(rows[0]["error"].is_string() && rows[1]["error"].is_null(), "{rows:?}");
    let files = rows[1]["files"].as_array().unwrap();
    let file = |path: &str| files.iter().find(|file| file["path"] == path).unwrap();
    assert_eq!(
        (&file("issue")["target"], &file("issue")["kind"]),
        (&"motd".into(), &"symlink".into())
    );
    let sum = "9ff844bbd4e69c08b8195ce4ee736bcfd58b689c76c9eae6f186b8f4d35d2065";
    assert_eq!(file("motd")["sha256"], sum);
    // Longer files have no digest; everything else is the same.
    let run = sample.ok(&["scan", "--longest", "5", "good.jffs2"]);
    let row: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let found = row["files"].as_array().unwrap();
    assert!(found.iter().all(|file| file["sha256"].is_null()), "{row}");
    assert_eq!(found.len(), files.len());
    let run = sample.ok(&["scan", "--no-files", "good.jffs2"]);
    assert!(run.out.contains("\"files\":[]"), "{}", run.out);
}

#[test]
fn files_name_their_volumes() {
    let sample = Sample::new();
    fs::create_dir(sample.path("tree")).unwrap();
    fs::write(sample.path("tree/motd"), "hello flash\n").unwrap();
    fs::write(sample.path("env"), "bootdelay=3\n").unwrap();
    let layout = "flash.part = \"W29N01HV\"\n\
        [[volume]]\nname = \"env\"\ntype = \"static\"\ncontent = { file = \"env\" }\n\
        [[volume]]\nname = \"rootfs\"\nsize = \"4MiB\"\ncontent = { ubifs = \"tree\" }\n";
    fs::write(sample.path("board.toml"), layout).unwrap();
    sample.ok(&["build", "board.toml", "-o", "board.ubi", "-q"]);
    let run = sample.ok(&["scan", "board.ubi"]);
    let row: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&row["kind"], &row["volumes"][0]["kind"]), (&"ubi".into(), &"static".into()));
    assert!(row["volumes"][0]["error"].is_string(), "a volume without a file system: {row}");
    assert!(row["volumes"][1]["error"].is_null(), "{row}");
    assert_eq!(
        (&row["files"][0]["volume"], &row["files"][0]["path"]),
        (&"rootfs".into(), &"motd".into())
    );
}
