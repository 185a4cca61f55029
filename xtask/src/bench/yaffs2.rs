//! YAFFS2: extracting compared with a reader in Python and with our UBIFS.

use super::{Bench, measure_tree, python_tool, remove, text, timed};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

/// Peak memory of an extraction, in MiB.
const MEMORY: f64 = 64.0;

impl Bench {
    /// Extracts an image of the tree.
    pub(super) fn yaffs2(&mut self, root: &Path) -> Result<()> {
        let (image, ubifs) = (self.path("ours.yaffs2"), self.path("ours-lzo.ubifs"));
        let make = [self.binary(), "mkfs".into(), "yaffs2".into(), text(&self.tree), "-o".into()];
        timed(&[&make[..], &[text(&image)]].concat())?;
        timed(&self.our_mkfs("lzo", &ubifs))?;
        let [out, peer_out] = self.outs();
        let mine = [self.binary(), "extract".into(), text(&image), text(&out)];
        let reader = python_tool(root, "unblob", "unblob")?;
        // Only this image, not what is in its files, and no statistics.
        let options = ["-d", "1", "-n", "0", "-e"].map(String::from);
        let log = ["--log".into(), text(&self.path("unblob.log"))];
        let from_to = [text(&peer_out), text(&image)];
        let theirs = [&[text(&reader)][..], &log, &options, &from_to].concat();
        let (ours, theirs) = self.compare(&mine, &theirs, &[&out, &peer_out])?;
        let (found, wanted) = (measure_tree(&peer_out)?.0, measure_tree(&self.tree)?.0);
        ensure!(found >= wanted, "unblob has extracted {found} files only");
        self.row("extract yaffs2 against unblob".into(), ours, theirs, 0.1);
        self.memory_within("extract yaffs2 peak memory".into(), ours, MEMORY);
        let status = Command::new("diff").arg("-r").arg(&self.tree).arg(&out).status()?;
        ensure!(status.success(), "what was extracted differs from the tree");
        let from_ubifs = [self.binary(), "extract".into(), text(&ubifs), text(&peer_out)];
        let (ours, theirs) = self.compare(&mine, &from_ubifs, &[&out, &peer_out])?;
        self.row("extract yaffs2 against our ubifs".into(), ours, theirs, 1.5);
        [&image, &out, &peer_out].into_iter().try_for_each(|path| remove(path))
    }
}
