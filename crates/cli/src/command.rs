//! The sub-commands, one file each.

pub(crate) mod build;
pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod chip;
pub(crate) mod completions;
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

use crate::args::Command;
use crate::failure::Failure;
use crate::session::Session;

/// Does what was asked.
pub(crate) fn run(command: &Command, session: &mut Session) -> Result<(), Failure> {
    match command {
        Command::Info(args) => info::run(args, session),
        Command::Ls(args) => ls::run(args, session),
        Command::Tree(args) => tree::run(args, session),
        Command::Stat(args) => stat::run(args, session),
        Command::Cat(args) => cat::run(args, session),
        Command::Extract(args) => extract::run(args, session),
        Command::Serve(args) => serve::run(args, session),
        Command::Mount(args) => mount::run(args, session),
        Command::Umount(args) => umount::run(args, session),
        Command::Mkfs(args) => mkfs::run(args, session),
        Command::Build(args) => build::run(args, session),
        Command::Chip(args) => chip::run(args, session),
        Command::Edit(args) => edit::run(args, session),
        Command::Put(args) => put::put(args, session),
        Command::Get(args) => put::get(args, session),
        Command::Check(args) => check::run(args, session),
        Command::Lab(args) => lab::run(args, session),
        Command::Personalities(args) => personalities::run(args, session),
        Command::Ubi(args) => ubi::run(args, session),
        Command::Manifest(args) => manifest::run(args, session),
        Command::Completions(args) => completions::run(args, session),
        Command::Man(args) => man::run(args, session),
    }
}
