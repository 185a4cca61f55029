//! Other operators, methods, numbers and return values.

use quote::ToTokens;
use syn::{BinOp, GenericArgument, LitInt, PathArguments, ReturnType, Type};

const NUMBERS: [&str; 10] =
    ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"];

/// Returns what a function of this type may return at once.
pub(super) fn of(output: &ReturnType) -> &'static [&'static str] {
    match output {
        ReturnType::Default => &[""],
        ReturnType::Type(_, kind) => of_type(kind),
    }
}

fn of_type(kind: &Type) -> &'static [&'static str] {
    let Some((name, inner)) = name(kind) else { return &[] };
    match name.as_str() {
        "bool" => &["true", "false"],
        "Option" => &["None"],
        "Vec" => &["Vec::new()"],
        "Result" => inner.as_ref().map_or(&[], of_result),
        name if NUMBERS.contains(&name) => &["0", "1"],
        _ => &[],
    }
}

fn of_result(inner: &Type) -> &'static [&'static str] {
    if is_unit(inner) {
        return &["Ok(())"];
    }
    match name(inner).map(|it| it.0).as_deref() {
        Some("bool") => &["Ok(true)", "Ok(false)"],
        Some("Option") => &["Ok(None)"],
        Some("Vec") => &["Ok(Vec::new())"],
        Some(name) if NUMBERS.contains(&name) => &["Ok(0)", "Ok(1)"],
        _ => &[],
    }
}

/// Returns whether a function returns `Result<()>` of some kind.
pub(super) fn is_unit_result(output: &ReturnType) -> bool {
    of(output) == ["Ok(())"]
}

/// Returns the last name of a type and the first type in its angle brackets.
fn name(kind: &Type) -> Option<(String, Option<Type>)> {
    let Type::Path(path) = kind else { return None };
    let last = path.path.segments.last()?;
    let inner = match &last.arguments {
        PathArguments::AngleBracketed(list) => {
            list.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(kind) => Some(kind.clone()),
                _ => None,
            })
        }
        _ => None,
    };
    Some((last.ident.to_string(), inner))
}

fn is_unit(kind: &Type) -> bool {
    matches!(kind, Type::Tuple(tuple) if tuple.elems.is_empty())
}

/// Returns the operator that is written by mistake.
pub(super) fn other_operator(op: &BinOp) -> Option<BinOp> {
    let other = match op.to_token_stream().to_string().as_str() {
        "==" => "!=",
        "!=" => "==",
        "<" => "<=",
        "<=" => "<",
        ">" => ">=",
        ">=" => ">",
        "&&" => "||",
        "||" => "&&",
        "+" => "-",
        "-" => "+",
        "+=" => "-=",
        "-=" => "+=",
        "&" => "|",
        "|" => "&",
        "&=" => "|=",
        "|=" => "&=",
        _ => return None,
    };
    syn::parse_str(other).ok()
}

/// Returns the method that is called by mistake.
pub(super) fn other_method(name: &str) -> Option<&'static str> {
    let other = match name {
        "min" => "max",
        "max" => "min",
        "any" => "all",
        "all" => "any",
        "is_some" => "is_none",
        "is_none" => "is_some",
        "is_ok" => "is_err",
        "is_err" => "is_ok",
        "is_some_and" => "is_none_or",
        "is_none_or" => "is_some_and",
        "first" => "last",
        "last" => "first",
        _ => return None,
    };
    Some(other)
}

/// Returns whether a method of the standard library answers yes or no.
pub(super) fn is_question(name: &str) -> bool {
    matches!(name, "is_empty" | "contains" | "contains_key" | "is_multiple_of")
}

/// Returns the next number with the same suffix.
pub(super) fn next(number: &LitInt) -> Option<LitInt> {
    let value = number.base10_parse::<u128>().ok()?.checked_add(1)?;
    Some(LitInt::new(&format!("{value}{}", number.suffix()), number.span()))
}
