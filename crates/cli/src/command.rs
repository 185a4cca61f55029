//! The sub-commands, one file each.

pub(crate) mod asm;
pub(crate) mod build;
pub(crate) mod card;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod chip;
pub(crate) mod completions;
pub(crate) mod debug;
pub(crate) mod diff;
pub(crate) mod disasm;
pub(crate) mod edit;
pub(crate) mod extract;
pub(crate) mod info;
pub(crate) mod lab;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod manifest;
pub(crate) mod mkfs;
pub(crate) mod mount;
pub(crate) mod personalities;
pub(crate) mod put;
pub(crate) mod serve;
pub(crate) mod stat;
pub(crate) mod tree;
pub(crate) mod ubi;
pub(crate) mod umount;
