//! Refuses to run where fakeroot or pseudo is expected to work and cannot.
//!
//! Both pretend to be root by replacing functions of the C library in the programs they start. A
//! statically linked program has no functions to replace: it would silently read owners, device
//! nodes and attributes as the host stores them and put those into the image.

use crate::failure::Failure;
use std::ffi::OsString;

/// Whether this program was linked statically.
pub(crate) const IS_STATIC: bool = cfg!(target_feature = "crt-static");

/// The refusal, if a program that `is_static` is run under fakeroot or pseudo. `variable` reads
/// the environment.
pub(crate) fn refusal(
    is_static: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<Failure> {
    if !is_static {
        return None;
    }
    let tool = pretender(&variable)?;
    let message = format!(
        "this eraseblock is linked statically and cannot see the owners, devices and attributes \
         that {tool} pretends"
    );
    let step = format!("use a dynamically linked eraseblock, or run it outside {tool}");
    Some(Failure::new(message).hint(step))
}

/// Which of the two tools is at work.
fn pretender(variable: impl Fn(&str) -> Option<OsString>) -> Option<&'static str> {
    let preloaded = variable("LD_PRELOAD").unwrap_or_default();
    let preloaded = preloaded.to_string_lossy();
    let key = variable("FAKEROOTKEY").filter(|key| !key.is_empty());
    // Debian's fakeroot-pseudo sets fakeroot's variable as well.
    if preloaded.contains("libpseudo") || key.as_deref().is_some_and(|key| key == "pseudo") {
        return (!is_switched_off(variable("PSEUDO_DISABLED"))).then_some("pseudo");
    }
    (key.is_some() || preloaded.contains("libfakeroot")).then_some("fakeroot")
}

/// Returns whether `PSEUDO_DISABLED` leaves all calls as they are: set, and not to "no", "false" or
/// 0.
fn is_switched_off(value: Option<OsString>) -> bool {
    value.is_some_and(|value| {
        let first = value.as_encoded_bytes().first();
        !matches!(first, None | Some(b'0' | b'f' | b'F' | b'n' | b'N' | b's' | b'S'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuses(is_static: bool, environment: &[(&str, &str)]) -> Option<String> {
        let variable = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let failure = refusal(is_static, variable)?;
        assert_eq!(failure.exit(), crate::failure::Exit::Failed);
        assert!(failure.next_step().unwrap().contains("dynamically linked"));
        Some(failure.message().to_owned())
    }

    #[test]
    fn a_static_program_refuses_to_run_under_fakeroot_and_pseudo() {
        for (environment, tool) in [
            (&[("FAKEROOTKEY", "1234")][..], "fakeroot"),
            (&[("LD_PRELOAD", "/usr/lib/libfakeroot/libfakeroot-sysv.so")], "fakeroot"),
            (&[("LD_PRELOAD", "libother.so libfakeroot-tcp.so")], "fakeroot"),
            (&[("FAKEROOTKEY", "pseudo")], "pseudo"),
            (&[("LD_PRELOAD", "/sysroot/lib/pseudo/lib64/libpseudo.so")], "pseudo"),
            (&[("LD_PRELOAD", "libpseudo.so"), ("PSEUDO_DISABLED", "0")], "pseudo"),
        ] {
            let message = refuses(true, environment).unwrap();
            assert!(message.contains(&format!("{tool} pretends")), "{message}");
            assert_eq!(refuses(false, environment), None);
        }
        assert_eq!(refuses(true, &[]), None);
        assert_eq!(refuses(true, &[("LD_PRELOAD", "libjemalloc.so"), ("FAKEROOTKEY", "")]), None);
        assert_eq!(
            refuses(true, &[("LD_PRELOAD", "libpseudo.so"), ("PSEUDO_DISABLED", "1")]),
            None
        );
    }
}
