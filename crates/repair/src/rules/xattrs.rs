//! Extended attributes: an entry of the host, and an inode that holds the value (spec: ubifs-format
//! 6.6, 21.6 X2, X5).

use super::Rules;
use crate::model::{Entry, InodeLeaf};
use crate::plan::{Action, Level, Part, shown};
use eraseblock_base::Location;
use std::collections::BTreeMap;

impl Rules<'_> {
    /// X2, X5: every xattr has a host and a value, and every value one xattr.
    pub(super) fn xattrs(&mut self) {
        // Of several entries with one value, the newest stays.
        let mut owner: BTreeMap<u32, u64> = BTreeMap::new();
        for object in self.model.objects.values() {
            for xattr in &object.xattrs {
                let newest = owner.entry(xattr.target()).or_default();
                *newest = (*newest).max(xattr.sqnum());
            }
        }
        for host in self.model.objects.keys().copied().collect::<Vec<_>>() {
            let xattrs = std::mem::take(&mut self.model.object(host).xattrs);
            let mut kept = Vec::new();
            for xattr in xattrs {
                let is_newest = owner.get(&xattr.target()) == Some(&xattr.sqnum());
                match self.wrong_xattr(host, &xattr, is_newest) {
                    None => kept.push(xattr),
                    Some((rule, why)) => self.drop_xattr(host, &xattr, rule, &why),
                }
            }
            self.model.object(host).xattrs = kept;
        }
        self.drop_values();
    }

    fn wrong_xattr(
        &self,
        host: u32,
        xattr: &Entry,
        is_newest: bool,
    ) -> Option<(&'static str, String)> {
        if self.model.inode(host).is_none_or(InodeLeaf::is_xattr) {
            return Some(("X2", "its host cannot have xattrs".to_owned()));
        }
        let Some(value) = self.model.inode(xattr.target()) else {
            return Some(("X3", format!("its value, inode {}, is missing", xattr.raw.inum.get())));
        };
        let has_leaves = self.model.objects.get(&xattr.target()).is_some_and(|object| {
            !(object.entries.is_empty() && object.xattrs.is_empty() && object.blocks.is_empty())
        });
        if !value.is_xattr() || has_leaves {
            return Some(("X5", "it names something that holds no xattr".to_owned()));
        }
        (!is_newest).then(|| ("X5", "its value belongs to a newer one".to_owned()))
    }

    fn drop_xattr(&mut self, host: u32, xattr: &Entry, rule: &str, why: &str) {
        let name = shown(&xattr.name);
        let why = format!("{}: xattr {name}: {why}", self.name_of(host));
        self.keep_origin(&xattr.origin, &why);
        let loss = self.loss(host, Part::Xattr { name: Some(name) });
        let at = xattr.origin.at();
        let action = Action::new(Level::Drop, "inode-wrong", rule, at, "remove", why);
        self.act(action.losing(loss));
    }

    /// X6: values of no xattr.
    fn drop_values(&mut self) {
        let mut owned: Vec<u32> = Vec::new();
        for object in self.model.objects.values() {
            owned.extend(object.xattrs.iter().map(Entry::target));
        }
        owned.sort_unstable();
        let is_stray = |(ino, object): (&u32, &crate::model::Object)| {
            let is_value = object.inode.as_ref().is_some_and(InodeLeaf::is_xattr);
            (is_value && owned.binary_search(ino).is_err()).then_some(*ino)
        };
        for ino in self.model.objects.iter().filter_map(is_stray).collect::<Vec<_>>() {
            let has_links = self.model.inode(ino).is_some_and(|value| value.raw.nlink.get() > 0);
            let why = format!("inode {ino} holds the value of no xattr");
            let at = Location::Inode(ino.into());
            let level = if has_links { Level::Drop } else { Level::Safe };
            let mut action = Action::new(level, "inode-wrong", "X6", at, "remove", why.clone());
            if has_links {
                action = action.losing(self.loss(ino, Part::Xattr { name: None }));
            }
            self.act(action);
            self.remove_object(ino, &why);
        }
    }
}
