//! The page and its answers in one file, which a browser opens without a server.
//!
//! The modules become one script, and a hash in the policy of the page names it: no name of the image
//! can run. The answers are a data block.

use crate::assets::{MODULES, PAGE, STYLE};
use sha2::{Digest, Sha256};
use std::io::{self, Write};

/// Where in the page style, script and data go.
const PLACE_OF_STYLE: &str = "<link rel=\"stylesheet\" href=\"style.css\">";
const PLACE_OF_SCRIPT: &str = "<script type=\"module\" src=\"main.js\"></script>";

/// Writes the page. `answers` are questions, as the page asks them, and the documents that answer them;
/// `contents` are questions about whole contents of files, and these contents.
///
/// # Errors
///
/// Fails if `out` does.
pub fn write<'a>(
    answers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    contents: impl IntoIterator<Item = (String, Vec<u8>)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let page = String::from_utf8_lossy(PAGE.bytes);
    let style = String::from_utf8_lossy(STYLE.bytes);
    let script = script();
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src blob:; \
         base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'",
        base64(&Sha256::digest(&script)),
        base64(&Sha256::digest(style.as_bytes())),
    );
    let inline = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<style>{style}</style>"
    );
    let page = page.replace(PLACE_OF_STYLE, &inline);
    let (before, after) = page.split_once(PLACE_OF_SCRIPT).unwrap_or((&page, ""));
    out.write_all(before.as_bytes())?;
    out.write_all(b"<script type=\"application/json\" id=\"answers\">{")?;
    let mut comma = "";
    for (question, answer) in answers {
        write!(out, "{comma}\n\"{question}\":")?;
        write_inert(answer, out)?;
        comma = ",";
    }
    for (question, content) in contents {
        write!(out, "{comma}\n\"{question}\":\"{}\"", base64(&content))?;
        comma = ",";
    }
    out.write_all(b"}</script>\n<script type=\"module\">")?;
    out.write_all(script.as_bytes())?;
    out.write_all(b"</script>")?;
    out.write_all(after.as_bytes())
}

/// Writes JSON without the sign that could end the data block; it occurs in strings only.
fn write_inert(json: &[u8], out: &mut dyn Write) -> io::Result<()> {
    for (number, part) in json.split(|byte| *byte == b'<').enumerate() {
        if number > 0 {
            out.write_all(b"\\u003c")?;
        }
        out.write_all(part)?;
    }
    Ok(())
}

/// Returns the modules as one script: their top-level names differ, so that the imports can go.
fn script() -> String {
    let mut script = String::new();
    for module in MODULES {
        for line in String::from_utf8_lossy(module.bytes).lines() {
            if !line.starts_with("import ") {
                script.push_str(line.strip_prefix("export ").unwrap_or(line));
                script.push('\n');
            }
        }
    }
    script
}

/// Returns bytes in base64.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = (0..3)
            .fold(0, |number, at| number << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        for (text, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }

    #[test]
    fn no_answer_ends_the_data_block() {
        let mut page = Vec::new();
        let answer = br#"{"name":"</script><script>alert(1)</script>"}"#;
        let content = ("content?ino=65&vol=0".to_owned(), b"</script>".to_vec());
        write([("summary", &answer[..])], [content], &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains(",\n\"content?ino=65&vol=0\":\"PC9zY3JpcHQ+\"}</script>"));
        assert!(page.contains(r#""summary":{"name":"\u003c/script>\u003cscript>alert(1)"#));
        assert_eq!(page.matches("<script").count(), 2);
        assert!(!page.contains("src=\"main.js\"") && !page.contains("\nimport "));
    }

    #[test]
    fn modules_have_no_statement_that_the_script_would_lose() {
        for module in MODULES {
            let text = String::from_utf8_lossy(module.bytes);
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                assert!(line.ends_with(".js';"), "{}: {line}", module.name);
            }
            assert!(!text.contains("export default") && !text.contains("export {"));
        }
        let script = script();
        let mut names: Vec<&str> = script
            .lines()
            .filter_map(|line| {
                let mut words = line.split([' ', '(', '=', ';']).filter(|word| !word.is_empty());
                let first = words.next()?;
                let is_named = ["function", "const", "let", "class", "async"].contains(&first);
                if !is_named || line.starts_with(' ') {
                    return None;
                }
                words.find(|word| *word != "function")
            })
            .collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "two modules use one name: {names:?}");
        assert!(count > 50);
    }
}
