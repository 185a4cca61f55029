//! Cuts of the power at flash events.

use eraseblock_nandsim::{Recorded, Variant};
use std::fmt;
use std::str::FromStr;

/// How the power was cut at an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cut {
    /// During it.
    During(Variant),
    /// Before it, while it had not been requested yet.
    Idle,
}

impl Cut {
    /// Returns whether reads may differ from one time to the next in the state that it leaves.
    pub(super) fn is_unstable(self) -> bool {
        matches!(self, Self::During(variant) if variant.is_unstable() && variant != Variant::B1)
    }

    /// Describes what it left of its event.
    pub(super) fn left(self) -> String {
        match self {
            Self::During(variant) => format!("{variant}: {}", variant.meaning()),
            Self::Idle => "off: the power went while nothing was happening".to_owned(),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::During(variant) => variant.fmt(f),
            Self::Idle => f.write_str("off"),
        }
    }
}

impl FromStr for Cut {
    type Err = <Variant as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "off" { Ok(Self::Idle) } else { text.parse().map(Self::During) }
    }
}

/// Returns the cuts of an event that the fault model includes.
pub(super) fn in_model(event: &Recorded) -> Vec<Variant> {
    event.variants().into_iter().filter(|variant| variant.is_in_model()).collect()
}
