//! The signatures in the unmodified library, on images that real Linux and the reference of YAFFS
//! wrote, and the same images in the unmodified command.
//!
//! `ERASEBLOCK_IMAGES` names the folder of the images: `linux/NAME/image.bin` and `golden/NAME.img`,
//! each with a manifest of what its author reads in it. `ERASEBLOCK_BINWALK` names the command, whose
//! readers are found in the search path. `cargo xtask binwalk` sets all of them.

use binwalk_ng::Binwalk;
use binwalk_ng::signatures::SignatureResult;
use eraseblock::Kind;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An image, and the regular files in it.
#[derive(Debug)]
struct Sample {
    name: String,
    path: PathBuf,
    kind: Kind,
    /// A digest for each name of a file, in order.
    digests: Vec<String>,
}

impl Sample {
    fn new(path: &Path, name: &str, digests: Vec<String>) -> Self {
        let kind = eraseblock::open(path).unwrap().kind();
        Self { name: name.to_owned(), path: path.to_owned(), kind, digests }
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    fn signature(&self) -> String {
        format!("eraseblock-{}", self.kind.name().to_lowercase())
    }

    /// Where the files are in a folder that our extractor filled.
    fn tree(&self, folder: &Path) -> PathBuf {
        if self.kind == Kind::Ubi { folder.join("data") } else { folder.to_owned() }
    }
}

/// Where an image begins: erased blocks before that are no part of a JFFS2.
fn first_written(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte != 0xff).unwrap()
}

fn images() -> PathBuf {
    std::env::var_os("ERASEBLOCK_IMAGES").expect("cargo xtask binwalk sets it").into()
}

/// Images that real Linux wrote: clean and cut off.
fn of_linux() -> Vec<Sample> {
    let mut samples = Vec::new();
    for entry in fs::read_dir(images().join("linux")).unwrap() {
        let folder = entry.unwrap().path();
        let (path, manifest) = (folder.join("image.bin"), folder.join("manifest"));
        let Ok(text) = fs::read_to_string(manifest) else { continue };
        let mut digests: Vec<String> = text
            .lines()
            .filter_map(|line| line.split_once("content=sha256:"))
            .map(|(_, rest)| rest.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        digests.sort();
        samples.push(Sample::new(&path, &folder.file_name().unwrap().to_string_lossy(), digests));
    }
    assert!(samples.len() >= 8, "only {} images of Linux", samples.len());
    samples.sort_by(|one, other| one.name.cmp(&other.name));
    samples
}

/// Dumps that the reference of YAFFS wrote and that are not damaged.
fn of_yaffs() -> Vec<Sample> {
    let mut samples = Vec::new();
    for name in ["basic-checkpoint", "basic-no-summary", "links", "no-tags-ecc", "mkyaffs2image"] {
        let path = images().join(format!("golden/yaffs-{name}.img"));
        let text = fs::read_to_string(path.with_extension("manifest")).unwrap();
        let digest =
            |line: &str| line.split('|').nth(10).filter(|sum| sum.len() == 64).map(str::to_owned);
        let mut digests: Vec<String> = text.lines().filter_map(digest).collect();
        digests.sort();
        assert!(!digests.is_empty());
        samples.push(Sample::new(&path, name, digests));
    }
    samples
}

/// Bytes of a file from which on a manifest has no digest of it.
const LARGE: u64 = 1 << 30;

/// Digests of all regular files below a folder, in order.
fn digests(folder: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                open.push(path);
            } else if metadata.is_file() && metadata.len() < LARGE {
                found.push(format!("{:x}", Sha256::digest(fs::read(&path).unwrap())));
            }
        }
    }
    found.sort();
    found
}

fn places(results: &[SignatureResult]) -> Vec<(&str, usize, usize)> {
    results.iter().map(|found| (found.name.as_str(), found.offset, found.size)).collect()
}

/// Extracts with our signatures; the image lies in `file` at `offset`.
fn extract(sample: &Sample, file: &[u8], offset: usize, size: usize) {
    let binwalk = eraseblock_binwalk::builder().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let done = binwalk.analyze_buf(file, "file", Some(folder.path()));
    let ours: Vec<_> = done.file_map.iter().filter(|one| one.name == sample.signature()).collect();
    let [found] = ours[..] else { panic!("{}: {:?}", sample.name, places(&done.file_map)) };
    assert_eq!((found.offset, found.size), (offset, size), "{}", sample.name);
    let extraction = &done.extractions[&found.id];
    assert!(extraction.success, "{}", sample.name);
    let tree = sample.tree(&extraction.output_directory);
    assert_eq!(digests(&tree), sample.digests, "{}: {}", sample.name, tree.display());
}

#[test]
fn every_image_is_one_result_with_all_its_files() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for sample in of_linux().iter().chain(&of_yaffs()) {
        let bytes = sample.bytes();
        let binwalk = eraseblock_binwalk::builder().build().unwrap();
        let start = first_written(&bytes);
        let whole = [(&*sample.signature(), start, bytes.len() - start)];
        assert_eq!(places(&binwalk.scan(&bytes)), whole, "{}", sample.name);
        extract(sample, &bytes, start, bytes.len() - start);
        *kinds.entry(sample.signature()).or_default() += 1;
    }
    let names: Vec<&str> = kinds.keys().map(String::as_str).collect();
    assert_eq!(names, ["eraseblock-jffs2", "eraseblock-ubi", "eraseblock-yaffs"], "{kinds:?}");
}

/// The end of an image is that of its last block, regardless of erased blocks and of what follows.
#[test]
fn an_image_ends_where_its_last_block_does() {
    let sample = of_linux().into_iter().find(|sample| sample.kind == Kind::Ubi).unwrap();
    let bytes = sample.bytes();
    let mut file = b"header\n".repeat(700);
    let offset = file.len();
    file.extend_from_slice(&bytes);
    file.extend_from_slice(&[0; 777]);
    file.extend_from_slice(b"trailer");
    extract(&sample, &file, offset, bytes.len());
}

/// A volume of a UBIFS that Linux wrote, without the UBI around it.
#[test]
fn a_bare_file_system_is_found() {
    let sample = of_linux().into_iter().find(|sample| sample.kind == Kind::Ubi).unwrap();
    let image = eraseblock::open(&sample.path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bare.ubifs");
    let mut content = image.volume("data").unwrap().content().unwrap();
    std::io::copy(&mut content, &mut fs::File::create(&path).unwrap()).unwrap();
    let bare = Sample::new(&path, "bare", sample.digests);
    assert_eq!(bare.kind, Kind::Ubifs);
    let bytes = bare.bytes();
    extract(&bare, &bytes, 0, bytes.len());
}

/// Magic numbers without what belongs to them are no result, and are left quickly.
#[test]
fn magic_numbers_alone_are_nothing() {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    let mut file: Vec<u8> = (0..16_000_000).map(|_| u8::try_from(next() & 0xff).unwrap()).collect();
    let magics: Vec<Vec<u8>> =
        eraseblock_binwalk::signatures().into_iter().flat_map(|one| one.magic).collect();
    for planted in 0..10_000 {
        let magic = &magics[planted % magics.len()];
        let at = usize::try_from(next()).unwrap() % (file.len() - magic.len());
        file[at..at + magic.len()].copy_from_slice(magic);
    }
    let binwalk = eraseblock_binwalk::builder().build().unwrap();
    let found = binwalk.scan(&file);
    let ours: Vec<_> = found.iter().filter(|one| one.name.starts_with("eraseblock-")).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

/// Volumes whose names are no names of files stay in the folder of the extraction.
#[test]
fn volumes_of_any_name_stay_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["..", "volume-0", "a/b"];
    let mut layout = "flash.part = \"W29N01HV\"\n".to_owned();
    for (number, name) in names.iter().enumerate() {
        let tree = folder.path().join(number.to_string());
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("mark"), number.to_string()).unwrap();
        let content = format!("content = {{ ubifs = \"{number}\" }}\n");
        layout.extend(["[[volume]]\nname = \"", name, "\"\nsize = \"4MiB\"\n", &content]);
    }
    fs::write(folder.path().join("odd.toml"), layout).unwrap();
    build(folder.path(), "odd");
    let binwalk = eraseblock_binwalk::builder().build().unwrap();
    let out = folder.path().join("out/of/all");
    let done = binwalk.analyze(folder.path().join("odd.ubi"), Some(&out));
    let extraction = &done.extractions[&done.file_map[0].id];
    for number in 0..names.len() {
        let mark = extraction.output_directory.join(format!("volume-{number}/mark"));
        assert_eq!(fs::read_to_string(mark).unwrap(), number.to_string());
    }
    assert_eq!(digests(&folder.path().join("out")).len(), names.len());
}

/// Runs the unmodified command, with the readers of eraseblock in the search path, and returns the
/// folders that a reader filled.
fn by_the_command(file: &Path, folder: &Path) -> Vec<PathBuf> {
    let program = std::env::var_os("ERASEBLOCK_BINWALK").expect("cargo xtask binwalk sets it");
    let mut command = Command::new(program);
    command.args(["--extract", "--quiet", "--directory"]).arg(folder).arg(file);
    let done = command.current_dir(folder).stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "{}", file.display());
    let (mut found, mut open) = (Vec::new(), vec![(folder.to_owned(), 0)]);
    while let Some((next, depth)) = open.pop() {
        if next.file_name().is_some_and(|name| name == "ubifs-root" || name == "jffs2-root") {
            found.push(next);
        } else if depth < 5 {
            let inner = fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path());
            let inner = inner.filter(|path| path.is_dir() && !path.is_symlink());
            open.extend(inner.map(|path| (path, depth + 1)));
        }
    }
    found
}

/// Whether the command finds all files of an image. Of a UBI it takes the volumes, and then the files
/// of each, as with `--matryoshka`, which would look into every file as well.
fn is_whole_by_the_command(sample: &Sample) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let mut filled = by_the_command(&sample.path, folder.path());
    if sample.kind == Kind::Ubi {
        let volumes = filled.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        let volumes = volumes.flat_map(|entry| fs::read_dir(entry.unwrap().path()).unwrap());
        let volumes: Vec<PathBuf> = volumes.map(|entry| entry.unwrap().path()).collect();
        let again = |(number, volume): (usize, &PathBuf)| {
            let inner = folder.path().join(number.to_string());
            fs::create_dir(&inner).unwrap();
            by_the_command(volume, &inner)
        };
        filled = volumes.iter().enumerate().flat_map(again).collect();
    }
    filled.iter().any(|folder| digests(folder) == sample.digests)
}

/// The command without this crate: it finds the end of a UBI by counting headers, so that free blocks make it too short. If
/// a reader finds nothing in such a piece, it gets the rest of the file as well, and finds all files. If it finds
/// something, that is all.
#[test]
fn the_command_alone_gives_less() {
    let folder = tempfile::tempdir().unwrap();
    let dense = without_free_blocks(folder.path());
    let bytes = dense.bytes();
    let plain = Binwalk::new();
    let is_whole = |bytes: &[u8]| {
        plain.scan(bytes).iter().any(|found| (found.offset, found.size) == (0, bytes.len()))
    };
    assert!(is_whole(&bytes));
    assert!(is_whole_by_the_command(&dense));
    for sample in of_linux() {
        assert!(sample.kind != Kind::Ubi || !is_whole(&sample.bytes()), "{}", sample.name);
        assert!(is_whole_by_the_command(&sample), "{}", sample.name);
    }
    // The volume table is in the first piece, some blocks of the file system are not.
    let (start, end) = bytes.split_at(5 * PEB);
    let path = folder.path().join("sparse.ubi");
    fs::write(&path, [start, &[0xff; 40 * PEB], end].concat()).unwrap();
    let sparse = Sample::new(&path, "sparse", dense.digests);
    assert!(!is_whole_by_the_command(&sparse));
    extract(&sparse, &sparse.bytes(), 0, bytes.len() + 40 * PEB);
}

/// The size of a block of the image without free blocks.
const PEB: usize = 128 << 10;

/// The name of the image without free blocks.
const DENSE: &str = "dense";

/// Makes a UBI in which every block is used, as an image that will be flashed.
fn without_free_blocks(folder: &Path) -> Sample {
    let tree = folder.join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..20_u8 {
        fs::write(tree.join(number.to_string()), [number; 30_000]).unwrap();
    }
    let layout = "flash.part = \"W29N01HV\"\n[[volume]]\nname = \"data\"\nsize = \"4MiB\"\n\
                  content = { ubifs = \"tree\" }\n";
    fs::write(folder.join("dense.toml"), layout).unwrap();
    build(folder, DENSE);
    Sample::new(&folder.join("dense.ubi"), DENSE, digests(&tree))
}

/// Builds `NAME.ubi` of `NAME.toml`.
fn build(folder: &Path, name: &str) {
    let program = std::env::var_os("ERASEBLOCK_PROGRAM").expect("cargo xtask binwalk sets it");
    let mut build = Command::new(program);
    build.arg("build").arg(format!("{name}.toml")).arg("-o").arg(format!("{name}.ubi")).arg("-q");
    assert!(build.current_dir(folder).status().unwrap().success());
}
