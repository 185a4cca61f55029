//! Names of files and folders for the volumes of an image, whose own names are any bytes.

use eraseblock_base::VolumeId;
use eraseblock_ubi::VolumeInfo;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// What the name of a file with the content of a volume ends with.
const IMAGE: &[u8] = b".img";

/// Returns the name of the file or folder of volume `id`, one of `volumes`.
///
/// It is the volume's own name where that can be the name of a file, and `volume-NUMBER` elsewhere.
/// The names of two volumes are never equal, and neither is the name of one followed by `.img`
/// equal to that of another one.
pub fn file_name(volumes: &[VolumeInfo], id: VolumeId) -> OsString {
    let others = volumes.iter().filter(|info| info.id != id);
    let others: Vec<&[u8]> = others.map(|info| info.name.as_bytes()).collect();
    match volumes.iter().find(|info| info.id == id) {
        Some(info) if is_usable(info.name.as_bytes(), id, &others) => {
            OsStr::from_bytes(info.name.as_bytes()).to_owned()
        }
        _ => numbered(id).into(),
    }
}

fn numbered(id: VolumeId) -> String {
    format!("volume-{id}")
}

fn is_usable(name: &[u8], id: VolumeId, others: &[&[u8]]) -> bool {
    let is_plain = !matches!(name, b"" | b"." | b"..")
        && name.iter().all(|byte| *byte > b' ' && !matches!(*byte, b'/' | 0x7f));
    let stem = name.strip_suffix(IMAGE);
    let is_taken = others.iter().any(|other| *other == name || Some(*other) == stem);
    is_plain && !is_taken && (name == numbered(id).as_bytes() || !may_be_numbered(name))
}

/// Whether a volume that cannot have its own name may get this one, perhaps followed by `.img`.
fn may_be_numbered(name: &[u8]) -> bool {
    let stem = name.strip_suffix(IMAGE).unwrap_or(name);
    let digits = stem.strip_prefix(b"volume-".as_slice());
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_ubi_format::{VolumeFlags, VolumeKind, VolumeName};
    use std::collections::BTreeSet;

    fn volumes(names: &[&[u8]]) -> Vec<VolumeInfo> {
        let volume = |(id, name): (u32, &&[u8])| VolumeInfo {
            id: VolumeId::new(id),
            name: VolumeName::new(*name).unwrap(),
            kind: VolumeKind::Dynamic,
            reserved_lebs: 1,
            alignment: 1,
            data_pad: 0,
            usable_leb_size: 1,
            upd_marker: false,
            flags: VolumeFlags::default(),
            used_lebs: 1,
            last_leb_bytes: 1,
            used_bytes: 1,
            mapped_lebs: 0,
            highest_leb: None,
            corrupted: false,
            synthesised: false,
        };
        (0..).zip(names).map(volume).collect()
    }

    fn named(names: &[&[u8]]) -> Vec<OsString> {
        let volumes = volumes(names);
        volumes.iter().map(|info| file_name(&volumes, info.id)).collect()
    }

    #[test]
    fn volumes_have_their_own_names_where_those_are_names_of_files() {
        assert_eq!(named(&[b"rootfs", b"env.img", b"b\xff"]).len(), 3);
        assert_eq!(named(&[b"rootfs", b"env.img", b"volume-2"])[1..], ["env.img", "volume-2"]);
        for name in [&b".."[..], b".", b"a/b", b"../x", b"a b", b"x\x1b", b"x\n"] {
            assert_eq!(named(&[b"rootfs", name]), ["rootfs", "volume-1"]);
        }
    }

    /// A volume `volume-1` and one whose name cannot be used, with number 1, had one folder; so had
    /// a volume `env.img` and the content of a volume `env`.
    #[test]
    fn a_name_that_another_volume_gets_is_not_used() {
        assert_eq!(named(&[b"volume-1", b".."]), ["volume-0", "volume-1"]);
        assert_eq!(named(&[b"volume-1.img", b".."]), ["volume-0", "volume-1"]);
        assert_eq!(named(&[b"env.img", b"env"]), ["volume-0", "env"]);
        assert_eq!(named(&[b"env", b"env"]), ["volume-0", "volume-1"]);
    }

    #[test]
    fn no_two_volumes_share_a_file_or_folder() {
        let stems: [&[u8]; 5] = [b"volume-0", b"volume-1", b"a", b"..", b"a/b"];
        let names: Vec<Vec<u8>> = stems
            .iter()
            .flat_map(|stem| [b"".as_slice(), b".img", b".img.img"].map(|end| [stem, end].concat()))
            .collect();
        for first in &names {
            for second in &names {
                for third in &names {
                    let found = named(&[first, second, third]);
                    let images =
                        found.iter().map(|name| [name, OsStr::new(".img")].join(OsStr::new("")));
                    let places: BTreeSet<_> = images.chain(found.iter().cloned()).collect();
                    assert_eq!(places.len(), 6, "{found:?}");
                }
            }
        }
    }
}
