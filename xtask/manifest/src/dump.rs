//! Copies the device of a mounted file system: the state that a power cut would leave.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Number of reads before giving up on an idle moment.
const TRIES: usize = 100;
/// Pause between two reads, so that background work can finish.
const PAUSE: Duration = Duration::from_millis(200);

/// Copies the device into a file. Reads it until two consecutive passes agree, so that nothing was
/// written in between and the copy is a state that existed.
pub(crate) fn dump(device: &Path, out: &Path) -> io::Result<()> {
    let mut last = fs::read(device)?;
    for _ in 0..TRIES {
        let again = fs::read(device)?;
        if again == last {
            return fs::write(out, last);
        }
        last = again;
        std::thread::sleep(PAUSE);
    }
    Err(io::Error::other(format!("{} never rests", device.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_device_is_copied() {
        let dir = std::env::temp_dir().join(format!("oracle-dump-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("device"), [7; 5000]).unwrap();
        dump(&dir.join("device"), &dir.join("out")).unwrap();
        assert_eq!(fs::read(dir.join("out")).unwrap(), [7; 5000]);
        fs::remove_dir_all(dir).unwrap();
    }
}
