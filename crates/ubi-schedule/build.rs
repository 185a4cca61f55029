//! Chooses the locks of the schedule tests.
#![allow(clippy::print_stdout)] // that is how a build script talks

fn main() {
    println!("cargo::rustc-cfg=shuttle");
    println!("cargo::rerun-if-changed=build.rs");
}
