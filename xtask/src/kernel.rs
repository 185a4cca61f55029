//! The kernel of the oracle: Debian's own, fetched as a package and unpacked without installation,
//! with a small initial file system made of programs of the host.

use crate::command::{find_program, output, repository, run};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

const INIT: &str = include_str!("../guest/init.sh");

/// Modules that the guest's kernel can load; their dependencies are included.
const MODULES: [&str; 23] = [
    "nandsim",
    "mtdram",
    "block2mtd",
    "mtdblock",
    "loop",
    "fuse",
    "ubi",
    "ubifs",
    "jffs2",
    "9p",
    "9pnet_virtio",
    "virtio_pci",
    "virtio_blk",
    "lzo",
    "deflate",
    "zstd",
    "zlib_deflate",
    "crc16",
    "crc32c_generic",
    "sha256_generic",
    "hmac",
    "squashfs",
    "xxhash_generic",
];

/// Programs of the host that the guest uses, with the shared libraries they need.
const TOOLS: [&str; 21] = [
    "modprobe",
    "ubiformat",
    "ubiattach",
    "ubidetach",
    "ubimkvol",
    "ubirmvol",
    "ubirsvol",
    "ubirename",
    "ubiupdatevol",
    "ubinfo",
    "mtdinfo",
    "mtd_debug",
    "nandwrite",
    "nanddump",
    "flash_erase",
    "nandtest",
    "mkfs.ubifs",
    "ubinize",
    "mkfs.jffs2",
    "getfattr",
    "setfattr",
];

/// Programs the host itself needs, and the packages they are in.
const HOST_PROGRAMS: [(&str, &str); 8] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("ubinize", "mtd-utils"),
    ("busybox", "busybox-static"),
    ("getfattr", "attr"),
    ("modprobe", "kmod"),
    ("cpio", "cpio"),
    ("dpkg-deb", "dpkg"),
    ("apt-get", "apt"),
];

/// A kernel ready to boot.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The compressed kernel.
    pub(crate) image: PathBuf,
    /// The initial file system.
    pub(crate) initrd: PathBuf,
    /// The output of `uname -r`.
    pub(crate) release: String,
    /// A description of its programs and modules.
    pub(crate) description: String,
    /// The unpacked package.
    tree: PathBuf,
}

/// Returns the directory for the files of the oracle: `target/oracle`, or a subdirectory of
/// `ERASEBLOCK_CACHE`.
pub(crate) fn cache_dir() -> PathBuf {
    match std::env::var_os("ERASEBLOCK_CACHE") {
        Some(dir) => PathBuf::from(dir).join("oracle"),
        None => repository().join("target/oracle"),
    }
}

/// Returns the Debian packages that must be installed before the oracle can run.
pub(crate) fn missing_packages() -> Vec<&'static str> {
    let missing = HOST_PROGRAMS.iter().filter(|row| find_program(row.0).is_none());
    missing.map(|row| row.1).collect()
}

impl Kernel {
    /// Fetches, unpacks and builds everything that is missing. `programs` are those that jobs may
    /// run: the guest gets the libraries they are linked to.
    pub(crate) fn prepare(programs: &[&Path]) -> Result<Self> {
        let missing = missing_packages();
        if !missing.is_empty() {
            bail!(
                "these Debian packages are not installed: {} (hint: make setup)",
                missing.join(" ")
            );
        }
        let cache = cache_dir();
        fs::create_dir_all(&cache)?;
        let (tree, release) = unpacked(&cache)?;
        let initrd = cache.join("initrd.gz");
        let stamp_file = cache.join("initrd.stamp");
        let mut libraries = BTreeSet::new();
        for program in programs {
            libraries.extend(libraries_of(program)?);
        }
        let stamp = stamp(&release, &libraries)?;
        if !initrd.exists() || fs::read_to_string(&stamp_file).ok().as_ref() != Some(&stamp) {
            build_initrd(&cache, &tree, &release, libraries, &initrd)
                .context("cannot build the initrd")?;
            fs::write(&stamp_file, &stamp)?;
        }
        let image = tree.join("boot").join(format!("vmlinuz-{release}"));
        // Libraries of further programs change nothing for a job that does not run them.
        let description = self::stamp(&release, &BTreeSet::new())?;
        Ok(Self { image, initrd, release, description, tree })
    }

    /// Returns the files of modules and of those that they need, in the order of loading.
    pub(crate) fn modules(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        let base = modules_base(&self.tree);
        let base_text = base.to_str().context("the cache directory is not UTF-8")?;
        // Slow; the tree of a package does not change once it has an index.
        if !base.join("lib/modules").join(&self.release).join("modules.dep.bin").exists() {
            run("depmod", ["-b", base_text, &self.release])?;
        }
        let mut files = Vec::new();
        for name in names {
            for file in files_of_module(base_text, &self.release, name)? {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }
}

/// Fetches a Debian package and unpacks it into a folder of the cache without installing it; returns
/// the folder.
pub(crate) fn unpacked_package(package: &str) -> Result<PathBuf> {
    let tree = cache_dir().join(package);
    if tree.exists() {
        return Ok(tree);
    }
    let partial = cache_dir().join(format!("{package}.partial"));
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial)?;
    fetch(package, &partial)?;
    fs::rename(partial, &tree)?;
    Ok(tree)
}

/// Fetches a Debian package and unpacks it into an existing folder.
fn fetch(package: &str, into: &Path) -> Result<()> {
    output(Command::new("apt-get").args(["download", package]).current_dir(into))
        .with_context(|| format!("cannot fetch {package} (hint: apt-get update)"))?;
    let deb = fs::read_dir(into)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(into))?;
    Ok(fs::remove_file(deb)?)
}

/// Returns the unpacked kernel package and its release; an existing older one is kept.
fn unpacked(cache: &Path) -> Result<(PathBuf, String)> {
    let tree = cache.join("kernel");
    if let Some(release) = release_of(&tree) {
        return Ok((tree, release));
    }
    let depends = run("apt-cache", ["depends", "--important", "linux-image-amd64"])?;
    let package = depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .context("apt-cache knows no linux-image-amd64 (hint: apt-get update)")?;
    let partial = cache.join("kernel.partial");
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial)?;
    fetch(package, &partial)?;
    fs::rename(&partial, &tree)?;
    let release = release_of(&tree).context("the kernel package has no boot/vmlinuz-*")?;
    Ok((tree, release))
}

fn release_of(tree: &Path) -> Option<String> {
    fs::read_dir(tree.join("boot")).ok()?.find_map(|entry| {
        Some(entry.ok()?.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned())
    })
}

/// Returns a description of everything in the initrd.
fn stamp(release: &str, libraries: &BTreeSet<PathBuf>) -> Result<String> {
    let mut stamp = format!("{release}\n{INIT}\n{MODULES:?}\n{libraries:?}\n");
    for tool in TOOLS.iter().chain(&["busybox"]) {
        if let Some(path) = find_program(tool) {
            let meta = fs::metadata(&path)?;
            let modified = meta.modified()?.duration_since(UNIX_EPOCH)?.as_secs();
            writeln!(stamp, "{} {} {modified}", path.display(), meta.len())?;
        }
    }
    Ok(stamp)
}

fn build_initrd(
    cache: &Path,
    tree: &Path,
    release: &str,
    libraries: BTreeSet<PathBuf>,
    initrd: &Path,
) -> Result<()> {
    let root = cache.join("initrd.partial");
    let _ = fs::remove_dir_all(&root);
    for dir in ["bin", "tools", "sbin", "etc"] {
        fs::create_dir_all(root.join(dir))?;
    }
    let init = root.join("init");
    fs::write(&init, INIT)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))?;
    fs::copy(find_program("busybox").context("no busybox")?, root.join("bin/busybox"))?;
    copy_tools(&root, libraries)?;
    copy_modules(tree, release, &root)?;
    let pack = "cd \"$1\" && find . | LC_ALL=C sort | cpio --quiet -o -H newc | gzip -1 >\"$2\"";
    output(Command::new("sh").args(["-c", pack, "pack"]).arg(&root).arg(initrd))?;
    Ok(fs::remove_dir_all(root)?)
}

/// Copies the tools, and the libraries that they and `libraries` name.
fn copy_tools(root: &Path, mut libraries: BTreeSet<PathBuf>) -> Result<()> {
    for tool in TOOLS {
        let path = find_program(tool).with_context(|| format!("{tool} is not installed"))?;
        // A symbolic link (modprobe -> kmod) is copied as its target.
        fs::copy(&path, root.join("tools").join(tool))?;
        libraries.extend(libraries_of(&path)?);
    }
    for library in libraries {
        let place = root.join(library.strip_prefix("/")?);
        fs::create_dir_all(place.parent().context("a library lies in a directory")?)?;
        fs::copy(&library, place)?;
    }
    Ok(())
}

/// Returns the shared libraries a program is linked to.
pub(crate) fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    let listed = run("ldd", [program])?;
    let words = listed.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(PathBuf::from).collect())
}

/// Returns the folder that has `lib/modules`.
fn modules_base(tree: &Path) -> PathBuf {
    if tree.join("lib/modules").is_dir() { tree.to_path_buf() } else { tree.join("usr") }
}

/// Returns the files of a module and of those that it needs, in the order of loading.
fn files_of_module(base: &str, release: &str, module: &str) -> Result<Vec<PathBuf>> {
    let shown = run("modprobe", ["-d", base, "-S", release, "--show-depends", module])
        .with_context(|| format!("the kernel has no module {module}"))?;
    let files = shown.lines().filter_map(|line| line.strip_prefix("insmod "));
    Ok(files.filter_map(|line| line.split_whitespace().next()).map(PathBuf::from).collect())
}

fn copy_modules(tree: &Path, release: &str, root: &Path) -> Result<()> {
    let base = modules_base(tree);
    let modules = Path::new("lib/modules").join(release);
    let base_text = base.to_str().context("the cache directory is not UTF-8")?;
    run("depmod", ["-b", base_text, release])?;
    let mut wanted = BTreeSet::new();
    for module in MODULES {
        wanted.extend(files_of_module(base_text, release, module)?);
    }
    for file in wanted {
        let place = root.join(file.strip_prefix(&base)?);
        fs::create_dir_all(place.parent().context("a module lies in a directory")?)?;
        fs::copy(&file, place)?;
    }
    for list in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        fs::copy(base.join(&modules).join(list), root.join(&modules).join(list))?;
    }
    run("depmod", ["-b", root.to_str().context("the cache directory is not UTF-8")?, release])?;
    Ok(())
}
