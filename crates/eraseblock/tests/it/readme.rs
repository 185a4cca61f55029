//! The lines of the front page, run.

use crate::sample::Sample;
use eraseblock::Result;

const README: &str = include_str!("../../README.md");

/// The lines as they are written, with the folder before the names of the files.
macro_rules! lines {
    ($name:ident: $($line:literal)*) => {
        #[test]
        fn $name() {
            for line in [$($line),*] {
                assert!(README.contains(line), "{line}");
            }
        }
    };
}

lines! { the_front_page_has_the_lines_that_are_run:
    "let motd = eraseblock::open(\"board.ubi\")?.volume(\"rootfs\")?.read(\"/etc/motd\")?;"
    "eraseblock::build(\"board.toml\")?.write_to(\"board.ubi\")?;"
    "eraseblock::edit(\"board.ubi\")?.volume(\"rootfs\")?.write(\"/etc/motd\", b\"hello\\n\")?;"
}

#[test]
fn the_front_page_does_what_it_says() {
    let sample = Sample::new();
    let (toml, ubi) = (sample.path("board.toml"), sample.image());
    let page = || -> Result<Vec<u8>> {
        let motd = eraseblock::open(&ubi)?.volume("rootfs")?.read("/etc/motd")?;
        eraseblock::build(&toml)?.write_to(&ubi)?;
        eraseblock::edit(&ubi)?.volume("rootfs")?.write("/etc/motd", b"hello\n")?;
        Ok(motd)
    };
    assert_eq!(page().unwrap(), b"welcome\n");
    let volume = eraseblock::open(&ubi).unwrap().volume("rootfs").unwrap();
    assert_eq!(volume.read("/etc/motd").unwrap(), b"hello\n");
}
