//! Lists of cuts in the names of states: `@37.P3+41.E2` is a cut at event 37 with variant P3, the
//! recovery of which was cut at event 41 with variant E2. `@37.off` means that the power went off
//! before event 37 began, with no operation in progress.

use eraseblock_nandsim::Variant;
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

/// Writes events and cuts after the name of a workload.
pub(crate) fn write<C: fmt::Display>(f: &mut fmt::Formatter<'_>, cuts: &[(u64, C)]) -> fmt::Result {
    for (index, (event, cut)) in cuts.iter().enumerate() {
        write!(f, "{}{event}.{cut}", if index == 0 { '@' } else { '+' })?;
    }
    Ok(())
}

/// The three parts of a workload's name, `a/b/c`, and the cuts after it.
type Named<'a, C> = ([&'a str; 3], Vec<(u64, C)>);

/// Parses the name of a state.
pub(crate) fn parse<C: FromStr>(text: &str) -> Option<Named<'_, C>> {
    let (place, cuts) = text.split_once('@').unwrap_or((text, ""));
    let mut parts = place.split('/');
    let place = [parts.next()?, parts.next()?, parts.next()?];
    if parts.next().is_some() {
        return None;
    }
    let one = |cut: &str| {
        let (event, cut) = cut.split_once('.')?;
        Some((event.parse().ok()?, cut.parse().ok()?))
    };
    let cuts = cuts.split('+').filter(|cut| !cut.is_empty()).map(one).collect::<Option<_>>()?;
    Some((place, cuts))
}
