//! The `eraseblock` command.

fn main() {}
