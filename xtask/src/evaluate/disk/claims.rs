//! What the text 002 says of the file systems, as rules on the card's time.

use super::Quantity::{Du, Read, ReadLarge, Remove, SlowestRemove, Write, WriteLarge};
use super::System::{Btrfs, Ext4, F2fs, Nilfs2, Ubifs, UbifsNc};
use super::{Quantity, System, TABLES, Values};
use crate::evaluate::rows::{Fidelity, Row, Verdict};

/// What must be true; less time is better.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// The first takes less than each of the others.
    Fastest(System, &'static [System]),
    /// The first takes more than each of the others.
    Slowest(System, &'static [System]),
    /// At most one of the published systems takes more.
    NearlySlowest(System),
    /// The first takes at least so many percent of the second.
    AtLeast(System, u32, System),
}

/// A claim of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    quantity: Quantity,
    what: &'static str,
    rule: Rule,
    source: &'static str,
}

const OTHERS: [System; 5] = [UbifsNc, F2fs, Nilfs2, Ext4, Btrfs];
const WINNER: &str = "002:132 \"clearly the winner at reading and writing small files\"";

pub(super) const CLAIMS: [Claim; 12] = [
    Claim {
        quantity: Write,
        what: "ubifs writes small files fastest",
        rule: Rule::Fastest(Ubifs, &OTHERS),
        source: WINNER,
    },
    Claim {
        quantity: Read,
        what: "ubifs reads small files fastest",
        rule: Rule::Fastest(Ubifs, &OTHERS),
        source: WINNER,
    },
    Claim {
        quantity: Write,
        what: "without compression, at most one other writes small files slower than ubifs",
        rule: Rule::NearlySlowest(UbifsNc),
        source: "002:132 \"Without compression, UBIFS is nearly the slowest\"",
    },
    Claim {
        quantity: Du,
        what: "f2fs is the slowest for du",
        rule: Rule::Slowest(F2fs, &[Ubifs, UbifsNc, Nilfs2, Ext4, Btrfs]),
        source: "002:134 \"surprisingly poor at simple metadata access\"",
    },
    Claim {
        quantity: Write,
        what: "except for ubifs with compression, btrfs writes small files fastest",
        rule: Rule::Fastest(Btrfs, &[UbifsNc, F2fs, Nilfs2, Ext4]),
        source: "002:136 \"Btrfs is surprisingly fast at writing\"",
    },
    Claim {
        quantity: Remove,
        what: "btrfs is the slowest for rm",
        rule: Rule::Slowest(Btrfs, &[Ubifs, UbifsNc, F2fs, Nilfs2, Ext4]),
        source: "002:138 \"surprisingly slow for the non-flash-focused filesystems, particularly Btrfs\"",
    },
    Claim {
        quantity: Remove,
        what: "rm takes ext4 longer than ubifs and f2fs",
        rule: Rule::Slowest(Ext4, &[Ubifs, UbifsNc, F2fs]),
        source: "002:138 \"surprisingly slow for the non-flash-focused filesystems\"",
    },
    Claim {
        quantity: SlowestRemove,
        what: "the slowest rm takes btrfs longer than ext4",
        rule: Rule::Slowest(Btrfs, &[Ext4]),
        source: "002:138 \"while, for Btrfs, the slowest was 137.8 seconds\"",
    },
    Claim {
        quantity: WriteLarge,
        what: "ext4 writes large files fastest",
        rule: Rule::Fastest(Ext4, &[Ubifs, UbifsNc, F2fs, Nilfs2, Btrfs]),
        source: "002:154 \"ext4 is a clear winner on writes\"",
    },
    Claim {
        quantity: WriteLarge,
        what: "nilfs2 takes at least 1.7 times as long as f2fs to write large files",
        rule: Rule::AtLeast(Nilfs2, 170, F2fs),
        source: "002:156 \"taking nearly twice as long\"",
    },
    Claim {
        quantity: ReadLarge,
        what: "ubifs reads large files slowest",
        rule: Rule::Slowest(Ubifs, &[F2fs, Nilfs2, Ext4, Btrfs]),
        source: "002:158 \"UBIFS is a clear loser on reads\"",
    },
    Claim {
        quantity: WriteLarge,
        what: "compression makes writing large files no slower",
        rule: Rule::AtLeast(UbifsNc, 100, Ubifs),
        source: "002:160 \"UBIFS did a little better with compression enabled\"",
    },
];

impl Claim {
    pub(super) const fn table(&self) -> &'static str {
        TABLES[self.quantity.table()]
    }

    /// Returns whether it holds; `None` if a system was not measured.
    pub(super) fn holds(&self, values: &Values) -> Option<bool> {
        let get = |system| values.get(&(system, self.quantity)).map(|range| range[1]);
        match self.rule {
            Rule::Fastest(system, others) => {
                let own = get(system)?;
                let others: Option<Vec<f64>> = others.iter().map(|other| get(*other)).collect();
                Some(others?.into_iter().all(|other| own < other))
            }
            Rule::Slowest(system, others) => {
                let own = get(system)?;
                let others: Option<Vec<f64>> = others.iter().map(|other| get(*other)).collect();
                Some(others?.into_iter().all(|other| own > other))
            }
            Rule::NearlySlowest(system) => {
                let own = get(system)?;
                let all: Option<Vec<f64>> = System::PUBLISHED.into_iter().map(get).collect();
                Some(all?.into_iter().filter(|other| *other > own).count() <= 1)
            }
            Rule::AtLeast(system, percent, other) => {
                Some(get(system)? * 100.0 >= get(other)? * f64::from(percent))
            }
        }
    }

    /// Returns the systems that it compares.
    fn systems(&self) -> Vec<System> {
        let (first, others): (System, Vec<System>) = match self.rule {
            Rule::Fastest(system, others) | Rule::Slowest(system, others) => {
                (system, others.to_vec())
            }
            Rule::NearlySlowest(system) => (system, System::PUBLISHED.to_vec()),
            Rule::AtLeast(system, _, other) => (system, vec![other]),
        };
        let others = others.into_iter().filter(|other| *other != first);
        std::iter::once(first).chain(others).collect()
    }

    /// Returns the row; `others` are the values on cards with other parameters.
    pub(super) fn row(&self, values: &Values, others: &[(&str, Values)]) -> Row {
        let value = |system: System| match values.get(&(system, self.quantity)) {
            Some(range) => format!("{} {} s", system.name(), super::rounded(range[1])),
            None => format!("{} not run", system.name()),
        };
        let mut shown = self.systems().into_iter().map(value).collect::<Vec<_>>().join(", ");
        let holds = self.holds(values);
        let flips: Vec<&str> = others
            .iter()
            .filter(|(_, values)| self.holds(values) != holds)
            .map(|(name, _)| *name)
            .collect();
        if !flips.is_empty() {
            shown.push_str("; depends on the card: otherwise with ");
            shown.push_str(&flips.join(", "));
        }
        let words = self.source.split('"').nth(1).unwrap_or_default();
        Row::new(self.table(), &format!("claim: {}", self.what), "card time", "s")
            .on("-", super::MEDIUM)
            .published(words, self.source)
            .linux(shown.as_str())
            .ours("judged in Linux", Fidelity::Order)
            .judged(Verdict::of(holds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published figures.
    fn published() -> Values {
        let mut values = Values::new();
        for quantity in Quantity::ALL {
            for system in System::PUBLISHED {
                if let Some(seconds) = quantity.published(system) {
                    values.insert((system, quantity), [seconds, seconds]);
                }
            }
        }
        values
    }

    fn verdicts(values: &Values) -> Vec<Option<bool>> {
        CLAIMS.iter().map(|claim| claim.holds(values)).collect()
    }

    #[test]
    fn all_claims_hold_on_the_published_figures() {
        let values = published();
        for claim in CLAIMS {
            assert_eq!(claim.holds(&values), Some(true), "{}", claim.what);
        }
        assert_eq!(CLAIMS[0].holds(&Values::new()), None);
    }

    /// The logs of two file systems exchanged must not go unnoticed.
    #[test]
    fn exchanged_file_systems_change_verdicts() {
        let values = published();
        let systems = System::PUBLISHED;
        for (place, one) in systems.iter().enumerate() {
            for other in &systems[place + 1..] {
                let name = |system: System| match system {
                    system if system == *one => *other,
                    system if system == *other => *one,
                    system => system,
                };
                let exchanged: Values = values
                    .iter()
                    .map(|((system, quantity), value)| ((name(*system), *quantity), *value))
                    .collect();
                assert_ne!(verdicts(&exchanged), verdicts(&values), "{one:?} and {other:?}");
            }
        }
    }

    #[test]
    fn an_order_that_depends_on_the_card_is_marked() {
        let values = published();
        let mut other = published();
        other.insert((Ubifs, Write), [1000.0, 1000.0]);
        let row =
            CLAIMS[0].row(&values, &[("3 open units", other), ("8 open units", values.clone())]);
        assert_eq!(row.verdict, Verdict::Holds);
        let text = row.linux.to_string();
        assert!(text.ends_with("depends on the card: otherwise with 3 open units"), "{text}");
        assert!(!CLAIMS[0].row(&values, &[]).linux.to_string().contains("depends"));
    }
}
