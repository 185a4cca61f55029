//! What the classic tools accept, ours accept: every option, and values in all spellings. Where
//! mtd-utils are installed the lists are tried with them, too, so that they stay true.

use crate::sample::Sample;
use std::collections::BTreeSet;
use std::fs;

/// Arguments after the first ones of each tool. The last of an option given twice counts.
const ACCEPTED: &[(&str, &[&str])] = &[
    (
        "mkfs.ubifs -r src -o out -m 2048 -e 126976 -c 60 -x none",
        &[
            "-c 0xc8",
            "-c 060",
            "-c 1KiB",
            "-m 0x800",
            "-m 2KiB",
            "-m 04000",
            "-e 124KiB",
            "-e 0x1f000",
            "-j 1MiB",
            "-j 0x100000",
            "-R 1MiB",
            "-R 0",
            "-x lzo",
            "-x favor_lzo",
            "-x zlib",
            "-x zstd",
            "--compr=none",
            "--comp=none",
            "-x favor_lzo -X 0x10",
            "-x favor_lzo --favor-percent=20",
            "-f 0x8",
            "-f 010",
            "-k r5",
            "-k test",
            "-p 0x2",
            "-p 010",
            "-l 0x5",
            "-l 06",
            "-g 0x1",
            "-g 3",
            "-P 4",
            "-C x",
            "-y -v -F -U",
            "-F -F",
            "--space-fixup --squash-uids --yes --verbose",
            "--min-io-size=2048 --leb-size=126976 --max-leb-cnt=60",
            "--jrn-size=1MiB --reserved=0 --fanout=8 --keyhash=r5 --orph-lebs=1 --log-lebs=4",
            "-D table",
            "--devtable=table",
            "-d src",
            "--output=other",
            "one two",
        ],
    ),
    (
        "ubinize -o out -p 128KiB -m 2048 -Q 1 u.ini",
        &[
            "-p 0x20000",
            "-p 0400000",
            "-p 1MiB",
            "-m 0x800",
            "-m 1",
            "-s 512",
            "-s 0x200",
            "-s 01000",
            "-O 0",
            "-O 2048",
            "-O 0x800",
            "-e 9",
            "-e 0x10",
            "-e 010",
            "-e 2147483647",
            "-x 1",
            "-x 0",
            "-x 2",
            "-x 0xff",
            "-Q 0",
            "-Q 0xffffffff",
            "-v",
            "--peb-size=128KiB --min-io-size=2048 --sub-page-size=512 --vid-hdr-offset=512",
            "--erase-counter=1 --ubi-ver=1 --image-seq=1 --verbose --output=other",
        ],
    ),
    (
        "mkfs.jffs2 -o out",
        &[
            "-d src",
            "-r src",
            "--root=src -l",
            "-d src -b",
            "-d src -l -b",
            "-d src -p",
            "-d src -p0x10000",
            "-d src --pad",
            "-d src --pad=0x20000",
            "-d src -s 0x1000",
            "-d src --pagesize=512",
            "-d src -e 128",
            "-d src -e 128KiB",
            "-d src -e 0x20000",
            "-d src -e 0400000",
            "-d src -e 4",
            "-d src --eraseblock=1MiB",
            "-d src -c 16",
            "-d src --cleanmarker=0x14",
            "-d src -m none",
            "-d src -m size",
            "-d src -m priority",
            "-d src --compression-mode=favourlzo",
            "-d src -x lzo",
            "-d src --disable-compressor=zlib -x rtime",
            "-d src -X lzo",
            "-d src --enable-compressor=zlib -x zlib",
            "-d src -y 100:lzo",
            "-d src --compressor-priority=1:zlib",
            "-d src -t -n -q -U -P -f -v -v",
            "-d src --test-compression --no-cleanmarkers --squash --squash-uids --squash-perms",
            "-d src --faketime --verbose --little-endian",
            "-d src --with-xattr --with-selinux --with-posix-acl",
            "-d src -D table",
            "-d src one two",
        ],
    ),
    (
        "sumtool -i in.jffs2 -o out",
        &[
            "-e 64",
            "-e 64KiB",
            "-e 0x10000",
            "-e 4",
            "-c 12",
            "--cleanmarker=0x10",
            "-n",
            "-l -p -v",
            "--littleendian --pad --no-cleanmarkers --verbose --eraseblock=64KiB",
            "one two",
        ],
    ),
    ("sumtool --input=in.jffs2 --output=out", &["-l"]),
];

/// Accepted by the classic tools and refused here: `docs/COMPAT.md` says why.
const REFUSED: &[(&str, &str)] = &[
    ("mkfs.ubifs -r src -o out -m 2048 -e 126976 -c 60 -j 4096", "journal size"),
    ("ubinize -o out -p 128KiB -m 2048 -e 4294967296 u.ini", "erase counter"),
    ("ubinize -o out -p 128KiB -m 2048 aligned.ini", "alignment"),
    ("ubinize -o out -p 128KiB -m 2048 nameless.ini", "vol_name"),
    ("mkfs.jffs2 -d src -o out --pad=64KiB", "not a number"),
    ("mkfs.jffs2 -d src -o out -s 4KiB", "not a number"),
    ("mkfs.jffs2 -d src -o out -s 0", "page size"),
    ("mkfs.jffs2 -d src -o out -e 12345", "erase block size"),
    ("sumtool -i in.jffs2 -o out -b", "no JFFS2 node"),
];

fn sample() -> Sample {
    let sample = Sample::new();
    let ini = "[a]\nmode=ubi\nimage=content\nvol_id=0\nvol_name=a\nvol_size=1MiB\n";
    fs::write(sample.path("content"), vec![7; 5000]).unwrap();
    fs::write(sample.path("u.ini"), ini).unwrap();
    fs::write(sample.path("table"), "/dev d 755 0 0 - - - - -\n").unwrap();
    fs::write(sample.path("aligned.ini"), ini.to_owned() + "vol_alignment=3\n").unwrap();
    fs::write(sample.path("nameless.ini"), ini.replace("vol_name=a", "vol_name=")).unwrap();
    sample.ok(&["mkfs.jffs2", "-d", "src", "-l", "-o", "in.jffs2"]);
    sample
}

/// The exit code of the classic tool, if it is installed.
fn classic(sample: &Sample, words: &[&str]) -> Option<i32> {
    sample.classic(words[0], &words[1..]).map(|run| run.code)
}

#[test]
fn what_the_classic_tools_accept_is_accepted() {
    let sample = sample();
    for (first, rows) in ACCEPTED {
        for row in *rows {
            let words: Vec<&str> = first.split(' ').chain(row.split(' ')).collect();
            let run = sample.run(&words);
            assert_eq!(run.code, 0, "{first} {row}: {}", run.err);
            assert!(classic(&sample, &words).is_none_or(|code| code == 0), "{first} {row}");
        }
    }
}

#[test]
fn what_is_refused_though_it_is_accepted_there_is_said() {
    let sample = sample();
    for (line, message) in REFUSED {
        let words: Vec<&str> = line.split(' ').collect();
        let run = sample.run(&words);
        assert_ne!(run.code, 0, "{line}");
        assert!(run.err.contains(message), "{line}: {}", run.err);
        assert!(classic(&sample, &words).is_none_or(|code| code == 0), "{line}");
    }
}

/// The long options in a help text.
fn long_options(help: &str) -> BTreeSet<String> {
    let words = help.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
    let long = words.filter_map(|word| word.strip_prefix("--"));
    long.filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect()
}

#[test]
fn every_long_option_is_known() {
    let sample = sample();
    for (first, _) in ACCEPTED {
        let tool = first.split(' ').next().unwrap();
        let Some(theirs) = sample.classic(tool, &["--help"]) else { return };
        let ours = sample.run(&[tool, "--help"]);
        let (theirs, ours) = (long_options(&(theirs.out + &theirs.err)), long_options(&ours.out));
        let missing: Vec<_> = theirs.difference(&ours).collect();
        assert!(theirs.len() > 5 && missing.is_empty(), "{tool}: {missing:?}");
    }
}

#[test]
fn an_output_file_in_the_root_directory_is_refused() {
    let sample = sample();
    for output in ["src/out", "./src/etc/../out", "src/etc/out"] {
        let words = ["mkfs.ubifs", "-m", "2048", "-e", "126976", "-c", "60", "-r", "src", "-o"];
        let words = [&words[..], &[output]].concat();
        let run = sample.run(&words);
        assert_eq!(run.code, 255, "{output}: {}", run.err);
        assert!(
            run.err.contains("in the root directory") && run.err.contains("hint:"),
            "{}",
            run.err
        );
        assert!(!sample.path(output).exists());
        assert!(classic(&sample, &words).is_none_or(|code| code == 255), "{output}");
    }
}

#[test]
fn an_image_larger_than_its_volume_is_named_with_its_bytes() {
    let sample = sample();
    fs::write(sample.path("content"), vec![7; 3_000_000]).unwrap();
    let run = sample.run(&["ubinize", "-o", "out", "-p", "128KiB", "-m", "2048", "u.ini"]);
    assert_eq!(run.code, 255);
    for word in ["section `a`", "`content` has 3000000 bytes", "vol_size 1048576", "hint:"] {
        assert!(run.err.contains(word), "{word}: {}", run.err);
    }
    assert!(!sample.path("out").exists());
}
