//! AXFS: making images, and reading them wherever they are.

use crate::sample::Sample;
use std::fs;

/// A folder, and an image of it with one file to be executed in place.
fn sample() -> Sample {
    let sample = Sample::new();
    let folder = sample.path("files");
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::write(folder.join("bin/tool"), [b'x'; 10_000]).unwrap();
    fs::write(folder.join("bin/text"), "text\n".repeat(3000)).unwrap();
    fs::hard_link(folder.join("bin/text"), folder.join("text")).unwrap();
    std::os::unix::fs::symlink("bin/tool", folder.join("link")).unwrap();
    fs::write(sample.path("list"), "# executed in place\n\n/bin/tool\n").unwrap();
    let made = sample.ok(&["mkfs", "axfs", "files", "-o", "i.axfs", "--xip-list", "list"]);
    assert!(
        made.err.contains("2 pages executed in place, 1 hard link stored as copies"),
        "{}",
        made.err
    );
    sample
}

#[test]
fn images_are_read_wherever_they_are() {
    let sample = sample();
    let layout = "[flash]\npart = \"W25N01GV\"\nblocks = 64\n[[volume]]\nname = \"a\"\n\
                  content = { file = \"i.axfs\" }\n";
    fs::write(sample.path("l.toml"), layout).unwrap();
    sample.ok(&["build", "l.toml", "-o", "u.ubi", "-q"]);
    let (ubi, bare) = (fs::read(sample.path("u.ubi")), fs::read(sample.path("i.axfs")));
    let (ubi, bare) = (ubi.unwrap(), bare.unwrap());
    fs::write(sample.path("both"), [&vec![0; 5000][..], &ubi, &bare].concat()).unwrap();
    let at = format!("both@{}", 5000 + ubi.len());
    for target in ["i.axfs", "u.ubi:a", "u.ubi", "both@5000:a", &at] {
        assert_eq!(sample.ok(&["ls", target]).out, "bin\nlink\ntext\n", "{target}");
        assert_eq!(sample.ok(&["cat", target, "text"]).out, "text\n".repeat(3000), "{target}");
        assert!(sample.ok(&["stat", target, "link"]).out.contains("symlink -> bin/tool"));
        sample.ok(&["check", target]);
        sample.ok(&["extract", target, "out", "--force"]);
    }
    assert_eq!(fs::read(sample.path("out/bin/tool")).unwrap(), [b'x'; 10_000]);
    sample.ok(&["get", "i.axfs", "bin/tool", "tool"]);
    assert_eq!(fs::read(sample.path("tool")).unwrap(), [b'x'; 10_000]);
    assert!(sample.ok(&["tree", "i.axfs"]).out.contains("link -> bin/tool"));
    let listed = sample.ok(&["info", "both"]).out;
    assert!(listed.contains(&at) && listed.contains("both@5000 "), "{listed}");
    let info = sample.ok(&["info", "i.axfs", "--json"]).out;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!((&info["format"], &info["xip_pages"]), (&"axfs".into(), &2.into()));
    let run = sample.run(&["put", "i.axfs", "list"]);
    assert!(run.code > 0 && run.err.contains("AXFS can only be read"), "{}", run.err);
    assert_eq!(fs::read(sample.path("i.axfs")).unwrap(), bare);
}

#[test]
fn equal_sources_give_equal_images() {
    let sample = sample();
    sample.ok(&["mkfs", "axfs", "files", "-o", "again", "--xip", "bin/tool"]);
    assert_eq!(fs::read(sample.path("i.axfs")).unwrap(), fs::read(sample.path("again")).unwrap());
    let json = sample.ok(&["mkfs", "axfs", "files", "-o", "other", "--time", "9", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["xip_pages"], &json["copies"]), (&0.into(), &1.into()));
    assert!(sample.ok(&["mkfs", "axfs", "files", "-o", "x", "--preflight"]).err.contains("fits"));
    assert!(!sample.path("x").exists());
}

#[test]
fn impossible_images_are_refused() {
    let sample = sample();
    for path in ["bin", "none"] {
        let run = sample.run(&["mkfs", "axfs", "files", "-o", "no", "--xip", path]);
        assert_eq!(run.code, 3);
        assert!(run.err.contains("not a regular file of the image"), "{}", run.err);
    }
    let run = sample.run(&["mkfs", "axfs", "files", "-o", "list", "--xip-list", "list"]);
    assert!(run.code > 0, "{}", run.err);
    assert!(!sample.path("no").exists());
}

#[test]
fn damage_is_a_finding() {
    let sample = sample();
    let mut image = fs::read(sample.path("i.axfs")).unwrap();
    fs::write(sample.path("short"), &image[..image.len() - 8192]).unwrap();
    let run = sample.run(&["check", "short"]);
    assert!(run.code == 1 && run.err.contains("axfs-truncated"), "{} {}", run.out, run.err);
    image[64..72].fill(0xFF);
    fs::write(sample.path("bad"), &image).unwrap();
    let run = sample.run(&["ls", "bad"]);
    assert!(run.code == 3 && run.err.contains("number of inodes"), "{}", run.err);
}
