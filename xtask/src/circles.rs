//! `cargo xtask circles FOLDER`: circles of calls between the files of a folder.
//!
//! Imports hide them: a method is called without an import, so that files which use no name of each
//! other can need each other all the same. Calls are resolved by name: `Type::name` and `module::name`
//! by what stands before the name, methods by the type of a parameter or of a field where it is
//! written, other methods when one type of the folder alone defines the name and the standard
//! library has none like it. What stays ambiguous is left out.
//!
//! A circle that is meant stands in the head of the file that includes the folder, as a line
//! `Circle: a, b: why`.

use crate::command::repository;
use crate::tidy::is_for_tests;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Methods of the standard library: a call of one says nothing about the type.
const STANDARD: [&str; 34] = [
    "all", "any", "as_slice", "chain", "clear", "clone", "collect", "contains", "end", "entry",
    "extend", "find", "first", "get", "get_mut", "insert", "is_empty", "iter", "last", "len",
    "map", "next", "pop", "position", "push", "read", "remove", "replace", "retain", "start",
    "sum", "take", "walk", "write",
];

/// The calls of one file that lead to another, by name.
type Arrows = BTreeMap<(String, String), BTreeSet<String>>;

/// Where a function or method is defined.
#[derive(Debug)]
struct Definition {
    /// The type of a method.
    owner: Option<String>,
    file: String,
}

/// A call as it is written.
#[derive(Debug)]
struct Call {
    file: String,
    name: String,
    /// The type in whose methods the call stands.
    owner: Option<String>,
    form: Form,
}

/// How a call is written.
#[derive(Debug)]
enum Form {
    /// `Name::call()`, with the name.
    Path(String),
    /// `call()`.
    Plain,
    /// `it.call()`.
    Method(Receiver),
}

/// What a method is called on.
#[derive(Debug)]
enum Receiver {
    /// A type known by name: that of `self`, or of a parameter.
    Type(String),
    /// A field of this name.
    Field(String),
    Unknown,
}

#[derive(Debug, Default)]
struct Code {
    /// The type of each field of all structures; `None` where two have fields of that name.
    fields: BTreeMap<String, Option<String>>,
    definitions: BTreeMap<String, Vec<Definition>>,
    calls: Vec<Call>,
}

/// Prints the circles of a folder; false if there is one that is not meant.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let [folder] = args else { anyhow::bail!("usage: cargo xtask circles FOLDER") };
    let folder = Path::new(folder);
    let (code, files) = read(folder)?;
    let arrows = code.arrows();
    let meant = meant(folder)?;
    let mut is_good = true;
    let circles = circles(&arrows);
    for circle in &circles {
        let is_meant = meant.contains(circle);
        is_good &= is_meant;
        let note = if is_meant { " (meant)" } else { "" };
        println!("circle of {} files{note}: {}", circle.len(), names(circle));
        for ((from, to), calls) in &arrows {
            if circle.contains(from) && circle.contains(to) {
                println!("  {from} -> {to}: {}", names(calls));
            }
        }
    }
    let functions: usize = code.definitions.values().map(Vec::len).sum();
    println!("{files} files, {functions} functions, {} circles", circles.len());
    code.largest().iter().for_each(|(owner, methods, files)| {
        println!("  {owner}: {methods} methods in {files} files");
    });
    Ok(is_good)
}

/// Returns what is wrong with a folder, in words.
pub(crate) fn faults(folder: &Path) -> Result<Vec<String>> {
    let (code, _) = read(folder)?;
    let meant = meant(folder)?;
    let circles = circles(&code.arrows());
    let wrong = circles.iter().filter(|circle| !meant.contains(*circle));
    let at = folder.strip_prefix(repository()).unwrap_or(folder).display();
    let mut faults: Vec<String> =
        wrong.map(|circle| format!("{at}: a circle of calls: {}", names(circle))).collect();
    let gone = meant.iter().filter(|circle| !circles.contains(circle));
    faults.extend(gone.map(|circle| format!("{at}: no circle any more: {}", names(circle))));
    Ok(faults)
}

fn names(set: &BTreeSet<String>) -> String {
    set.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Reads all sources of a folder but its tests; returns the number of files, too.
fn read(folder: &Path) -> Result<(Code, usize)> {
    let mut code = Code::default();
    let mut paths = Vec::new();
    collect(folder, &mut paths)?;
    paths.sort();
    for path in &paths {
        let text = fs::read_to_string(path)?;
        let tree = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        let name = path.strip_prefix(folder)?.with_extension("").display().to_string();
        Reader::new(&mut code, name).visit_file(&tree);
    }
    Ok((code, paths.len()))
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default();
        if stem == "tests" || stem == "sabotage" {
            continue;
        }
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}

/// Returns the circles that the head of the folder's file names.
fn meant(folder: &Path) -> Result<Vec<BTreeSet<String>>> {
    let heads = [folder.with_extension("rs"), folder.join("lib.rs"), folder.join("main.rs")];
    let head = heads.iter().find(|path| path.exists());
    let head = head.with_context(|| format!("no file includes {}", folder.display()))?;
    let text = fs::read_to_string(head)?;
    let of_line = |line: &str| {
        let (files, _why) = line.strip_prefix("//! Circle: ")?.split_once(": ")?;
        Some(files.split(", ").map(|name| name.trim_matches('`').to_owned()).collect())
    };
    Ok(text.lines().filter_map(of_line).collect())
}

impl Code {
    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for call in &self.calls {
            let Some(target) = self.target(call) else { continue };
            if target.file != call.file {
                let names = arrows.entry((call.file.clone(), target.file.clone())).or_default();
                names.insert(call.name.clone());
            }
        }
        arrows
    }

    /// Returns the definition that a call means, or `None` for one outside or an ambiguous one.
    fn target(&self, call: &Call) -> Option<&Definition> {
        let all = self.definitions.get(&call.name)?;
        match &call.form {
            Form::Path(before) => {
                let owner = if before == "Self" { call.owner.as_ref() } else { Some(before) };
                all.iter().find(|one| match &one.owner {
                    Some(_) => one.owner.as_ref() == owner,
                    None => one.file.rsplit('/').next() == Some(before),
                })
            }
            Form::Plain => {
                let own = all.iter().find(|one| one.owner.is_none() && one.file == call.file);
                own.or_else(|| only(all.iter().filter(|one| one.owner.is_none())))
            }
            Form::Method(on) => self.method(all, &call.name, on),
        }
    }

    /// Returns the one of the definitions of a name that a call as a method means.
    fn method<'a>(
        &self,
        all: &'a [Definition],
        name: &str,
        on: &Receiver,
    ) -> Option<&'a Definition> {
        let of = |owner: &String| all.iter().find(|one| one.owner.as_ref() == Some(owner));
        match on {
            Receiver::Type(owner) => of(owner),
            Receiver::Field(field) if self.fields.get(field).is_some_and(Option::is_some) => {
                self.fields[field].as_ref().and_then(of)
            }
            _ if STANDARD.contains(&name) => None,
            _ => only(all.iter().filter(|one| one.owner.is_some())),
        }
    }

    /// The types with the most methods: name, methods, files.
    fn largest(&self) -> Vec<(String, usize, usize)> {
        let mut types: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
        for definition in self.definitions.values().flatten() {
            let Some(owner) = &definition.owner else { continue };
            let entry = types.entry(owner).or_default();
            entry.0 += 1;
            entry.1.insert(&definition.file);
        }
        let mut sizes: Vec<_> = types
            .into_iter()
            .map(|(owner, (methods, files))| (owner.to_owned(), methods, files.len()))
            .collect();
        sizes.sort_by_key(|size| std::cmp::Reverse(size.1));
        sizes.truncate(5);
        sizes
    }
}

/// Returns the item of an iterator that has one alone.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    match (items.next(), items.next()) {
        (item, None) => item,
        _ => None,
    }
}

/// Returns the last name of the path of a type, through references.
fn type_name(of: &syn::Type) -> Option<String> {
    match of {
        syn::Type::Reference(reference) => type_name(&reference.elem),
        syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

/// Collects the definitions and calls of one file.
struct Reader<'a> {
    code: &'a mut Code,
    file: String,
    owner: Option<String>,
    /// The types of the parameters of the function.
    parameters: BTreeMap<String, String>,
}

impl<'a> Reader<'a> {
    fn new(code: &'a mut Code, file: String) -> Self {
        Self { code, file, owner: None, parameters: BTreeMap::new() }
    }

    fn define(&mut self, signature: &syn::Signature) {
        let definition = Definition { owner: self.owner.clone(), file: self.file.clone() };
        self.code.definitions.entry(signature.ident.to_string()).or_default().push(definition);
        self.parameters.clear();
        for input in &signature.inputs {
            let syn::FnArg::Typed(typed) = input else { continue };
            if let (syn::Pat::Ident(name), Some(of)) = (&*typed.pat, type_name(&typed.ty)) {
                self.parameters.insert(name.ident.to_string(), of);
            }
        }
        if let Some(owner) = &self.owner {
            self.parameters.insert("self".to_owned(), owner.clone());
        }
    }

    fn call(&mut self, name: String, form: Form) {
        let (file, owner) = (self.file.clone(), self.owner.clone());
        self.code.calls.push(Call { file, name, owner, form });
    }

    fn receiver(&self, of: &syn::Expr) -> Receiver {
        match of {
            syn::Expr::Path(path) => {
                let name = path.path.get_ident().map(ToString::to_string);
                let of_parameter = name.as_ref().and_then(|name| self.parameters.get(name));
                match (of_parameter, name) {
                    (Some(of), _) => Receiver::Type(of.clone()),
                    // `let Self { flash, heads, .. } = self` names variables after fields.
                    (None, Some(name)) => Receiver::Field(name),
                    (None, None) => Receiver::Unknown,
                }
            }
            syn::Expr::Field(field) => match &field.member {
                syn::Member::Named(name) => Receiver::Field(name.to_string()),
                syn::Member::Unnamed(_) => Receiver::Unknown,
            },
            _ => Receiver::Unknown,
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.owner = type_name(&item.self_ty);
        visit::visit_item_impl(self, item);
        self.owner = None;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.define(&item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            let of = type_name(&field.ty);
            let known = self.code.fields.entry(name.to_string()).or_insert_with(|| of.clone());
            if *known != of {
                *known = None;
            }
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.define(&item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let on = self.receiver(&call.receiver);
        self.call(call.method.to_string(), Form::Method(on));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let segments: Vec<String> =
            path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [rest @ .., name] = &segments[..] {
            self.call(name.clone(), rest.last().cloned().map_or(Form::Plain, Form::Path));
        }
        visit::visit_expr_path(self, path);
    }
}

/// Returns the sets of files each of which reaches all others of the set.
fn circles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let mut reach: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        reach.entry(from).or_default().insert(to);
    }
    loop {
        let mut longer = reach.clone();
        for targets in longer.values_mut() {
            let further: Vec<&str> =
                targets.iter().filter_map(|name| reach.get(name)).flatten().copied().collect();
            targets.extend(further);
        }
        if longer == reach {
            break;
        }
        reach = longer;
    }
    let reaches = |from: &str, to: &str| reach.get(from).is_some_and(|set| set.contains(to));
    let mut found = BTreeSet::new();
    for (from, targets) in &reach {
        let circle: BTreeSet<String> =
            targets.iter().filter(|to| reaches(to, from)).map(|name| (*name).to_owned()).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(files: &[(&str, &str)]) -> Arrows {
        let mut code = Code::default();
        for (file, text) in files {
            let tree = syn::parse_file(text).unwrap();
            Reader::new(&mut code, (*file).to_owned()).visit_file(&tree);
        }
        code.arrows()
    }

    #[test]
    fn calls_of_methods_in_other_files_are_arrows() {
        let a = "impl Core { fn up(&mut self) { self.down(); } }";
        let b = "impl Core { fn down(&mut self) { self.up() } fn len(&self) { self.list.len() } }";
        let arrows = arrows(&[("a", a), ("b", b)]);
        assert_eq!(arrows.len(), 2);
        assert_eq!(circles(&arrows), [BTreeSet::from(["a".to_owned(), "b".to_owned()])]);
    }

    #[test]
    fn functions_are_found_by_what_stands_before_them() {
        let a = "fn f() { b::g(); Thing::new() } impl Other { fn new() {} }";
        let b = "fn g() {} impl Thing { fn new() {} }";
        let found = arrows(&[("a", a), ("b", b)]);
        let names: Vec<_> = found[&("a".to_owned(), "b".to_owned())].iter().collect();
        assert_eq!(names, ["g", "new"]);
        assert!(circles(&found).is_empty());
    }

    #[test]
    fn ambiguous_methods_and_tests_are_left_out() {
        let a = "impl A { fn len(&self) { self.x.len() } } #[cfg(test)] mod t { fn h() { g() } }";
        let b = "impl B { fn len(&self) {} } fn g() {}";
        assert!(arrows(&[("a", a), ("b", b)]).is_empty());
    }
}
