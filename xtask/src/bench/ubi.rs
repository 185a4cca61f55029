//! UBI: the costs of attaching, writing and wear on simulated chips, compared with the promised
//! limits.

use super::{Bench, Row};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;

impl Bench {
    /// The figures of `eraseblock lab figures` that have a limit; the peer's column is the limit.
    pub(super) fn ubi(&mut self) -> Result<()> {
        let mut command = Command::new(&self.bin);
        let output = command.args(["lab", "figures", "--target", "ubi", "--json"]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout)?;
        for row in report["rows"].as_array().context("there are rows")? {
            let place = format!("ubi {}: {}", text(&row["table"]), text(&row["case"]));
            for figure in row["figures"].as_array().context("a row has figures")? {
                self.figure(&place, figure)?;
            }
        }
        Ok(())
    }

    fn figure(&mut self, place: &str, figure: &Value) -> Result<()> {
        let ours = figure["value"].as_f64().context("a figure has a value")?;
        let (most, least) = (figure["at_most"].as_f64(), figure["at_least"].as_f64());
        let Some(peer) = most.or(least) else { return Ok(()) };
        // All ratios have the same meaning: 1 or less is met.
        let ratio = if most.is_some() { ours / peer } else { peer / ours };
        let what = format!("{place}: {}", text(&figure["what"]));
        self.add(Row { what, ours, peer, unit: "", ratio, wanted: 1.0, met: ratio <= 1.0 });
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
