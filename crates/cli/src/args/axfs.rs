//! Options of an AXFS image.

use super::source::SourceArgs;
use clap::Args;
use eraseblock::builder::axfs::AxfsOptions;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Options of an AXFS image.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AxfsOptionArgs {
    /// File of the image to be executed in place: stored as it is, on page boundaries
    #[arg(long, help_heading = "File system", value_name = "PATH")]
    pub xip: Vec<OsString>,
    /// File with the paths of more of them, one a line
    #[arg(long, help_heading = "File system", value_name = "FILE")]
    pub xip_list: Option<PathBuf>,
    /// Time of all files, in seconds since 1970
    #[arg(long, help_heading = "File system", value_name = "SECONDS", default_value_t = 0)]
    pub time: u64,
    #[command(flatten)]
    pub source: SourceArgs,
}

impl AxfsOptionArgs {
    /// The same for the library.
    pub(crate) fn choices(&self) -> AxfsOptions {
        AxfsOptions {
            xip: self.xip.iter().map(|path| path.clone().into_vec()).collect(),
            xip_list: self.xip_list.clone(),
            time: self.time,
            source: self.source.choices(),
        }
    }
}
