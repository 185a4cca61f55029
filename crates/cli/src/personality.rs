//! The classic tools' command lines, reached by a symbolic link of their name or as
//! `eraseblock NAME ...`. They take the same arguments, write the same files and end with the same
//! exit codes as the tools of that name, so that existing scripts work unchanged.

mod fsck;
mod fsck_jffs2;
mod fsck_ubifs;
mod jefferson;
mod mkfs_jffs2;
mod mkfs_ubifs;
pub(crate) mod name;
mod reader;
mod sumtool;
mod ubinize;
mod ubireader;

use self::name::Personality;
use crate::failure::{Exit, Failure};
use crate::session::{GlobalOptions, Session, say};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::path::Path;

/// The classic tool the arguments ask for, by the name of the program or by the first argument,
/// which is then taken out.
pub(crate) fn of(arguments: &mut Vec<OsString>) -> Option<Personality> {
    let program = arguments.first().and_then(|path| Path::new(path).file_name());
    if let Some(personality) = program.and_then(Personality::by_name) {
        return Some(personality);
    }
    let personality = arguments.get(1).and_then(|name| Personality::by_name(name))?;
    arguments.remove(0);
    Some(personality)
}

/// The command lines of the classic tools and of the readers.
pub(crate) fn commands() -> Vec<clap::Command> {
    let commands = [
        mkfs_ubifs::MkfsUbifsArgs::command(),
        ubinize::UbinizeArgs::command(),
        mkfs_jffs2::MkfsJffs2Args::command(),
        sumtool::SumtoolArgs::command(),
        fsck_ubifs::FsckUbifsArgs::command(),
        fsck_jffs2::FsckJffs2Args::command(),
        jefferson::Args::command(),
        ubireader::FilesArgs::command(),
        ubireader::ImagesArgs::command(),
    ];
    commands.into_iter().map(crate::help::classic).collect()
}

/// Runs a classic tool and returns its exit code.
pub(crate) fn run(personality: Personality, arguments: &[OsString]) -> u8 {
    match personality {
        Personality::MkfsJffs2 => {
            parse_and_run(personality, &mkfs_jffs2::spell_out_pad(arguments), mkfs_jffs2::run)
        }
        Personality::Sumtool => parse_and_run(personality, arguments, sumtool::run),
        Personality::MkfsUbifs => parse_and_run(personality, arguments, mkfs_ubifs::run),
        Personality::Ubinize => parse_and_run(personality, arguments, ubinize::run),
        Personality::FsckJffs2 => parse_and_run(personality, arguments, fsck_jffs2::run),
        Personality::FsckUbifs => parse_and_run(personality, arguments, fsck_ubifs::run),
        Personality::Jefferson => parse_and_run(personality, arguments, jefferson::run),
        Personality::UbireaderFiles => parse_and_run(personality, arguments, ubireader::files),
        Personality::UbireaderImages => parse_and_run(personality, arguments, ubireader::images),
    }
}

fn parse_and_run<A: Parser>(
    personality: Personality,
    arguments: &[OsString],
    run: fn(&A, &mut Session) -> Result<(), Failure>,
) -> u8 {
    let matches = crate::help::classic(A::command()).try_get_matches_from(arguments);
    let args = match matches.and_then(|mut matches| A::from_arg_matches_mut(&mut matches)) {
        Ok(args) => args,
        Err(error) => {
            let is_answer =
                matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // A closed standard error is no error.
            let _ = error.print();
            return if is_answer { 0 } else { personality.usage_failure() };
        }
    };
    let mut session = Session::new(GlobalOptions::default());
    match run(&args, &mut session) {
        // What `-v` prints may not reach a full disk.
        Ok(()) => {
            let code = session.exit_of_personality();
            match session.finish(Ok(())) {
                Exit::Failed => personality.failure(),
                _ => code,
            }
        }
        Err(failure) if failure.is_broken_pipe() => 0,
        Err(failure) => {
            session.tell_findings();
            say(&format!("{}: error!: {}", personality.name(), failure.message()));
            if let Some(hint) = failure.next_step() {
                say(&format!("hint: {hint}"));
            }
            personality.failure()
        }
    }
}

/// Refuses an output that is a UBI device: the image goes into a file.
fn refuse_device(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::FileTypeExt;
    let is_device = path.metadata().is_ok_and(|meta| {
        let kind = meta.file_type();
        kind.is_char_device() || kind.is_block_device()
    });
    if !is_device || path == Path::new("/dev/null") || path == Path::new("/dev/stdout") {
        return Ok(());
    }
    Err(Failure::new(format!("{}: writing to a device node is not supported", path.display()))
        .hint("write to a file, then `ubiupdatevol` puts it into the volume"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_name_of_the_program_decides() {
        let mut by_link = arguments(&["/usr/sbin/mkfs.ubifs", "-r", "x"]);
        assert_eq!(of(&mut by_link), Some(Personality::MkfsUbifs));
        assert_eq!(by_link.len(), 3);
        let mut by_word = arguments(&["eraseblock", "ubinize", "-o", "x"]);
        assert_eq!(of(&mut by_word), Some(Personality::Ubinize));
        assert_eq!(by_word, arguments(&["ubinize", "-o", "x"]));
        assert_eq!(of(&mut arguments(&["eraseblock", "info", "ubinize"])), None);
        assert_eq!(of(&mut Vec::new()), None);
    }

    #[test]
    fn device_nodes_are_refused() {
        assert!(refuse_device(Path::new("/dev/null")).is_ok());
        assert!(refuse_device(Path::new("/dev/zero")).is_err());
        assert!(refuse_device(Path::new("/nonexistent")).is_ok());
    }
}
