//! SquashFS: extracting compared with `unsquashfs`.

use super::{Bench, remove, text, timed};
use anyhow::{Result, ensure};
use std::process::Command;

/// Peak memory of an extraction, in MiB.
const MEMORY: f64 = 64.0;

impl Bench {
    /// Extracts images of the tree with the usual compressors.
    pub(super) fn squashfs(&mut self) -> Result<()> {
        let (image, [out, peer_out]) = (self.path("tree.squashfs"), self.outs());
        for compressor in ["gzip", "zstd", "xz"] {
            let make = ["mksquashfs".into(), text(&self.tree), text(&image)];
            let options = ["-noappend", "-quiet", "-no-progress", "-comp", compressor];
            timed(&[&make[..], &options.map(String::from)].concat())?;
            let mine = [self.binary(), "extract".into(), text(&image), text(&out)];
            let program = ["unsquashfs", "-quiet", "-no-progress", "-dest"].map(String::from);
            let theirs = [&program[..], &[text(&peer_out), text(&image)]].concat();
            let (ours, theirs) = self.compare(&mine, &theirs, &[&out, &peer_out])?;
            self.row(
                format!("extract squashfs, {compressor}, against unsquashfs"),
                ours,
                theirs,
                1.3,
            );
            self.memory_within(format!("extract squashfs peak memory, {compressor}"), ours, MEMORY);
            let mut diff = Command::new("diff");
            let status =
                diff.args(["-r", "--no-dereference"]).arg(&self.tree).arg(&out).status()?;
            ensure!(status.success(), "what was extracted differs from the tree");
            [&image, &out, &peer_out].into_iter().try_for_each(|path| remove(path))?;
        }
        Ok(())
    }
}
