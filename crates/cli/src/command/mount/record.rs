//! `mount --record`: what applications do, in a file.

use crate::failure::{Context, Failure};
use crate::held::Held;
use crate::session::Session;
use eraseblock::raw::fuse::{Served, requester};
use eraseblock::raw::recording::{Clock, Recorder};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A recording that a mount writes.
#[derive(Debug)]
pub(super) struct Recording {
    path: PathBuf,
    recorder: Arc<Recorder<BufWriter<File>>>,
}

impl Recording {
    /// Makes the file, and serves the only volume through the recorder.
    pub(super) fn start(path: &Path, held: &mut Held) -> Result<Self, Failure> {
        let [volume] = &mut held.volumes[..] else {
            return Err(Failure::usage("one volume at a time can be recorded"));
        };
        let Served::ReadWrite(fs) = &volume.served else {
            return Err(Failure::usage("a mount that changes nothing has nothing to record"));
        };
        let file = File::options().write(true).create_new(true).open(path);
        let out = BufWriter::new(file.context(path.display())?);
        let start = Instant::now();
        let clock =
            Clock::new(move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
                .with_threads(|| requester().into());
        let recorder = Recorder::new(Arc::clone(fs), out, clock).context(path.display())?;
        let recorder = Arc::new(recorder);
        volume.served = Served::ReadWrite(Arc::clone(&recorder) as _);
        Ok(Self { path: path.to_owned(), recorder })
    }

    /// Completes the file. Fails if a part of it could not be written.
    pub(super) fn end(self, session: &Session) -> Result<(), Failure> {
        let path = self.path.display();
        let steps = self.recorder.finish().context(format_args!("{path}: incomplete"))?;
        session.remark(&format!("{path}: {steps} steps"));
        Ok(())
    }
}
