//! A card served over NBD by our command, as a disk of a guest.

use crate::command::output;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server and its socket; the server ends with this value.
#[derive(Debug)]
pub(in crate::evaluate) struct Served {
    child: Child,
    socket: PathBuf,
}

impl Served {
    /// Makes a card in `folder` and serves it; `pace` is host time over card time.
    pub(super) fn start(
        ours: &Path,
        folder: &Path,
        name: &str,
        card: &[&str],
        pace: &str,
    ) -> Result<Self> {
        let file = folder.join(format!("{name}.card"));
        output(Command::new(ours).args(["card", "new", "-q"]).arg(&file).args(card))?;
        Self::serve(ours, &file, &["--pace", pace])
    }

    /// Serves a card file with these options.
    pub(in crate::evaluate) fn serve(ours: &Path, file: &Path, options: &[&str]) -> Result<Self> {
        let socket = file.with_extension("sock");
        let mut serve = Command::new(ours);
        serve.args(["card", "serve", "-q"]).args(options).arg("--nbd").arg(&socket).arg(file);
        let child = serve.stdin(Stdio::null()).stderr(Stdio::inherit()).spawn()?;
        let served = Self { child, socket };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !served.socket.exists() {
            if Instant::now() > deadline {
                bail!("{}: the server has no socket after 20 s", file.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(served)
    }

    /// The arguments of QEMU that make it a disk without a cache, as an SD card is: each request of
    /// the guest arrives at the card by itself.
    pub(in crate::evaluate) fn device(&self, name: &str) -> [String; 4] {
        let file = format!("nbd+unix:///?socket={}", self.socket.display());
        [
            "-drive".to_owned(),
            format!("file={file},format=raw,if=none,id={name},cache=directsync,discard=ignore"),
            "-device".to_owned(),
            format!(
                "virtio-blk-pci,drive={name},write-cache=off,config-wce=off,\
                 request-merging=off,num-queues=1"
            ),
        ]
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
