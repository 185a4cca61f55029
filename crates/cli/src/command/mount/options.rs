//! Parses the argument of `-o`.

use crate::args::size64;
use crate::failure::Failure;
use eraseblock::raw::fuse::MountOptions;
use eraseblock::raw::mtd::Access;
use eraseblock::raw::ubifs_format::Compression;
use eraseblock::target::writable::Mode;

/// Less than this is not enough for a cache.
const LEAST_CACHE: u64 = 1 << 20;

/// What is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    /// How to mount.
    pub(super) mount: MountOptions,
    /// How to open what is written to.
    pub(super) mode: Mode,
    /// Allow changes.
    pub(super) rw: bool,
}

/// Understands the options; the last of two that contradict each other wins.
pub(super) fn parse(options: &[String], access: Access) -> Result<Asked, Failure> {
    let mount = MountOptions { acl: true, ..MountOptions::default() };
    let mut asked = Asked { mount, mode: Mode::default(), rw: access.is_write() };
    for option in options.iter().filter(|option| !option.is_empty()) {
        apply(&mut asked, option)?;
    }
    Ok(asked)
}

/// Understands those options that say how what is written to is opened, and no others.
pub(crate) fn mode(options: &[String]) -> Result<Mode, Failure> {
    for option in options.iter().filter(|option| !option.is_empty()) {
        let name = option.split('=').next().unwrap_or_default();
        if !["compressor", "cache", "bulk_read", "no_bulk_read"].contains(&name) {
            return Err(Failure::usage(format!("-o {option}: no such option of a server"))
                .hint("there are compressor=NAME, cache=SIZE, bulk_read and no_bulk_read"));
        }
    }
    parse(options, Access::Write).map(|asked| asked.mode)
}

fn apply(asked: &mut Asked, option: &str) -> Result<(), Failure> {
    let mount = &mut asked.mount;
    match option {
        "rw" => asked.rw = true,
        "ro" => asked.rw = false,
        "allow_other" => mount.allow_other = true,
        "default_permissions" => mount.default_permissions = true,
        "acl" => mount.acl = true,
        "noacl" => mount.acl = false,
        "dev" => mount.dev = true,
        "nodev" => mount.dev = false,
        "suid" => mount.suid = true,
        "nosuid" => mount.suid = false,
        "noexec" => mount.noexec = true,
        "exec" => mount.noexec = false,
        "sync" => mount.sync = true,
        "async" => mount.sync = false,
        "bulk_read" => asked.mode.nodes_alone = false,
        "no_bulk_read" => asked.mode.nodes_alone = true,
        // Flash file systems do not note accesses.
        "noatime" | "nodiratime" => {}
        other => return apply_value(asked, other),
    }
    Ok(())
}

/// An option with a value.
fn apply_value(asked: &mut Asked, option: &str) -> Result<(), Failure> {
    let expected = |what: &str| Failure::usage(format!("-o {option}: expected {what}"));
    match option.split_once('=') {
        Some(("threads", value)) => match value.parse() {
            Ok(threads @ 1..=64) => asked.mount.threads = Some(threads),
            _ => return Err(expected("1 to 64 threads")),
        },
        Some(("compressor", value)) => {
            asked.mode.compression = Some(match value {
                "lzo" => Compression::Lzo,
                "zlib" => Compression::Zlib,
                "zstd" => Compression::Zstd,
                "none" => Compression::None,
                _ => return Err(expected("lzo, zlib, zstd or none")),
            });
        }
        Some(("cache", value)) => match size64(value).map(usize::try_from) {
            Ok(Ok(bytes)) if bytes as u64 >= LEAST_CACHE => asked.mode.cache = Some(bytes),
            _ => return Err(expected("a size of 1 MiB or more")),
        },
        _ => {
            return Err(Failure::usage(format!("-o {option}: no such mount option"))
                .hint("`eraseblock mount --help` names them"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[&str]) -> Result<Asked, Failure> {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        parse(&options, Access::Read)
    }

    #[test]
    fn the_last_word_counts() {
        let asked = parsed(&["rw", "allow_other", "dev", "nodev", "threads=3", ""]).unwrap();
        assert!(asked.rw && asked.mount.allow_other && asked.mount.acl && !asked.mount.dev);
        assert_eq!(asked.mount.threads, Some(3));
        assert!(!parsed(&["rw", "ro"]).unwrap().rw);
        let asked = parsed(&["compressor=zlib", "cache=8MiB", "sync"]).unwrap();
        assert_eq!(asked.mode.compression, Some(Compression::Zlib));
        assert_eq!((asked.mode.cache, asked.mount.sync), (Some(8 << 20), true));
        assert!(parsed(&["bulk_read", "no_bulk_read"]).unwrap().mode.nodes_alone);
    }

    #[test]
    fn servers_have_fewer_options() {
        let of = |option: &str| mode(&[option.to_owned()]);
        assert_eq!(of("cache=8MiB").unwrap().cache, Some(8 << 20));
        assert_eq!(of("compressor=none").unwrap().compression, Some(Compression::None));
        assert!(of("no_bulk_read").unwrap().nodes_alone);
        for option in ["allow_other", "threads=2", "cache=1", "sync"] {
            assert!(of(option).unwrap_err().message().contains(option), "{option}");
        }
    }

    #[test]
    fn unknown_options_are_refused() {
        for option in
            ["nope", "threads=0", "threads=x", "compressor=gz", "cache=1KiB", "cache=", "a=b"]
        {
            let failure = parsed(&[option]).unwrap_err();
            assert!(failure.message().contains(option), "{}", failure.message());
        }
    }
}
