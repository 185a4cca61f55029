//! Aligned columns of text.

use crate::style::{Ink, Style};

/// Which side of its column a cell sticks to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table with a heading; columns are as wide as their widest cell, two blanks apart.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; it has one cell per column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(cells);
    }

    /// The lines of the table, each indented by `indent` blanks, without trailing blanks.
    pub(crate) fn lines(&self, indent: usize, style: Style) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| visible_width(&row[column]));
            cells.chain([self.columns[column].0.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let heading: Vec<String> =
            self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let mut lines = vec![style.paint(Ink::Faint, self.line(&heading, &widths, indent))];
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths, indent)));
        lines
    }

    fn line(&self, cells: &[String], widths: &[usize], indent: usize) -> String {
        let mut line = " ".repeat(indent);
        for (index, ((cell, width), (_, align))) in
            cells.iter().zip(widths).zip(&self.columns).enumerate()
        {
            let blanks = " ".repeat(width.saturating_sub(visible_width(cell)));
            let gap = if index == 0 { "" } else { "  " };
            match align {
                Align::Left => line.extend([gap, cell, &blanks]),
                Align::Right => line.extend([gap, &blanks, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Columns a text takes on a terminal: its characters, colour sequences not counted.
pub(crate) fn visible_width(text: &str) -> usize {
    let mut width = 0;
    let mut in_sequence = false;
    for c in text.chars() {
        match (in_sequence, c) {
            (false, '\x1b') => in_sequence = true,
            (false, _) => width += 1,
            (true, 'm') => in_sequence = false,
            (true, _) => {}
        }
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&[("name", Align::Left), ("size", Align::Right)]);
        table.row(vec!["a".into(), "1000000".into()]);
        table.row(vec!["\x1b[1mlonger\x1b[0m".into(), "1".into()]);
        let lines = table.lines(1, Style::PLAIN);
        assert_eq!(lines[0], " name       size");
        assert_eq!(lines[1], " a       1000000");
        assert_eq!(visible_width(&lines[2]), lines[1].len());
    }
}
