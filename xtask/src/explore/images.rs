//! Images for the browser, made by the command.

use crate::command::output;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Markup, scripts, letters that turn text around, escapes of terminals, and long names.
const NAMES: [&str; 10] = [
    "<script>window.pwned=1<",
    "<img src=x onerror=window.pwned=1>",
    "\"onmouseover=window.pwned=1 x=\"",
    "'-alert(1)-'",
    "javascript:window.pwned=1",
    "\u{202e}gpj.exe\u{2066}",
    "\u{1b}[31mred\u{1b}]0;title\u{7}",
    "line\nbreak",
    "${window.pwned=1}{{pwned=1}}",
    "<b>bold<svg onload=window.pwned=1>",
];

/// A page that would load something from elsewhere.
const PAGE: &str = "<!doctype html><script>window.pwned=1</script><img src=http://evil.example/x.png>\
                    <iframe src=//evil.example></iframe>";
/// A picture that is a program.
const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>window.pwned=1</script></svg>";
/// A picture of one pixel.
const PNG: [u8; 68] = [
    0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52, 0, 0, 0,
    1, 0, 0, 0, 1, 8, 4, 0, 0, 0, 0xB5, 0x1C, 0x0C, 2, 0, 0, 0, 0x0B, 0x49, 0x44, 0x41, 0x54, 0x78,
    0xDA, 0x63, 0x64, 0x60, 0, 0, 0, 6, 0, 2, 0x30, 0x81, 0xD0, 0x2F, 0, 0, 0, 0, 0x49, 0x45, 0x4E,
    0x44, 0xAE, 0x42, 0x60, 0x82,
];
/// Blocks of the image for the figures, and their size.
const BLOCKS: u64 = 65_536;
const BLOCK: u64 = 16 << 10;
/// Times that the image with a past is changed.
const ROUNDS: u32 = 8;
/// Bits that are flipped in the dump.
const FLIPS: u64 = 24;
/// A codeword of the recipe, and a page with its spare bytes.
const PAGE_BYTES: u64 = 2112;

/// The images.
pub(super) struct Images {
    /// A UBIFS with a past.
    pub(super) past: PathBuf,
    /// Names and contents that are markup.
    pub(super) hostile: PathBuf,
    /// A UBI image with a damaged UBIFS.
    pub(super) damaged: PathBuf,
    /// A raw dump with bit errors.
    pub(super) dump: PathBuf,
    /// How many.
    pub(super) flips: u64,
    /// A UBI image to look at.
    pub(super) shown: PathBuf,
    folder: PathBuf,
}

impl Images {
    /// Makes all images in a folder.
    pub(super) fn make(bin: &Path, folder: &Path) -> Result<Self> {
        let make = Maker { bin, folder };
        Ok(Self {
            past: make.past()?,
            hostile: make.hostile()?,
            damaged: make.damaged()?,
            dump: make.dump()?,
            flips: FLIPS,
            shown: make.shown()?,
            folder: folder.to_owned(),
        })
    }

    /// Makes a UBI image of 1 GiB in 65,536 eraseblocks.
    pub(super) fn many_blocks(&self, bin: &Path) -> Result<PathBuf> {
        let make = Maker { bin, folder: &self.folder };
        let path = self.folder.join("many.ubi");
        make.build(
            "many",
            &format!("[flash]\npeb = {BLOCK}\npage = 512\nblocks = {BLOCKS}\n"),
            "rootfs",
        )?;
        // Erased blocks up to the end of the flash.
        let have = path.metadata()?.len();
        let mut file = fs::OpenOptions::new().append(true).open(&path)?;
        let erased = vec![0xFF; 1 << 20];
        let mut left = BLOCKS * BLOCK - have;
        while left > 0 {
            let part = left.min(erased.len() as u64);
            std::io::Write::write_all(&mut file, &erased[..usize::try_from(part)?])?;
            left -= part;
        }
        Ok(path)
    }
}

struct Maker<'a> {
    bin: &'a Path,
    folder: &'a Path,
}

impl Maker<'_> {
    fn run(&self, args: &[&str]) -> Result<()> {
        let mut command = Command::new(self.bin);
        output(command.args(args).current_dir(self.folder)).map(drop)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().context("no folder")?)?;
        Ok(fs::write(path, bytes)?)
    }

    fn past(&self) -> Result<PathBuf> {
        self.file("tree/etc/motd", "welcome\n")?;
        self.file("tree/etc/key", "key-1\n")?;
        self.file("tree/bin/tool", "echo hello\n".repeat(2000))?;
        self.file("two", "second\n")?;
        self.file("three", "third\n")?;
        let sizes = ["--leb", "15872", "--min-io", "512", "--max-lebs", "60"];
        self.run(&[&["mkfs", "ubifs", "tree", "-q", "-o", "past.ubifs"][..], &sizes].concat())?;
        for round in 0..ROUNDS {
            let (name, make) = (format!("/log-{round}"), format!("put two /log-{round}"));
            let remove = format!("rm {name}");
            let last = if round % 3 == 1 { remove.as_str() } else { "put two /etc/motd" };
            self.run(&["edit", "past.ubifs", "-c", &make, "-c", "sync", "-c", last, "-c", "sync"])?;
        }
        let last =
            ["edit", "past.ubifs", "-c", "rm /etc/key", "-c", "put three /etc/motd", "-c", "sync"];
        self.run(&last)?;
        Ok(self.folder.join("past.ubifs"))
    }

    fn hostile(&self) -> Result<PathBuf> {
        for (number, name) in NAMES.iter().enumerate() {
            self.file(&format!("hostile/{name}"), PAGE)?;
            self.file(
                &format!("hostile/folder {number} {name}/{name}"),
                format!("{name}\n{PAGE}"),
            )?;
            symlink(name, self.folder.join(format!("hostile/link-{number}")))?;
        }
        self.file(&format!("hostile/{}", "\u{1F600}".repeat(63)), "long")?;
        self.file("hostile/page.html", PAGE)?;
        self.file("hostile/picture.svg", SVG)?;
        self.file("hostile/picture.png", PNG)?;
        let mut wide = PNG;
        wide[16..24].copy_from_slice(&[0x7F, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF]);
        self.file("hostile/wide.png", wide)?;
        let sizes = ["--leb", "126976", "--min-io", "2048", "--max-lebs", "100"];
        self.run(
            &[&["mkfs", "ubifs", "hostile", "-q", "-o", "hostile.ubifs"][..], &sizes].concat(),
        )?;
        Ok(self.folder.join("hostile.ubifs"))
    }

    /// Builds a UBI image with one volume.
    fn build(&self, name: &str, flash: &str, tree: &str) -> Result<PathBuf> {
        self.file(&format!("{tree}/etc/motd"), "hello flash\n")?;
        self.file(&format!("{tree}/bin/true"), "echo line\n".repeat(4000))?;
        let numbers: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
        self.file(&format!("{tree}/var/log/numbers"), numbers.join("\n"))?;
        self.file(&format!("{tree}/var/lib/picture.png"), PNG)?;
        self.file(
            &format!("{tree}/usr/share/words"),
            "some words of a list, again and again\n".repeat(9000),
        )?;
        let layout = format!(
            "{flash}\n[[volume]]\nname = \"env\"\ntype = \"static\"\ncontent = {{ file = \"uboot.env\" }}\n\n\
             [[volume]]\nname = \"rootfs\"\nsize = \"4MiB\"\ncontent = {{ ubifs = \"{tree}\", compressor = \"zstd\" }}\n"
        );
        self.file("uboot.env", "bootdelay=3\nbootcmd=run nand\n")?;
        self.file(&format!("{name}.toml"), layout)?;
        self.run(&["build", &format!("{name}.toml"), "-q", "-o", &format!("{name}.ubi")])?;
        Ok(self.folder.join(format!("{name}.ubi")))
    }

    fn damaged(&self) -> Result<PathBuf> {
        let image = self.build("damaged", "[flash]\npart = \"W29N01HV\"\n", "rootfs")?;
        let mut bytes = fs::read(&image)?;
        // Every data node of one file loses a byte of its content.
        let magic = [0x31, 0x18, 0x10, 0x06];
        let nodes: Vec<usize> = (0..bytes.len() - 64)
            .step_by(8)
            .filter(|at| bytes[*at..*at + 4] == magic && bytes[*at + 20] == 1)
            .collect();
        for at in nodes.iter().step_by(7).take(3) {
            bytes[at + 60] ^= 0x55;
        }
        fs::write(&image, bytes)?;
        Ok(image)
    }

    fn dump(&self) -> Result<PathBuf> {
        self.build("plain", "[flash]\npart = \"W29N01HV\"\n", "rootfs")?;
        let recipe = "linux-bch4:2048+64";
        self.run(&["nand", "encode", "plain.ubi", "-o", "chip.dump", "--recipe", recipe])?;
        let path = self.folder.join("chip.dump");
        let mut bytes = fs::read(&path)?;
        // One bit in each of as many written pages.
        let written: Vec<usize> = (0..bytes.len())
            .step_by(usize::try_from(PAGE_BYTES)?)
            .filter(|page| bytes[*page..*page + 512].iter().any(|byte| *byte != 0xFF))
            .collect();
        let step = written.len() / usize::try_from(FLIPS)?;
        for page in written.iter().step_by(step.max(1)).take(usize::try_from(FLIPS)?) {
            bytes[page + 100] ^= 0x10;
        }
        fs::write(&path, bytes)?;
        Ok(path)
    }

    /// A UBI image with a past, large enough to fill the views.
    fn shown(&self) -> Result<PathBuf> {
        for number in 0..40 {
            let text = format!("entry {number}\n").repeat(400 + 150 * number);
            self.file(&format!("rootfs/var/log/day-{number:02}"), text)?;
        }
        let image = self.build("board", "[flash]\npart = \"W29N01HV\"\n", "rootfs")?;
        for round in 0..6 {
            self.file("new", format!("motd of round {round}\n"))?;
            let name = format!("/var/log/day-{:02}", 3 * round);
            let (put, remove) = ("put new /etc/motd".to_owned(), format!("rm {name}"));
            self.run(&["edit", "board.ubi:rootfs", "-c", &put, "-c", &remove, "-c", "sync"])?;
        }
        Ok(image)
    }
}
