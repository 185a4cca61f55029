//! A directory entry as `ls`, `tree` and `stat` show it.

use crate::style::{Ink, Style};
use crate::table::visible_width;
use eraseblock::raw::vfs::{Attr, DirEntry, FileKind, FileSystem, Ino};
use eraseblock::text;
use serde::Serialize;

/// One entry; what could not be read is absent.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    /// The name, with bytes that are not text as escapes.
    pub name: String,
    /// Inode number.
    pub ino: u64,
    /// `regular`, `directory`, `symlink`, ...
    pub kind: Option<&'static str>,
    /// Permission bits in octal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// Names that refer to the inode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nlink: Option<u32>,
    /// Owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// Length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Last change of content, seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtime: Option<i64>,
    /// Device number of a device node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<(u32, u32)>,
    /// Target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Why the inode could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip)]
    file_kind: Option<FileKind>,
    #[serde(skip)]
    mode: u32,
}

impl Entry {
    /// What a directory says by itself, without reading the inode.
    pub(crate) fn brief(entry: &DirEntry) -> Self {
        Self::new(&entry.name, entry.ino, Some(entry.kind))
    }

    /// An inode with its attributes.
    pub(crate) fn of(fs: &dyn FileSystem, ino: Ino, name: &[u8]) -> Self {
        match fs.attr(ino) {
            Ok(attr) => Self::with_attributes(fs, name, &attr),
            Err(error) => Self { error: Some(error.to_string()), ..Self::new(name, ino, None) },
        }
    }

    /// Returns whether it is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.file_kind == Some(FileKind::Directory)
    }

    fn new(name: &[u8], ino: Ino, kind: Option<FileKind>) -> Self {
        Self {
            name: text::name(name),
            ino,
            kind: kind.map(kind_word),
            permissions: None,
            nlink: None,
            uid: None,
            gid: None,
            size: None,
            mtime: None,
            device: None,
            target: None,
            error: None,
            file_kind: kind,
            mode: 0,
        }
    }

    fn with_attributes(fs: &dyn FileSystem, name: &[u8], attr: &Attr) -> Self {
        let is_device = matches!(attr.kind, FileKind::BlockDevice | FileKind::CharDevice);
        let mut entry = Self {
            permissions: Some(format!("{:04o}", attr.permissions)),
            nlink: Some(attr.nlink),
            uid: Some(attr.uid),
            gid: Some(attr.gid),
            size: Some(attr.size),
            mtime: Some(attr.mtime.seconds),
            device: is_device.then_some(attr.rdev),
            mode: attr.permissions,
            ..Self::new(name, attr.ino, Some(attr.kind))
        };
        if attr.kind == FileKind::Symlink {
            match fs.read_link(attr.ino) {
                Ok(target) => entry.target = Some(text::name(&target)),
                Err(error) => entry.error = Some(error.to_string()),
            }
        }
        entry
    }
}

/// The word for a kind in JSON and in `stat`.
pub(crate) fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "regular",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::BlockDevice => "block-device",
        FileKind::CharDevice => "char-device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    }
}

/// The name in the colour of its kind.
pub(crate) fn paint_name(entry: &Entry, style: Style) -> String {
    let ink = match entry.file_kind {
        Some(FileKind::Directory) => Ink::Blue,
        Some(FileKind::Symlink) => Ink::Cyan,
        Some(FileKind::BlockDevice | FileKind::CharDevice) => Ink::Magenta,
        Some(FileKind::Fifo | FileKind::Socket) => Ink::Yellow,
        Some(FileKind::Regular) if entry.mode & 0o111 != 0 => Ink::Green,
        Some(FileKind::Regular) => return entry.name.clone(),
        None => Ink::Red,
    };
    style.paint(ink, &entry.name)
}

/// Entries as `ls -l` shows them, in aligned columns.
pub(crate) fn long_lines(entries: &[Entry], style: Style) -> Vec<String> {
    let rows: Vec<[String; 7]> = entries.iter().map(|entry| long_cells(entry, style)).collect();
    let width = |column: usize| rows.iter().map(|row| visible_width(&row[column])).max();
    let widths: Vec<usize> = (0..6).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 7]| {
        let mut line = row[0].clone();
        for (cell, width) in row[1..6].iter().zip(&widths[1..6]) {
            line.extend([" ", &format!("{cell:>width$}")]);
        }
        format!("{line} {}", row[6])
    };
    rows.iter().map(line).collect()
}

fn long_cells(entry: &Entry, style: Style) -> [String; 7] {
    let number = |value: Option<u32>| value.map_or("?".to_owned(), |v| v.to_string());
    let size = match (entry.device, entry.size) {
        (Some((major, minor)), _) => format!("{major},{minor}"),
        (None, Some(size)) => size.to_string(),
        (None, None) => "?".to_owned(),
    };
    let mut name = paint_name(entry, style);
    if let Some(target) = &entry.target {
        name.extend([" -> ", target]);
    }
    if let Some(error) = &entry.error {
        name.push_str(&style.paint(Ink::Red, format!(" ({error})")));
    }
    [
        entry.file_kind.map_or("??????????".to_owned(), |k| text::mode(k.letter(), entry.mode)),
        number(entry.nlink),
        number(entry.uid),
        number(entry.gid),
        size,
        entry.mtime.map_or("?".to_owned(), text::time),
        name,
    ]
}
