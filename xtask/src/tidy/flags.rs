//! A literal `true` or `false` as an argument says nothing where it stands: two functions, an enum or
//! a field of options do.

use super::Tracked;
use std::collections::{BTreeMap, BTreeSet};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

/// Functions by the type that they belong to, if to one, and their name; with the places of their
/// `bool` parameters, for which `self` does not count.
type Flags = BTreeMap<(Option<String>, String), BTreeSet<usize>>;

/// Returns the calls with a literal `bool` for a function of our crates that takes one. Setters are
/// left out: their name says what the value is.
pub(super) fn check(files: &[Tracked]) -> Vec<String> {
    let product = files.iter().filter(|file| is_product(file));
    let trees: Vec<(&Tracked, &syn::File)> =
        product.filter_map(|file| Some((file, file.tree()?))).collect();
    let tests: BTreeSet<String> =
        trees.iter().flat_map(|(file, tree)| test_files(&file.path, tree)).collect();
    let mut definitions = Definitions { owner: None, flags: Flags::new() };
    for (file, tree) in &trees {
        if !tests.contains(&file.path) {
            definitions.visit_file(tree);
        }
    }
    let mut faults = Vec::new();
    for (file, tree) in &trees {
        if tests.contains(&file.path) {
            continue;
        }
        let mut calls = Calls { owner: None, flags: &definitions.flags, found: Vec::new() };
        calls.visit_file(tree);
        let place = |(line, name)| format!("{}:{line}: {name}", file.path);
        faults.extend(calls.found.into_iter().map(place));
    }
    faults
}

fn is_product(file: &Tracked) -> bool {
    let is_source = file.path.starts_with("crates/") && file.path.contains("/src/");
    file.is_rust() && is_source && !super::is_of_tests(&file.path)
}

/// Returns the files of the modules of a file that are compiled for tests only.
fn test_files(path: &str, tree: &syn::File) -> Vec<String> {
    let folder = match path.rsplit_once('/') {
        Some((folder, "lib.rs" | "main.rs")) => folder,
        _ => path.trim_end_matches(".rs"),
    };
    let modules = tree.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if super::is_for_tests(&module.attrs) => Some(&module.ident),
        _ => None,
    });
    modules.map(|name| format!("{folder}/{name}.rs")).collect()
}

/// Collects functions.
struct Definitions {
    owner: Option<String>,
    flags: Flags,
}

impl Definitions {
    fn look(&mut self, signature: &syn::Signature) {
        if is_setter(signature) {
            return;
        }
        let typed = signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(typed) => Some(&*typed.ty),
            syn::FnArg::Receiver(_) => None,
        });
        let places: BTreeSet<usize> =
            typed.enumerate().filter(|(_, ty)| is_named(ty, "bool")).map(|row| row.0).collect();
        if places.is_empty() {
            return;
        }
        let name = signature.ident.to_string();
        if signature.receiver().is_some() {
            // The type of a receiver is not known where the method is called.
            self.flags.entry((None, format!(".{name}"))).or_default().extend(&places);
        }
        self.flags.entry((self.owner.clone(), name)).or_default().extend(places);
    }
}

/// Returns whether a function sets one value: it is called `set_...`, or returns `Self`.
fn is_setter(signature: &syn::Signature) -> bool {
    let returns_self = match &signature.output {
        syn::ReturnType::Type(_, ty) => is_named(ty, "Self"),
        syn::ReturnType::Default => false,
    };
    let is_named_so = signature.ident.to_string().starts_with("set_");
    signature.receiver().is_some() && signature.inputs.len() == 2 && (returns_self || is_named_so)
}

fn is_named(ty: &syn::Type, name: &str) -> bool {
    matches!(ty, syn::Type::Path(path) if path.path.is_ident(name))
}

/// Returns the name of the type of an `impl`.
fn owner(item: &syn::ItemImpl) -> Option<String> {
    let syn::Type::Path(path) = &*item.self_ty else { return None };
    path.path.segments.last().map(|last| last.ident.to_string())
}

impl<'ast> Visit<'ast> for Definitions {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.look(signature);
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let before = std::mem::replace(&mut self.owner, owner(item));
        visit::visit_item_impl(self, item);
        self.owner = before;
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !super::is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

/// Collects calls.
struct Calls<'a> {
    owner: Option<String>,
    flags: &'a Flags,
    found: Vec<(usize, String)>,
}

impl Calls<'_> {
    fn look(
        &mut self,
        key: &(Option<String>, String),
        name: &syn::Ident,
        args: &Punctuated<syn::Expr, syn::Token![,]>,
    ) {
        let Some(places) = self.flags.get(key) else { return };
        let is_fault = |(place, arg): (usize, &syn::Expr)| places.contains(&place) && is_bool(arg);
        if args.iter().enumerate().any(is_fault) {
            self.found.push((name.span().start().line, name.to_string()));
        }
    }
}

fn is_bool(arg: &syn::Expr) -> bool {
    matches!(arg, syn::Expr::Lit(literal) if matches!(literal.lit, syn::Lit::Bool(_)))
}

impl<'ast> Visit<'ast> for Calls<'_> {
    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func {
            let mut segments = path.path.segments.iter().rev().map(|segment| &segment.ident);
            let (last, before) = (segments.next(), segments.next().map(ToString::to_string));
            // Modules are not types.
            let owner = before.filter(|name| name.starts_with(char::is_uppercase));
            let owner = if owner.as_deref() == Some("Self") { self.owner.clone() } else { owner };
            if let Some(name) = last {
                self.look(&(owner, name.to_string()), name, &call.args);
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.look(&(None, format!(".{}", call.method)), &call.method, &call.args);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let before = std::mem::replace(&mut self.owner, owner(item));
        visit::visit_item_impl(self, item);
        self.owner = before;
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !super::is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(&[Tracked::new("crates/vfs/src/a.rs", text.to_owned())])
    }

    #[test]
    fn literal_arguments_are_found() {
        let text = "fn open(path: &str, write: bool) {}\nfn f() { open(\"a\", true) }";
        assert_eq!(found(text), ["crates/vfs/src/a.rs:2: open"]);
        let method =
            "impl A { fn put(&self, a: u8, b: bool) {} fn f(&self) { self.put(1, false) } }";
        assert_eq!(found(method).len(), 1);
        let of_type =
            "impl A { fn new(b: bool) -> Self { A }\nfn f() { Self::new(true); A::new(false) } }";
        assert_eq!(found(of_type).len(), 2);
    }

    #[test]
    fn other_calls_are_not() {
        assert_eq!(found("fn open(write: bool) {} fn f(w: bool) { open(w) }").len(), 0);
        assert_eq!(
            found("impl A { fn new(b: bool) {} } fn f() { AtomicBool::new(true); }").len(),
            0
        );
        let setters =
            "impl A { fn x(mut self, b: bool) -> Self { self } fn set_y(&self, b: bool) {} }";
        assert_eq!(found(&format!("{setters} fn f() {{ a.x(true).set_y(false) }}")).len(), 0);
        let tests = "fn g(b: bool) {} #[cfg(test)] mod tests { fn f() { g(true) } }";
        assert_eq!(found(tests).len(), 0);
    }
}
