//! What a repair is going to do: one action for each change, with its reason and what it loses.
//!
//! # Invariants
//! 1. The same volume gives the same plan.
//! 2. If a reader could deliver something before and cannot deliver it afterwards, it is among the
//!    losses of an action.

use eraseblock_base::Location;
use serde::{Serialize, Serializer};

/// How far a repair may go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Changes only what follows from something intact; every byte of every file stays.
    Safe,
    /// Also removes what cannot be what it claims to be.
    Drop,
    /// Also makes index, LPT, log, master and superblock from a scan of all nodes.
    Rebuild,
}

impl Level {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Drop => "drop",
            Self::Rebuild => "rebuild",
        }
    }
}

/// A value of a field, before or after.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(u64),
    /// Anything else.
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The part of a file that is lost.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Part {
    /// Bytes of the content, which read as zeros afterwards; `to` is the first byte after them.
    Content {
        /// The first byte.
        from: u64,
        /// The first byte after the range.
        to: u64,
    },
    /// The name: nothing is there afterwards under the path.
    Name,
    /// Owner, permissions and times.
    Attributes,
    /// An extended attribute.
    Xattr {
        /// Its name, if that is known.
        name: Option<String>,
    },
    /// Operations that were not committed: what a damaged part of the journal held is unknown.
    Journal,
    /// An eraseblock that no LEB of a flash refers to.
    Block {
        /// Its number.
        peb: u32,
    },
}

/// Something that is lost.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Loss {
    /// The path, if there is one.
    #[serde(serialize_with = "path_text")]
    pub path: Option<Vec<u8>>,
    /// The inode number; 0 if there is none.
    pub ino: u32,
    /// The part that is lost.
    #[serde(flatten)]
    pub part: Part,
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn path_text<S: Serializer>(path: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => to.serialize_some(&shown(path)),
        None => to.serialize_none(),
    }
}

impl Loss {
    /// Puts the name of a volume before the path.
    fn put_before(&mut self, name: &[u8]) {
        if let Some(path) = &mut self.path {
            path.splice(..0, [name, b":"].concat());
        }
    }

    /// Returns a sentence about it.
    pub fn describe(&self) -> String {
        let whose = match &self.path {
            Some(path) if path.is_empty() => "the root directory".to_owned(),
            Some(path) => shown(path),
            None => format!("inode {}", self.ino),
        };
        match &self.part {
            Part::Content { from, to } => {
                format!("{whose}: bytes {from} to {} of the content", to.saturating_sub(1))
            }
            Part::Name => format!("{whose}: the name"),
            Part::Attributes => format!("{whose}: owner, permissions and times"),
            Part::Xattr { name: Some(name) } => format!("{whose}: the xattr {name}"),
            Part::Xattr { name: None } => format!("{whose}: an xattr"),
            Part::Block { peb } => format!("what eraseblock {peb} held, which belongs to no LEB"),
            Part::Journal => "what the damaged part of the journal held".to_owned(),
        }
    }
}

/// Returns the text of an error, less the place at its start.
pub(crate) fn without_place(at: Location, error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.strip_prefix(&format!("{at}: ")).unwrap_or(&text).to_owned()
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Action {
    /// Its number, from 1.
    pub n: usize,
    /// What is wrong, as `check` calls it.
    pub code: &'static str,
    /// The rows of the specification (ubifs-format 21) that do not hold.
    pub rule: String,
    /// Where.
    #[serde(serialize_with = "location_text")]
    pub at: Location,
    /// The level that it needs.
    pub level: Level,
    /// The kind of change: `set`, `remove`, `add`, `move` or `remake`.
    #[serde(rename = "do")]
    pub verb: &'static str,
    /// The field that is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'static str>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// Its new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
    /// Why, in a sentence.
    pub why: String,
    /// Places that show it.
    pub evidence: Vec<String>,
    /// What it loses.
    pub loses: Vec<Loss>,
}

fn location_text<S: Serializer>(at: &Location, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(at)
}

impl Action {
    /// Returns an action that loses nothing and sets no field.
    pub(crate) fn new(
        level: Level,
        code: &'static str,
        rule: &str,
        at: Location,
        verb: &'static str,
        why: impl Into<String>,
    ) -> Self {
        Self {
            n: 0,
            code,
            rule: rule.to_owned(),
            at,
            level,
            verb,
            field: None,
            from: None,
            to: None,
            why: why.into(),
            evidence: Vec::new(),
            loses: Vec::new(),
        }
    }

    /// Adds the field that is set.
    pub(crate) fn sets(
        mut self,
        field: &'static str,
        from: impl Into<Value>,
        to: impl Into<Value>,
    ) -> Self {
        (self.field, self.from, self.to) = (Some(field), Some(from.into()), Some(to.into()));
        self
    }

    /// Adds a place that shows it.
    pub(crate) fn shown_by(mut self, place: impl std::fmt::Display) -> Self {
        self.evidence.push(place.to_string());
        self
    }

    /// Adds a loss.
    pub(crate) fn losing(mut self, loss: Loss) -> Self {
        self.loses.push(loss);
        self
    }

    /// Returns one line for people.
    pub fn line(&self) -> String {
        let mut line =
            format!("{:>3} {:<7} {:<14} {}", self.n, self.level.name(), self.at, self.why);
        if let (Some(field), Some(from), Some(to)) = (self.field, &self.from, &self.to) {
            let text = |value: &Value| match value {
                Value::Number(number) => number.to_string(),
                Value::Text(text) if text.is_empty() => "none".to_owned(),
                Value::Text(text) => text.clone(),
            };
            line = format!("{line}: {field} {} -> {}", text(from), text(to));
        }
        let rows = if self.rule.is_empty() { "" } else { " " };
        format!("{line} [{}{rows}{}]", self.code, self.rule)
    }
}

/// All actions of a repair, in the order in which they build on each other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    actions: Vec<Action>,
}

impl Plan {
    /// Appends an action and gives it its number.
    pub(crate) fn push(&mut self, mut action: Action) {
        action.n = self.actions.len() + 1;
        self.actions.push(action);
    }

    /// Appends the actions of a part; `place` gives their places in the whole, and `name` comes before
    /// the paths of their losses.
    pub fn append(
        &mut self,
        part: &Plan,
        name: Option<&[u8]>,
        place: impl Fn(Location) -> Location,
    ) {
        for action in &part.actions {
            let mut action = action.clone();
            action.at = place(action.at);
            if let Some(name) = name {
                action.loses.iter_mut().for_each(|loss| loss.put_before(name));
            }
            self.push(action);
        }
    }

    /// Returns the actions.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Returns the level that all actions together need; `None` if there is nothing to do.
    pub fn level(&self) -> Option<Level> {
        self.actions.iter().map(|action| action.level).max()
    }

    /// Returns everything that is lost.
    pub fn losses(&self) -> impl Iterator<Item = &Loss> {
        self.actions.iter().flat_map(|action| &action.loses)
    }
}

/// Returns a name or path as text without control characters.
pub(crate) fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}
