//! Public functions that can fail say in their documentation when they do.

use super::{Tracked, is_for_tests};
use syn::visit::{self, Visit};

/// Words one of which names a failure.
const WORDS: [&str; 4] = ["error", "fail", "refus", "panic"];

/// Returns the public fallible functions of a file without a word about their failures.
pub(super) fn check(file: &Tracked) -> Vec<String> {
    let is_product = file.path.starts_with("crates/") && file.path.contains("/src/");
    if !is_product || !file.is_rust() || file.path.contains("/tests") {
        return Vec::new();
    }
    let Some(tree) = file.tree() else {
        return vec![format!("{}: cannot be parsed", file.path)];
    };
    let mut reader = Reader { silent: Vec::new() };
    reader.visit_file(tree);
    reader.silent.iter().map(|name| format!("{}: {name}", file.path)).collect()
}

struct Reader {
    silent: Vec<String>,
}

impl Reader {
    fn look(
        &mut self,
        visibility: &syn::Visibility,
        attrs: &[syn::Attribute],
        sig: &syn::Signature,
    ) {
        if !matches!(visibility, syn::Visibility::Public(_)) || !is_fallible(&sig.output) {
            return;
        }
        let text = docs(attrs).to_lowercase();
        if !WORDS.iter().any(|word| text.contains(word)) {
            self.silent.push(sig.ident.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.look(&item.vis, &item.attrs, &item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.look(&item.vis, &item.attrs, &item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

fn is_fallible(output: &syn::ReturnType) -> bool {
    let syn::ReturnType::Type(_, returned) = output else { return false };
    let syn::Type::Path(path) = &**returned else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "Result")
}

/// The text of the documentation.
fn docs(attrs: &[syn::Attribute]) -> String {
    let mut text = String::new();
    for attribute in attrs.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let syn::Meta::NameValue(pair) = &attribute.meta
            && let syn::Expr::Lit(literal) = &pair.value
            && let syn::Lit::Str(line) = &literal.lit
        {
            text += &line.value();
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(&Tracked::new("crates/a/src/b.rs", text.to_owned()))
    }

    #[test]
    fn silent_functions_are_found() {
        let silent = "/// Reads.\npub fn read() -> io::Result<u8> { Ok(1) }";
        assert_eq!(found(silent), ["crates/a/src/b.rs: read"]);
        let method = "impl A { /// Reads.\n pub fn read(&self) -> Result<u8, E> { Ok(1) } }";
        assert_eq!(found(method).len(), 1);
    }

    #[test]
    fn others_are_not() {
        assert!(
            found("/// Reads. Fails if not.\npub fn read() -> Result<u8> { Ok(1) }").is_empty()
        );
        assert!(found("/// Reads.\npub(crate) fn read() -> Result<u8> { Ok(1) }").is_empty());
        assert!(found("/// Reads.\npub fn read() -> Option<u8> { None }").is_empty());
    }
}
