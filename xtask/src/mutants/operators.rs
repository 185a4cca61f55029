//! Finds the places of a source file where a mistake can be made, and makes it.
//!
//! Nothing is changed in constants, patterns, types, attributes, macros and tests.

use super::edit::Edit;
use super::values;
use proc_macro2::Span;
use quote::ToTokens;
use std::collections::BTreeMap;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Lit, RangeLimits, Signature, Stmt, UnOp};

/// The longest piece of source in a name.
const SHOWN: usize = 72;

/// A mistake that can be planted.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    /// The function and the mistake: stays the same when lines move.
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) edit: Edit,
}

/// Returns every mutant of a source file in the order of its functions. Fails if the file is not
/// Rust.
pub(super) fn mutants(file: &str, text: &str) -> syn::Result<Vec<Mutant>> {
    let parsed = syn::parse_file(text)?;
    let mut finder = Finder { file, text, owner: Vec::new(), found: Vec::new() };
    finder.visit_file(&parsed);
    let mut times = BTreeMap::new();
    for mutant in &mut finder.found {
        let times: &mut u32 = times.entry(mutant.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            mutant.name = format!("{} ({times})", mutant.name);
        }
    }
    Ok(finder.found)
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    /// Types, traits and functions around the place.
    owner: Vec<String>,
    found: Vec<Mutant>,
}

impl Finder<'_> {
    fn push(&mut self, place: Span, edit: Edit, what: &str) {
        let name = format!("{}: {}: {what}", self.file, self.owner.join("::"));
        self.found.push(Mutant { name, line: place.start().line, edit });
    }

    /// Plants another expression; `how` it differs is part of the name.
    fn instead(&mut self, expr: &Expr, other: &impl ToTokens, how: &str) {
        let other = other.to_token_stream().to_string();
        let range = expr.span().byte_range();
        let what = format!("`{}` {how}", self.shown(&range));
        self.push(expr.span(), Edit::instead(range, &other), &what);
    }

    /// Returns a piece of the source in one line.
    fn shown(&self, range: &Range<usize>) -> String {
        let words: Vec<&str> = self.text[range.clone()].split_whitespace().collect();
        short(&words.join(" "))
    }

    fn function(&mut self, attrs: &[syn::Attribute], signature: &Signature, block: &Block) {
        let is_left_out = is_test(attrs) || signature.constness.is_some();
        if is_left_out || signature.ident == "fmt" {
            return;
        }
        self.owner.push(signature.ident.to_string());
        let body = tight(&block.to_token_stream().to_string());
        for value in values::of(&signature.output) {
            if body != format!("{{ {value} }}") && !block.stmts.is_empty() {
                let at = block.brace_token.span.open().byte_range().end;
                let what = if value.is_empty() {
                    "returns at once".to_owned()
                } else {
                    format!("returns `{value}`")
                };
                self.push(signature.span(), Edit::returned(at, value), &what);
            }
        }
        if let [_, .., Stmt::Expr(last @ (Expr::Call(_) | Expr::MethodCall(_)), None)] =
            &*block.stmts
            && values::is_unit_result(&signature.output)
            && !is_ok(last)
        {
            let range = last.span().byte_range();
            let what = format!("without `{}`", self.shown(&range));
            self.push(last.span(), Edit::instead(range, "Ok(())"), &what);
        }
        visit::visit_block(self, block);
        self.owner.pop();
    }

    /// Plants conditions that always and never hold.
    fn condition(&mut self, cond: &Expr, is_loop: bool) {
        let range = cond.span().byte_range();
        if has_let(cond) {
            if !is_loop {
                let what = format!("`{}` never holds", self.shown(&range));
                self.push(cond.span(), Edit::never(range.end, " && !"), &what);
            }
            return;
        }
        for (value, word) in [("true", "always"), ("false", "never")] {
            // A loop that never ends says nothing.
            if !(is_loop && value == "true") {
                let what = format!("`{}` {word} holds", self.shown(&range));
                self.push(cond.span(), Edit::instead(range.clone(), value), &what);
            }
        }
    }

    fn statement(&mut self, expr: &Expr, stmt: &Stmt) {
        let call = if let Expr::Try(it) = expr { &*it.expr } else { expr };
        let is_effect = match call {
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) => true,
            Expr::Binary(it) => is_assignment(&it.op),
            _ => false,
        };
        if !is_effect {
            return;
        }
        let what = format!("without `{}`", self.shown(&expr.span().byte_range()));
        self.push(stmt.span(), Edit::without(stmt.span().byte_range()), &what);
        if let Expr::Try(it) = expr {
            let inner = it.expr.to_token_stream();
            let range = expr.span().byte_range();
            let what =
                format!("ignores the error of `{}`", self.shown(&it.expr.span().byte_range()));
            self.push(expr.span(), Edit::instead(range, &format!("let _ = {inner};")), &what);
        }
    }

    /// Plants another operator, method or number.
    fn expression(&mut self, expr: &Expr) {
        match expr {
            Expr::Binary(it) => {
                let is_chain = matches!(it.op, BinOp::And(_)) && has_let(expr);
                if let Some(op) = values::other_operator(&it.op).filter(|_| !is_chain) {
                    let mut other = it.clone();
                    other.op = op;
                    let how = format!("with `{}`", op.to_token_stream());
                    self.instead(expr, &other, &how);
                }
            }
            Expr::Unary(it) if matches!(it.op, UnOp::Not(_)) => {
                self.instead(expr, &it.expr, "without `!`");
            }
            Expr::Lit(it) => {
                if let Lit::Int(number) = &it.lit
                    && let Some(next) = values::next(number)
                {
                    self.instead(expr, &next, &format!("becomes `{next}`"));
                }
            }
            Expr::Range(it) => {
                if let (Some(_), Some(end)) = (&it.start, &it.end) {
                    let mut other = it.clone();
                    let (moved, how) = match it.limits {
                        RangeLimits::HalfOpen(_) => (syn::parse_quote!((#end) + 1), "longer by 1"),
                        RangeLimits::Closed(_) => (syn::parse_quote!((#end) - 1), "shorter by 1"),
                    };
                    other.end = Some(Box::new(moved));
                    self.instead(expr, &other, how);
                }
            }
            Expr::MethodCall(it) => {
                let name = it.method.to_string();
                if let Some(other_name) = values::other_method(&name) {
                    let mut other = it.clone();
                    other.method = syn::Ident::new(other_name, it.method.span());
                    self.instead(expr, &other, &format!("with `{other_name}`"));
                } else if values::is_question(&name) {
                    self.instead(expr, &quote::quote!(!#it), "negated");
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item;
        match item {
            Item::Fn(it) => self.function(&it.attrs, &it.sig, &it.block),
            Item::Mod(it) if !is_test(&it.attrs) => visit::visit_item_mod(self, it),
            Item::Impl(it) if !is_test(&it.attrs) => {
                self.owner.push(tight(&it.self_ty.to_token_stream().to_string()));
                visit::visit_item_impl(self, it);
                self.owner.pop();
            }
            Item::Trait(it) => {
                self.owner.push(it.ident.to_string());
                visit::visit_item_trait(self, it);
                self.owner.pop();
            }
            _ => {}
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if let syn::ImplItem::Fn(it) = item {
            self.function(&it.attrs, &it.sig, &it.block);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        if let syn::TraitItem::Fn(it) = item
            && let Some(block) = &it.default
        {
            self.function(&it.attrs, &it.sig, block);
        }
    }

    fn visit_stmt(&mut self, stmt: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(_)) = stmt
            && !has_attributes(expr)
        {
            self.statement(expr, stmt);
        }
        visit::visit_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if !has_attributes(expr) {
            self.expression(expr);
        }
        visit::visit_expr(self, expr);
    }

    fn visit_expr_if(&mut self, it: &'ast syn::ExprIf) {
        self.condition(&it.cond, false);
        visit::visit_expr_if(self, it);
    }

    fn visit_expr_while(&mut self, it: &'ast syn::ExprWhile) {
        self.condition(&it.cond, true);
        visit::visit_expr_while(self, it);
    }

    fn visit_expr_match(&mut self, it: &'ast syn::ExprMatch) {
        let has_rest = it.arms.last().is_some_and(|arm| matches!(arm.pat, syn::Pat::Wild(_)));
        for arm in &it.arms[..it.arms.len().saturating_sub(1)] {
            if arm.guard.is_none() && has_rest && arm.attrs.is_empty() {
                let range = arm.pat.span().byte_range();
                let what = format!("without the arm `{}`", self.shown(&range));
                self.push(arm.pat.span(), Edit::never(range.end, " if !"), &what);
            }
        }
        visit::visit_expr_match(self, it);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard, false);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_repeat(&mut self, it: &'ast syn::ExprRepeat) {
        self.visit_expr(&it.expr);
    }

    // Literals in these are constants.
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_path_arguments(&mut self, _: &'ast syn::PathArguments) {}
    fn visit_angle_bracketed_generic_arguments(
        &mut self,
        _: &'ast syn::AngleBracketedGenericArguments,
    ) {
    }
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

/// Returns whether a condition has a `let`, which cannot be put into parentheses.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(it) => has_let(&it.left) || has_let(&it.right),
        _ => false,
    }
}

fn is_assignment(op: &BinOp) -> bool {
    op.to_token_stream().to_string().ends_with('=')
        && !matches!(op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Le(_) | BinOp::Ge(_))
}

fn is_ok(expr: &Expr) -> bool {
    tight(&expr.to_token_stream().to_string()).starts_with("Ok(")
}

fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let text = tight(&attr.to_token_stream().to_string());
        text.contains("[test]") || (text.contains("[cfg(") && text.contains("test"))
    })
}

fn has_attributes(expr: &Expr) -> bool {
    expr.to_token_stream().into_iter().next().is_some_and(|token| token.to_string() == "#")
}

/// Returns tokens as people write them, roughly.
fn tight(tokens: &str) -> String {
    let tight = [
        (" . ", "."),
        (" :: ", "::"),
        (":: ", "::"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" ,", ","),
        (" ?", "?"),
        ("& ", "&"),
        ("&&", "&& "),
        (" [", "["),
        (" ]", "]"),
        (" ;", ";"),
        (" < ", "<"),
        (" >", ">"),
        ("! ", "!"),
        ("# [", "#["),
        ("# ", "#"),
    ];
    tight.iter().fold(tokens.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn short(text: &str) -> String {
    if text.len() <= SHOWN { text.to_owned() } else { format!("{}...", &text[..SHOWN]) }
}

#[cfg(test)]
mod tests {
    use super::super::edit::plant;
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the names of the mutants of the body of a function, and the text with each of them.
    fn of(source: &str) -> Vec<(String, String)> {
        let found = mutants("a.rs", source).unwrap();
        let with = |(number, mutant): (usize, &Mutant)| {
            let (text, _) = plant(source, &[&mutant.edit], number, &BTreeSet::new());
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            let switch = format!("::eraseblock_base::mutant::active({number})");
            (mutant.name.clone(), text.replace(&switch, "M"))
        };
        found.iter().enumerate().map(with).collect()
    }

    /// Returns what comes after the name of the function.
    fn mistakes(source: &str) -> Vec<String> {
        let found = of(source).into_iter();
        found.map(|it| it.0.split_once(": f: ").unwrap().1.to_owned()).collect()
    }

    /// Asserts that this is a mutant of a function with this body.
    fn becomes(body: &str, name: &str, with: &str) {
        let source = format!("fn f() -> T {{ {body} }}");
        let found = of(&source);
        let wanted = (format!("a.rs: f: {name}"), format!("fn f() -> T {{ {with} }}"));
        assert!(found.contains(&wanted), "{wanted:?} is not among {found:#?}");
    }

    #[test]
    fn operators_are_swapped() {
        becomes("a == b", "`a == b` with `!=`", "(if M { a != b } else { a == b })");
        becomes("a < b", "`a < b` with `<=`", "(if M { a <= b } else { a < b })");
        becomes("a && b", "`a && b` with `||`", "(if M { a || b } else { a && b })");
        becomes("a + b", "`a + b` with `-`", "(if M { a - b } else { a + b })");
        becomes("!a.b", "`!a.b` without `!`", "(if M { a . b } else { !a.b })");
    }

    #[test]
    fn numbers_ranges_and_methods_change() {
        becomes("g(7u8)", "`7u8` becomes `8u8`", "g((if M { 8u8 } else { 7u8 }))");
        becomes("a..b", "`a..b` longer by 1", "(if M { a .. (b) + 1 } else { a..b })");
        becomes("a.min(b)", "`a.min(b)` with `max`", "(if M { a . max (b) } else { a.min(b) })");
        becomes(
            "a.is_empty()",
            "`a.is_empty()` negated",
            "(if M { ! a . is_empty () } else { a.is_empty() })",
        );
    }

    #[test]
    fn statements_are_left_out_and_errors_ignored() {
        becomes("a.b(c); d", "without `a.b(c)`", "if !M { a.b(c); } d");
        becomes("a = c; d", "without `a = c`", "if !M { a = c; } d");
        becomes("a.b()?; d", "without `a.b()?`", "if !M { a.b()?; } d");
        becomes(
            "a.b()?; d",
            "ignores the error of `a.b()`",
            "(if M { let _ = a . b (); } else { a.b()? }); d",
        );
    }

    #[test]
    fn conditions_always_and_never_hold() {
        becomes("if a { b }", "`a` always holds", "if (if M { true } else { a }) { b }");
        becomes("if a { b }", "`a` never holds", "if (if M { false } else { a }) { b }");
        becomes("if let A = b { c }", "`let A = b` never holds", "if let A = b && !M  { c }");
        becomes(
            "match a { B => c, _ => d }",
            "without the arm `B`",
            "match a { B if !M  => c, _ => d }",
        );
        // A chain with `let` is not swapped, and a loop that never ends says nothing.
        assert_eq!(mistakes("fn f() -> T { if let A = b && c { d } }").len(), 1);
        assert_eq!(mistakes("fn f() -> T { while a { b } }"), ["`a` never holds"]);
    }

    #[test]
    fn functions_return_at_once() {
        let of = |output: &str| mistakes(&format!("fn f(){output} {{ a }}"));
        assert_eq!(of(""), ["returns at once"]);
        assert_eq!(of(" -> bool"), ["returns `true`", "returns `false`"]);
        assert_eq!(of(" -> Result<(), E>"), ["returns `Ok(())`"]);
        assert_eq!(of(" -> io::Result<Option<T>>"), ["returns `Ok(None)`"]);
        assert_eq!(of(" -> Option<T>"), ["returns `None`"]);
        assert_eq!(of(" -> u32"), ["returns `0`", "returns `1`"]);
        assert_eq!(of(" -> &T"), [""; 0]);
        let tail = "fn f() -> Result<()> { let a = b; c(a) }";
        assert_eq!(mistakes(tail), ["returns `Ok(())`", "without `c(a)`"]);
    }

    #[test]
    fn nothing_is_planted_in_constants_patterns_attributes_macros_and_tests() {
        for source in [
            "const A: u32 = 1 + 2;",
            "static A: [u8; 2] = [1; 2];",
            "enum A { B = 1 }",
            "const fn f() -> u32 { 1 + 2 }",
            "fn f(a: [u8; 4]) -> T { let b: [u8; 3] = [a; 7]; b }",
            "fn f() -> T { match a { 1..=3 => b, 4 | 5 => c, d => e } }",
            "fn f() -> T { a::<{ 1 + 2 }>() }",
            "fn f() -> T { const { 1 + 2 } }",
            "fn f() -> T { debug_assert!(a == 1); a }",
            "fn f() -> T { #[allow(x = 1)] { a }; b }",
            "#[test] fn f() { a(1) }",
            "#[cfg(test)] mod tests { fn f() { a(1) } }",
            "impl Debug for A { fn fmt(&self) -> bool { a == 1 } }",
        ] {
            assert_eq!(of(source).len(), 0, "{source}: {:?}", of(source));
        }
    }

    #[test]
    fn names_stay_when_lines_move_and_equal_ones_are_numbered() {
        let source = "impl A { fn f(&self) -> T { a(1); a(1); b } }";
        let names: Vec<String> = of(source).into_iter().map(|it| it.0).collect();
        assert!(names.contains(&"a.rs: A::f: without `a(1)`".to_owned()), "{names:?}");
        assert!(names.contains(&"a.rs: A::f: without `a(1)` (2)".to_owned()), "{names:?}");
        let moved = format!("\n// why\n\n{source}");
        let again: Vec<String> = of(&moved).into_iter().map(|it| it.0).collect();
        assert_eq!(names, again);
    }
}
