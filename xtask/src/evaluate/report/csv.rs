//! The rows as comma-separated values.

use crate::evaluate::rows::Row;

const HEAD: &str =
    "table,row,system,medium,metric,unit,published,linux,ours,verdict,fidelity,source\r\n";

/// Returns the rows, with a line of names first (RFC 4180).
pub(super) fn to_csv(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        let (published, linux, ours) =
            (row.published.to_string(), row.linux.to_string(), row.ours.to_string());
        let fields = [
            row.table.as_str(),
            &row.row,
            &row.system,
            &row.medium,
            &row.metric,
            &row.unit,
            &published,
            &linux,
            &ours,
            row.verdict.words(),
            row.fidelity.words(),
            &row.source,
        ];
        text.push_str(&fields.map(field).join(","));
        text.push_str("\r\n");
    }
    text
}

fn field(text: &str) -> String {
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::rows::{Cell, Fidelity};

    /// Splits a record as RFC 4180 says.
    fn fields(line: &str) -> Vec<String> {
        let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '"' if is_quoted && letters.peek() == Some(&'"') => {
                    letters.next();
                    field.push('"');
                }
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => fields.push(std::mem::take(&mut field)),
                other => field.push(other),
            }
        }
        fields.push(field);
        fields
    }

    #[test]
    fn fields_with_commas_quotes_and_line_ends_survive() {
        let row = Row::new("L1", "a,\"b\"\r\nc", "time", "s")
            .published(0.1 + 0.2, "001:1 \"x, y\"")
            .linux(Cell::Range([1.5, 2.0]))
            .ours(7_u64, Fidelity::Model);
        let text = to_csv(&[row]);
        let body = text.strip_prefix(HEAD).unwrap().strip_suffix("\r\n").unwrap();
        let found = fields(body);
        assert_eq!(found.len(), HEAD.split(',').count());
        assert_eq!((found[1].as_str(), found[11].as_str()), ("a,\"b\"\r\nc", "001:1 \"x, y\""));
        assert_eq!(found[6].parse::<f64>().unwrap().to_bits(), (0.1_f64 + 0.2).to_bits());
        assert_eq!((found[7].as_str(), found[8].as_str()), ("1.5 to 2", "7"));
    }
}
