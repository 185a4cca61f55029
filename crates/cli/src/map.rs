//! Pictures of flash: one character for each group of eraseblocks, and bars that show how full
//! something is.

use crate::style::{Ink, Style};
use eraseblock::info::BlockUse as Cell;

/// The letter of a volume by its place in the list.
pub(crate) fn volume_letter(place: u8) -> char {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    LETTERS.get(usize::from(place)).map_or('*', |letter| char::from(*letter))
}

fn letter(cell: Cell) -> char {
    match cell {
        Cell::Free => '.',
        Cell::Volume(place) => volume_letter(place),
        Cell::Layout => '#',
        Cell::Fastmap => '%',
        Cell::Stale => '~',
        Cell::Damaged => '!',
        Cell::Bad => 'X',
    }
}

fn ink(cell: Cell) -> Ink {
    const VOLUMES: [Ink; 4] = [Ink::Green, Ink::Cyan, Ink::Magenta, Ink::Blue];
    match cell {
        Cell::Free | Cell::Stale => Ink::Faint,
        Cell::Volume(place) => VOLUMES[usize::from(place) % VOLUMES.len()],
        Cell::Layout | Cell::Fastmap => Ink::Bold,
        Cell::Damaged => Ink::Yellow,
        Cell::Bad => Ink::Red,
    }
}

/// What the letter means, for the legend; `None` for volumes, whose table says it.
fn meaning(cell: Cell) -> Option<&'static str> {
    match cell {
        Cell::Free => Some("free"),
        Cell::Volume(_) => None,
        Cell::Layout => Some("volume table"),
        Cell::Fastmap => Some("fastmap"),
        Cell::Stale => Some("to be erased"),
        Cell::Damaged => Some("damaged"),
        Cell::Bad => Some("bad"),
    }
}

/// Rows of a map at most; larger devices show several blocks in one character.
const MOST_ROWS: usize = 8;

/// The map, `width` characters wide, and its legend as the last line.
pub(crate) fn draw(cells: &[Cell], width: usize, style: Style) -> Vec<String> {
    let per_character = cells.len().div_ceil(width * MOST_ROWS).max(1);
    let worst = |group: &[Cell]| group.iter().copied().max().unwrap_or(Cell::Free);
    let characters: Vec<Cell> = cells.chunks(per_character).map(worst).collect();
    let mut lines: Vec<String> = characters.chunks(width).map(|row| paint(row, style)).collect();
    lines.push(style.paint(Ink::Faint, legend(cells, per_character)));
    lines
}

/// A row of cells, with one colour sequence for each run of equal cells.
fn paint(row: &[Cell], style: Style) -> String {
    let run = |run: &[Cell]| {
        let text: String = run.iter().map(|cell| letter(*cell)).collect();
        style.paint(ink(run[0]), text)
    };
    row.chunk_by(|a, b| a == b).map(run).collect()
}

fn legend(cells: &[Cell], per_character: usize) -> String {
    let mut kinds: Vec<Cell> = cells.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let words = kinds.iter().filter_map(|cell| Some((letter(*cell), meaning(*cell)?)));
    let mut parts: Vec<String> = words.map(|(letter, word)| format!("{letter} {word}")).collect();
    if kinds.iter().any(|cell| matches!(cell, Cell::Volume(_))) {
        parts.push("letters: volumes".to_owned());
    }
    if per_character > 1 {
        parts.push(format!("one character: {per_character} blocks, the worst of them shown"));
    }
    parts.join("   ")
}

/// Characters filled by an eighth, two eighths, ...
const PARTIAL: [&str; 8] =
    ["", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}"];

/// A bar of `width` characters, filled as `part` is to `whole`.
pub(crate) fn bar(part: u64, whole: u64, width: usize) -> String {
    let eighths = if whole == 0 {
        0
    } else {
        let exact = u128::from(part.min(whole)) * (width as u128 * 8) / u128::from(whole);
        usize::try_from(exact).unwrap_or(width * 8)
    };
    let full = "\u{2588}".repeat(eighths / 8);
    let used = eighths.div_ceil(8);
    format!("{full}{}{}", PARTIAL[eighths % 8], "\u{b7}".repeat(width - used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_devices_have_one_character_a_block() {
        let cells = [Cell::Layout, Cell::Layout, Cell::Volume(0), Cell::Free, Cell::Bad];
        let lines = draw(&cells, 4, Style::PLAIN);
        assert_eq!(lines[..2], ["##a.", "X"]);
        assert_eq!(lines[2], ". free   # volume table   X bad   letters: volumes");
    }

    #[test]
    fn large_devices_show_the_worst_of_a_group() {
        let mut cells = vec![Cell::Free; 10_000];
        cells[9_999] = Cell::Bad;
        let lines = draw(&cells, 50, Style::PLAIN);
        assert!(lines.len() <= MOST_ROWS + 1);
        assert!(lines[lines.len() - 2].ends_with('X'));
        assert!(lines.last().unwrap().contains("25 blocks"));
    }

    #[test]
    fn bars_fill() {
        assert_eq!(bar(0, 10, 4), "\u{b7}".repeat(4));
        assert_eq!(bar(10, 10, 4), "\u{2588}".repeat(4));
        assert_eq!(bar(99, 10, 4), "\u{2588}".repeat(4));
        assert_eq!(bar(5, 10, 3).chars().count(), 3);
        assert_eq!(bar(5, 0, 3), "\u{b7}".repeat(3));
    }
}
