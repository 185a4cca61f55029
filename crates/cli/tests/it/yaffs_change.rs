//! YAFFS2 changed: raw dumps, built images and chips, by `put`, `edit` and mounts.

use crate::mount::mounted;
use crate::sample::{Sample, noise};
use crate::yaffs::unpack;
use std::fs;

/// Edits, puts and gets; afterwards everything agrees.
fn change(sample: &Sample, target: &str, told: &[&str]) {
    fs::write(sample.path("noise"), noise(40_000)).unwrap();
    let ok = |words: &[&str]| sample.ok(&[words, told].concat());
    ok(&["put", target, "noise", "cut"]);
    ok(&["check", target]);
    let commands = ["mkdir d9", "mv cut d9/tool", "ln d9/tool again", "truncate 1000 d9/tool"];
    let more =
        ["setfattr user.k v d9", "chmod 700 d9", "put noise d9/n", "put noise gone", "rm gone"];
    let commands: Vec<&str> = commands.iter().chain(&more).flat_map(|c| ["-c", c]).collect();
    ok(&[&["edit", target][..], &commands].concat());
    ok(&["check", target]);
    ok(&["get", target, "/d9/n", "back", "--force"]);
    assert_eq!(fs::read(sample.path("back")).unwrap(), noise(40_000));
    ok(&["get", target, "again", "back", "--force"]);
    assert_eq!(fs::read(sample.path("back")).unwrap(), noise(40_000)[..1000]);
    let listed = ok(&["ls", target]).out;
    assert!(listed.contains("again") && !listed.contains("gone"), "{listed}");
}

#[test]
fn dumps_of_the_reference_are_changed() {
    for name in ["basic-checkpoint", "big-endian-checkpoint", "page-1024", "no-tags-ecc", "links"] {
        let sample = Sample::new();
        let image = unpack(&sample, name);
        change(&sample, image, &[]);
    }
}

/// A chip has the spare bytes of a dump, and what a change leaves is a dump again.
#[test]
fn chips_are_changed() {
    let sample = Sample::new();
    let image = unpack(&sample, "basic-checkpoint");
    let shape = ["--size", "8MiB", "--peb", "128KiB", "--page", "2048", "--oob", "64"];
    sample.ok(&[&["chip", "new", "c"][..], &shape].concat());
    sample.ok(&["chip", "import", "c", image, "--oob"]);
    change(&sample, "c", &[]);
    sample.ok(&["chip", "export", "c", "back.img", "--oob"]);
    for target in ["c", "back.img"] {
        let info = sample.ok(&["info", target, "--json"]).out;
        assert!(info.contains("\"state_from\": \"checkpoint\""), "{target}: {info}");
    }
    assert_eq!(sample.ok(&["ls", "c"]).out, sample.ok(&["ls", "back.img"]).out);
}

#[test]
fn a_built_image_grows_to_its_flash() {
    let sample = Sample::new();
    for (image, more) in
        [("a.img", &[][..]), ("b.img", &["--tags-at", "2", "--data-ecc", "--flash", "W29N01HV"])]
    {
        sample.ok(&[&["mkfs", "yaffs2", "src", "-o", image][..], more].concat());
        let before = fs::read(sample.path(image)).unwrap();
        let refused = sample.run(&["edit", image, "-c", "mkdir d"]);
        assert!(
            refused.code != 0 && refused.err.contains("--peb SIZE states it"),
            "{}",
            refused.err
        );
        let small = sample.run(&["put", image, "src", "/x", "--peb", "128KiB"]);
        assert!(small.code != 0 && small.err.contains("no space"), "{}", small.err);
        assert!(before == fs::read(sample.path(image)).unwrap(), "a failure changed the image");
        fs::write(sample.path("noise"), noise(40_000)).unwrap();
        sample.ok(&["put", image, "noise", "/n", "--peb", "128KiB", "--size", "4MiB"]);
        assert_eq!(fs::metadata(sample.path(image)).unwrap().len(), 32 * 64 * 2112);
        change(&sample, image, &["--peb", "128KiB"]);
        assert_eq!(sample.ok(&["cat", image, "etc/hosts"]).out, "127.0.0.1 localhost\n");
    }
}

#[test]
fn a_failed_command_leaves_the_dump_as_it_was() {
    let sample = Sample::new();
    let image = unpack(&sample, "basic-checkpoint");
    let before = fs::read(sample.path(image)).unwrap();
    fs::write(sample.path("huge"), vec![1; 64 << 20]).unwrap();
    for (arguments, why) in [
        (&["put", image, "huge", "/x"][..], "no space"),
        (&["put", image, "missing", "/x"], "missing"),
    ] {
        let run = sample.run(arguments);
        assert!(run.code != 0 && run.err.contains(why), "{}", run.err);
        assert!(before == fs::read(sample.path(image)).unwrap(), "{arguments:?} changed the image");
    }
    let old = unpack(&sample, "yaffs1-basic");
    let before = fs::read(sample.path(old)).unwrap();
    let run = sample.run(&["edit", old, "-c", "mkdir d"]);
    assert!(run.code != 0 && run.err.contains("a YAFFS1 can only be read"), "{}", run.err);
    assert!(before == fs::read(sample.path(old)).unwrap());
}

#[test]
fn a_dump_is_mounted_for_writing() {
    let sample = Sample::new();
    let image = unpack(&sample, "links");
    fs::create_dir(sample.path("dir")).unwrap();
    if !mounted("a YAFFS2", &sample.run(&["mount", image, "dir", "--rw"])) {
        return;
    }
    fs::write(sample.path("dir/new"), noise(30_000)).unwrap();
    fs::rename(sample.path("dir/new"), sample.path("dir/newer")).unwrap();
    sample.ok(&["umount", "dir"]);
    sample.ok(&["check", image]);
    sample.ok(&["get", image, "newer", "back"]);
    assert_eq!(fs::read(sample.path("back")).unwrap(), noise(30_000));
}
