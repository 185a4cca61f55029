//! SELinux file contexts: sets the `security.selinux` attribute of every node from a
//! `file_contexts` file.
//!
//! A line is a regular expression that must match the whole path (`/` is the root), an optional
//! type (`--` regular file, `-d` directory, `-l` symbolic link, `-c` and `-b` devices, `-p` pipe,
//! `-s` socket) and a context, or `<<none>>` for no change. Lines beginning with `#` are comments.
//! The last matching line is used, but lines without special characters take precedence over those
//! with some. The attribute's value is the context and a NUL byte (spec: ubifs-format 17.1).

use crate::error::TreeError;
use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::{FileKind, SourceTree};
use regex::bytes::{Regex, RegexBuilder};

/// The attribute.
const ATTRIBUTE: &[u8] = b"security.selinux";

/// The maximum memory of one compiled expression in bytes.
const REGEX_LIMIT: usize = 1 << 20;

/// The rules of a `file_contexts` file.
#[derive(Debug)]
pub struct FileContexts {
    /// The rules with precedence come last.
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// The prefix of all matching paths.
    stem: Vec<u8>,
    /// The expression that the path must match; without one it must equal the stem.
    pattern: Option<Regex>,
    kind: Option<FileKind>,
    /// `None` for `<<none>>`.
    context: Option<Vec<u8>>,
}

impl FileContexts {
    /// Parses the rules.
    ///
    /// # Errors
    ///
    /// Fails with [`TreeError::FileContexts`], which names the line, if one breaks the rules.
    pub fn parse(text: &[u8]) -> Result<Self, TreeError> {
        let mut rules = Vec::new();
        for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let text = text.trim_ascii();
            if !text.is_empty() && !text.starts_with(b"#") {
                let rule =
                    Rule::parse(text).map_err(|reason| TreeError::FileContexts { line, reason })?;
                rules.push(rule);
            }
        }
        rules.sort_by_key(|rule| rule.pattern.is_none());
        Ok(Self { rules })
    }

    /// Returns the context of a path that begins with a slash, or `None` if no rule applies.
    pub fn context(&self, path: &[u8], kind: FileKind) -> Option<&[u8]> {
        self.rules.iter().rev().find(|rule| rule.fits(path, kind))?.context.as_deref()
    }

    /// Labels every node for which the first of its names has a context. Other nodes keep their
    /// label, if any.
    pub fn apply(&self, tree: &mut SourceTree) {
        let mut met = vec![false; tree.len()];
        let mut todo = vec![(NodeId::ROOT, b"/".to_vec())];
        while let Some((id, path)) = todo.pop() {
            if std::mem::replace(&mut met[id.index()], true) {
                continue;
            }
            let first = todo.len();
            for (name, child) in tree.entries(id) {
                let slash: &[u8] = if path.len() > 1 { b"/" } else { b"" };
                todo.push((child, [&path, slash, name].concat()));
            }
            todo[first..].reverse();
            let node = tree.node_mut(id);
            if let Some(context) = self.context(&path, node.file_kind()) {
                node.xattrs.retain(|(name, _)| name != ATTRIBUTE);
                node.xattrs.push((ATTRIBUTE.to_vec(), [context, b"\0"].concat()));
                node.xattrs.sort();
            }
        }
    }
}

impl Rule {
    fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let (expression, kind, context) = match fields[..] {
            [expression, context] => (expression, None, context),
            [expression, kind, context] => (expression, Some(kind_of(kind)?), context),
            _ => return Err(format!("{} fields, expected 2 or 3", fields.len())),
        };
        if context.contains('\0') {
            return Err("the context has a NUL byte".to_owned());
        }
        let (stem, is_literal) = stem_of(expression);
        let pattern = if is_literal { None } else { Some(compile(expression)?) };
        let context = Some(context).filter(|context| *context != "<<none>>");
        let context = context.map(|context| context.as_bytes().to_vec());
        Ok(Self { stem, pattern, kind, context })
    }

    fn fits(&self, path: &[u8], kind: FileKind) -> bool {
        self.kind.is_none_or(|own| own == kind)
            && path.starts_with(&self.stem)
            && match &self.pattern {
                Some(pattern) => pattern.is_match(path),
                None => path.len() == self.stem.len(),
            }
    }
}

fn kind_of(text: &str) -> Result<FileKind, String> {
    Ok(match text {
        "--" => FileKind::Regular,
        "-d" => FileKind::Directory,
        "-l" => FileKind::Symlink,
        "-c" => FileKind::CharDevice,
        "-b" => FileKind::BlockDevice,
        "-p" => FileKind::Fifo,
        "-s" => FileKind::Socket,
        _ => return Err(format!("type `{text}`, expected one of -- -d -l -c -b -p -s")),
    })
}

fn compile(expression: &str) -> Result<Regex, String> {
    RegexBuilder::new(&format!("^(?:{expression})$"))
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(REGEX_LIMIT)
        .build()
        .map_err(|error| error.to_string())
}

/// Returns the common prefix of all matches of an expression, and whether it is the whole
/// expression.
fn stem_of(expression: &str) -> (Vec<u8>, bool) {
    let mut stem = Vec::new();
    let mut rest = expression.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => match rest.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => stem.push(escaped),
                _ => return (stem, false),
            },
            // A repeated item may be absent; of two alternatives, either may be absent.
            b'?' | b'*' | b'{' => {
                stem.pop();
                return (stem, false);
            }
            b'|' => return (Vec::new(), false),
            b'.' | b'^' | b'$' | b'+' | b'[' | b'(' => {
                return (without_alternatives(stem, rest), false);
            }
            _ => stem.push(byte),
        }
    }
    (stem, true)
}

/// Returns the stem, unless the expression continues with an alternative outside parentheses.
fn without_alternatives(stem: Vec<u8>, rest: std::str::Bytes<'_>) -> Vec<u8> {
    if rest.into_iter().any(|byte| byte == b'|') { Vec::new() } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::{SourceKind, SourceNode};
    use std::collections::BTreeMap;

    fn context(text: &str, path: &str, kind: FileKind) -> Option<String> {
        let contexts = FileContexts::parse(text.as_bytes()).unwrap();
        let found = contexts.context(path.as_bytes(), kind);
        found.map(|context| String::from_utf8(context.to_vec()).unwrap())
    }

    fn file(text: &str, path: &str) -> Option<String> {
        context(text, path, FileKind::Regular)
    }

    #[test]
    fn the_last_line_that_fits_counts() {
        let text =
            "# comment\n\n/.*  all\n/bin(/.*)? -- file\n/bin -d dir\n /bin/.*\\.sh\tscript \n";
        assert_eq!(file(text, "/etc").as_deref(), Some("all"));
        assert_eq!(file(text, "/bin/a").as_deref(), Some("file"));
        assert_eq!(file(text, "/bin/a.sh").as_deref(), Some("script"));
        assert_eq!(file(text, "/bin/axsh").as_deref(), Some("file"));
        assert_eq!(context(text, "/bin", FileKind::Directory).as_deref(), Some("dir"));
        assert_eq!(context(text, "/bin/l", FileKind::Symlink).as_deref(), Some("all"));
        assert_eq!(file("/bin b", "/bin/a"), None, "the whole path has to match");
        assert_eq!(file("/b b", "/a/b"), None);
    }

    #[test]
    fn a_path_without_special_characters_counts_first() {
        let text = "/a\\.b exact\n/a.* later\n/.* last";
        assert_eq!(file(text, "/a.b").as_deref(), Some("exact"));
        assert_eq!(file(text, "/axb").as_deref(), Some("last"));
        assert_eq!(file("/a one\n/a two", "/a").as_deref(), Some("two"));
    }

    #[test]
    fn none_is_no_context() {
        assert_eq!(file("/.* all\n/proc/.* <<none>>", "/proc/1"), None);
    }

    #[test]
    fn stems_never_hide_a_match() {
        for (expression, path) in [
            ("/ab?", "/a"),
            ("/ab*c", "/ac"),
            ("/ab{0,1}", "/a"),
            ("/a|/b", "/b"),
            ("/a.*|/b", "/b"),
            ("/(a|b)", "/b"),
            ("/a+", "/aa"),
            ("/a\\d", "/a1"),
            ("/a\\+b", "/a+b"),
        ] {
            let text = format!("{expression} x");
            assert_eq!(file(&text, path).as_deref(), Some("x"), "{expression}");
        }
    }

    #[test]
    fn lines_that_break_the_rules_are_named() {
        for (text, message) in [
            ("\n/a", "file contexts line 2: 1 fields, expected 2 or 3"),
            ("/a -x c", "file contexts line 1: type `-x`, expected one of"),
            ("/(a c", "file contexts line 1: regex parse error"),
            ("/(a{999}){999} c", "file contexts line 1: Compiled regex exceeds size limit"),
        ] {
            let error = FileContexts::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        assert!(FileContexts::parse(b"/\xff c").is_err());
    }

    #[test]
    fn every_node_is_labelled_by_its_first_name() {
        let dir = || SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
        let mut tree = SourceTree::new(dir());
        let b = tree.add(NodeId::ROOT, b"b", dir()).unwrap();
        let mut pipe = SourceNode::new(SourceKind::Fifo, 0o644);
        pipe.xattrs = vec![(b"user.x".to_vec(), vec![1]), (ATTRIBUTE.to_vec(), b"old\0".to_vec())];
        let f = tree.add(b, b"f", pipe).unwrap();
        tree.link(NodeId::ROOT, b"c", f).unwrap();
        let text = b"/ root\n/b/f first\n/c second\n/b <<none>>";
        FileContexts::parse(text).unwrap().apply(&mut tree);
        let label = (ATTRIBUTE.to_vec(), b"first\0".to_vec());
        assert_eq!(tree.node(f).xattrs, [label, (b"user.x".to_vec(), vec![1])]);
        assert_eq!(tree.node(NodeId::ROOT).xattrs[0].1, b"root\0");
        assert!(tree.node(b).xattrs.is_empty());
    }
}
