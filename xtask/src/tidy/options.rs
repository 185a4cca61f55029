//! Text of the library names its settings, never options of the command: a program that uses the
//! library has none.

use super::{Tracked, is_for_tests};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// Options of GNU tar, which the reader of archives names.
const OF_TAR: [&str; 2] = ["--format=pax", "--xattrs"];

/// Returns the places of string literals with an option in a file of a library crate.
pub(super) fn check(file: &Tracked) -> Vec<String> {
    if !file.is_rust() || !is_library(&file.path) {
        return Vec::new();
    }
    let Some(tree) = file.tree() else {
        return vec![format!("{}: cannot be parsed", file.path)];
    };
    let mut reader = Reader { found: Vec::new() };
    reader.visit_file(tree);
    reader.found.iter().map(|line| format!("{}:{line}", file.path)).collect()
}

fn is_library(path: &str) -> bool {
    let is_product = path.starts_with("crates/") && path.contains("/src/");
    is_product && !path.starts_with("crates/cli/") && !super::is_of_tests(path)
}

struct Reader {
    /// Lines.
    found: Vec<usize>,
}

impl Reader {
    fn look(&mut self, literal: &syn::LitStr) {
        if names_option(&literal.value()) {
            self.found.push(literal.span().start().line);
        }
    }

    fn look_into(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.look_into(group.stream()),
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(literal) = syn::Lit::new(literal) {
                        self.look(&literal);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.look(literal);
    }

    fn visit_macro(&mut self, found: &'ast syn::Macro) {
        self.look_into(found.tokens.clone());
    }

    /// Documentation may name the command's options.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

/// Returns whether a text contains two hyphens followed by a letter, as options begin.
fn names_option(text: &str) -> bool {
    text.match_indices("--").any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + 2..].chars().next());
        let begins = !before.is_some_and(|c| c.is_alphanumeric() || c == '-');
        let is_of_tar = OF_TAR.iter().any(|option| text[at..].starts_with(option));
        begins && after.is_some_and(|c| c.is_ascii_lowercase()) && !is_of_tar
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tracked::new(path, text.to_owned()))
    }

    #[test]
    fn options_are_found_in_literals_and_macros() {
        let text = "/// --peb is fine here.\nfn f() {\n    a(\"x --peb y\");\n    format!(\"--size {x}\");\n}";
        assert_eq!(
            found("crates/a/src/b.rs", text),
            ["crates/a/src/b.rs:3", "crates/a/src/b.rs:4"]
        );
        assert_eq!(found("crates/cli/src/b.rs", text).len(), 0);
        assert_eq!(found("crates/a/tests/b.rs", text).len(), 0);
    }

    #[test]
    fn other_hyphens_are_none() {
        let text =
            "fn f() { a(\"made with --xattrs\"); b(\"x -- y\"); c(\"a--b\"); d(\"----a\"); }";
        assert_eq!(found("crates/a/src/b.rs", text).len(), 0);
        let tests = "#[cfg(test)]\nmod tests { fn f() { a(\"--peb\"); } }";
        assert_eq!(found("crates/a/src/b.rs", tests).len(), 0);
    }
}
