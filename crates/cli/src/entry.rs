//! How `ls`, `tree` and `stat` show a directory entry.

use crate::style::{Ink, Style};
use crate::table::visible_width;
use eraseblock::documents::listing::Entry;
use eraseblock::raw::vfs::FileKind;
use eraseblock::text;

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
