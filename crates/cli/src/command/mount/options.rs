//! What stands behind `-o`.

use crate::failure::Failure;
use eraseblock_fuse::MountOptions;

/// What is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    /// How to mount.
    pub(super) mount: MountOptions,
    /// Allow changes.
    pub(super) rw: bool,
}

/// Understands the options; the last of two that contradict each other wins.
pub(super) fn parse(options: &[String], rw: bool) -> Result<Asked, Failure> {
    let mount = MountOptions { acl: true, ..MountOptions::default() };
    let mut asked = Asked { mount, rw };
    for option in options.iter().filter(|option| !option.is_empty()) {
        apply(&mut asked, option)?;
    }
    Ok(asked)
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
        // Flash file systems do not note accesses.
        "noatime" | "nodiratime" => {}
        other => match other.strip_prefix("threads=").map(str::parse) {
            Some(Ok(threads @ 1..=64)) => mount.threads = Some(threads),
            Some(_) => return Err(Failure::usage(format!("-o {other}: expected 1 to 64 threads"))),
            None => {
                return Err(Failure::usage(format!("-o {other}: no such mount option"))
                    .hint("`eraseblock mount --help` names them"));
            }
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[&str]) -> Result<Asked, Failure> {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        parse(&options, false)
    }

    #[test]
    fn the_last_word_counts() {
        let asked = parsed(&["rw", "allow_other", "dev", "nodev", "threads=3", ""]).unwrap();
        assert!(asked.rw && asked.mount.allow_other && asked.mount.acl && !asked.mount.dev);
        assert_eq!(asked.mount.threads, Some(3));
        assert!(!parsed(&["rw", "ro"]).unwrap().rw);
    }

    #[test]
    fn unknown_options_are_refused() {
        for option in ["nope", "threads=0", "threads=x"] {
            let failure = parsed(&[option]).unwrap_err();
            assert!(failure.message().contains(option), "{}", failure.message());
        }
    }
}
