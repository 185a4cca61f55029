//! What pictures and pages have in common.

/// Returns text as content or as a quoted attribute of XML and HTML. Control characters, which XML
/// cannot contain, become spaces.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            control if control.is_control() && !"\n\t".contains(control) => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Checks that text is well-formed: every element is closed, and attributes are quoted.
#[cfg(test)]
pub(super) fn check(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let (content, tag) = rest.split_at(start);
        check_references(content)?;
        let end = tag.find('>').ok_or("a tag without an end")?;
        let (inside, after) = (&tag[1..end], &tag[end + 1..]);
        rest = after;
        if inside.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = inside.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let name = inside.split([' ', '\n', '/']).next().unwrap_or_default();
        let attributes = inside[name.len()..].trim_end_matches('/');
        if attributes.matches('"').count() != 2 * attributes.matches("=\"").count() {
            return Err(format!("attributes of <{inside}>"));
        }
        check_references(attributes)?;
        if !inside.ends_with('/') {
            open.push(name);
        }
    }
    check_references(rest)?;
    if open.is_empty() { Ok(()) } else { Err(format!("not closed: {open:?}")) }
}

#[cfg(test)]
fn check_references(text: &str) -> Result<(), String> {
    for part in text.split('&').skip(1) {
        let (name, _) = part.split_once(';').ok_or_else(|| format!("& in {text}"))?;
        let is_known = ["amp", "lt", "gt", "quot"].contains(&name) || name.starts_with('#');
        if !is_known {
            return Err(format!("&{name};"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_stays_text() {
        let text = "<script a=\"1\" b='2'>&amp;\u{0}\u{1b}";
        assert_eq!(escape(text), "&lt;script a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;amp;  ");
        check(&format!("<p title=\"{0}\">{0}</p>", escape(text))).unwrap();
    }

    #[test]
    fn the_check_finds_what_is_not_well_formed() {
        for wrong in ["<p>", "<p></q>", "a & b", "<p a=b\">x</p>", "<br>", "<p", "&nbsp;"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        check("<!DOCTYPE html>\n<p a=\"1\">x<br/></p>").unwrap();
    }
}
