//! Names the shared library for the linker of C programs: its interface may change with the second number.

fn main() {
    let version =
        |part: &str| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
    let (major, minor) = (version("MAJOR"), version("MINOR"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liberaseblock.so.{major}.{minor}");
    println!("cargo::rerun-if-changed=build.rs");
}
