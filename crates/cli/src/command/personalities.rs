//! `eraseblock personalities`: symbolic links that make this program answer to the names of others.

use crate::failure::{Context, Failure};
use crate::personality::name::Personality;
use crate::session::Session;
use serde::Serialize;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Arguments of `personalities`.
#[derive(Debug, clap::Args)]
pub(crate) struct PersonalitiesArgs {
    /// Where the links go; made if it does not exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Link the readers `ubireader_extract_images`, `ubireader_extract_files` and `jefferson` instead
    /// of the classic tools
    #[arg(long)]
    readers: bool,
}

/// The links, as JSON.
#[derive(Debug, Serialize)]
struct Links {
    links: Vec<String>,
}

/// Makes the links; what is there already and is none of ours is left alone.
pub(crate) fn run(args: &PersonalitiesArgs, session: &mut Session) -> Result<(), Failure> {
    let (program, _) = crate::start()?;
    let wanted = if args.readers { &Personality::READERS[..] } else { &Personality::CLASSIC[..] };
    let links: Vec<PathBuf> = wanted.iter().map(|one| args.dir.join(one.name())).collect();
    // Looked at before the first one is made: a refusal changes nothing.
    for link in &links {
        refuse_foreign(link, &program)?;
    }
    fs::create_dir_all(&args.dir).context(args.dir.display())?;
    for link in links.iter().filter(|link| !link.is_symlink()) {
        symlink(&program, link).context(link.display())?;
    }
    let links = links.iter().map(|link| link.display().to_string()).collect();
    if session.options.json {
        return session.json(&Links { links });
    }
    session.lines(links)
}

/// Refuses to replace anything but a link to this program.
fn refuse_foreign(link: &Path, program: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(link) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::from(error).context(link.display())),
        Ok(_) if fs::read_link(link).is_ok_and(|target| target == program) => Ok(()),
        Ok(_) => Err(Failure::new(format!("{}: exists and is no link to us", link.display()))
            .hint("another --dir, or remove it first")),
    }
}
