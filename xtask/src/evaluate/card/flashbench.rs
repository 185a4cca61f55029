//! What flashbench prints, as numbers.

use anyhow::{Context, Result};

/// A row of `flashbench -a`: how much longer a read takes across a boundary.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Boundary {
    /// The boundary is a multiple of this many bytes.
    pub(super) alignment: u64,
    /// Nanoseconds.
    pub(super) longer: f64,
}

/// A row of `flashbench -O`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rate {
    /// Bytes of a block.
    pub(super) block: u64,
    /// Megabytes a second, one number for each allocation unit of `-f`.
    pub(super) megabytes: f64,
}

/// Returns the part of an output after the line `== name`, up to the next such line.
pub(super) fn section<'a>(output: &'a str, name: &str) -> Result<&'a str> {
    let head = format!("== {name}\n");
    let (_, rest) =
        output.split_once(&head).with_context(|| format!("the output has no part `{name}`"))?;
    Ok(rest.split("== ").next().unwrap_or(rest))
}

/// Parses the rows of `flashbench -a`.
pub(super) fn boundaries(text: &str) -> Result<Vec<Boundary>> {
    let row = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let alignment = words.next()?.parse().ok()?;
        let longer = duration(words.last()?)?;
        Some(Boundary { alignment, longer })
    };
    let rows = text.lines().filter(|line| line.starts_with("align "));
    rows.map(|line| row(line).with_context(|| format!("not understood: {line}"))).collect()
}

/// Parses the rows of `flashbench -O`; a row of `-f` has a number for each unit.
pub(super) fn rates(text: &str) -> Vec<Vec<Rate>> {
    let row = |line: &str| {
        let (size, rest) = line.split_once(char::is_whitespace)?;
        let block = bytes(size)?;
        let numbers = rest.split_whitespace().filter_map(|word| word.strip_suffix("M/s"));
        let rates: Option<Vec<Rate>> =
            numbers.map(|number| Some(Rate { block, megabytes: number.parse().ok()? })).collect();
        rates.filter(|rates| !rates.is_empty())
    };
    text.lines().filter_map(row).collect()
}

/// Parses `8MiB`.
fn bytes(size: &str) -> Option<u64> {
    let units = [("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((size.strip_suffix(name)?, unit)))?;
    number.parse::<u64>().ok().map(|number| number * unit)
}

/// Parses `1.5ms`, `267us` with either letter mu, `-2705ns` into nanoseconds. A number below 0 is
/// in nanoseconds, and its unit is cut off after eight characters: `-22572n`.
fn duration(text: &str) -> Option<f64> {
    let units = [
        ("ns", 1.0),
        ("n", 1.0),
        ("\u{b5}s", 1e3),
        ("\u{3bc}s", 1e3),
        ("us", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("", 1.0),
    ];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number.parse::<f64>().ok().map(|number| number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_flashbench_is_understood() {
        let output = "== a\nalign 8388608\tpre 1.03ms\ton 1.5ms\tpost 1.04ms\tdiff 463\u{b5}s\n\
                      align 8192\tpre 1.02ms\ton 1.02ms\tpost 1.02ms\tdiff -2705ns\n\
                      align 4096\tpre 3.85ms\ton 3.8ms\tpost 3.8ms\tdiff -22572n\n\
                      align 2048\tpre 3.85ms\ton 3.8ms\tpost 3.8ms\tdiff -1225725\n\
                      == open 5\n8MiB    9.15M/s \n512KiB  1.05M/s \n== fat\n4MiB    9.1M/s  4.2M/s \n";
        let rows = boundaries(section(output, "a").unwrap()).unwrap();
        assert_eq!(rows[0], Boundary { alignment: 8 << 20, longer: 463_000.0 });
        assert_eq!(rows[1], Boundary { alignment: 8192, longer: -2705.0 });
        assert_eq!((rows[2].longer, rows[3].longer), (-22572.0, -1_225_725.0));
        assert!(boundaries("align 4096 pre 1ms on 1ms post 1ms diff x").is_err());
        let rows = rates(section(output, "open 5").unwrap());
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1], [Rate { block: 512 << 10, megabytes: 1.05 }]);
        assert_eq!(rates(section(output, "fat").unwrap())[0].len(), 2);
        assert!(section(output, "open 6").is_err());
    }
}
