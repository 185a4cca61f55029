//! What the page asks, and what it gets.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;

/// The largest answer in bytes: a preview.
pub const LARGEST: u64 = 8 << 20;
/// Letters that names and values of a question may have beside letters and digits.
const SIGNS: &[u8] = b"-_.:";
/// Parameters of a question at most.
const MOST: usize = 16;

/// A question: a path below `/api`, and parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    path: String,
    values: BTreeMap<String, String>,
}

impl Question {
    /// Parses a path and what follows the question mark. The page only asks in letters, digits and few
    /// signs, so that nothing is ever escaped.
    ///
    /// # Errors
    ///
    /// Refuses everything else, and a parameter that occurs twice.
    pub fn parse(path: &str, query: &str) -> Result<Self, Refusal> {
        let is_plain = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || SIGNS.contains(&byte))
        };
        if !path.split('/').all(is_plain) {
            return Err(Refusal::bad("the path has letters that no question has"));
        }
        let mut values = BTreeMap::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if !is_plain(name) || !is_plain(value) || values.len() == MOST {
                return Err(Refusal::bad("the parameters have letters that no question has"));
            }
            if values.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(Refusal::bad(format!("{name} occurs twice")));
            }
        }
        Ok(Self { path: path.to_owned(), values })
    }

    /// Returns the parts of the path.
    pub fn path(&self) -> Vec<&str> {
        self.path.split('/').collect()
    }

    /// Returns a parameter as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Returns a parameter as a number, or `usual` if it is absent.
    ///
    /// # Errors
    ///
    /// Refuses what is no number.
    pub fn number(&self, name: &str, usual: u64) -> Result<u64, Refusal> {
        self.text(name).map_or(Ok(usual), |text| number(name, text))
    }
}

/// Parses a number of a question.
pub(crate) fn number<T: FromStr>(name: &str, text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| Refusal::bad(format!("{name}: expected a number")))
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A JSON document.
    Json(Vec<u8>),
    /// Bytes of a file in the image. The browser only ever stores them.
    Bytes(Vec<u8>),
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// The reason, for people.
    pub message: String,
}

impl Refusal {
    /// Refuses a question that makes no sense, or asks for too much.
    pub fn bad(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into() }
    }

    /// Says that there is no such thing.
    pub fn missing(message: impl Into<String>) -> Self {
        Self { status: 404, message: message.into() }
    }

    /// Says that the thing is there and cannot be delivered.
    pub fn damaged(message: impl Into<String>) -> Self {
        Self { status: 422, message: message.into() }
    }

    /// Says that the answer is being worked out: the page asks again.
    pub fn not_yet(message: impl Into<String>) -> Self {
        Self { status: 503, message: message.into() }
    }
}

/// Answers the questions about one image. It is asked by several threads at once.
pub trait Source: Debug + Send + Sync + 'static {
    /// Answers a question.
    ///
    /// # Errors
    ///
    /// Refuses questions that make no sense or ask for too much.
    fn answer(&self, question: &Question) -> Result<Answer, Refusal>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_plain_letters_only() {
        let question = Question::parse("leb/0/7", "from=12&asof=commit:3").unwrap();
        assert_eq!(question.path(), ["leb", "0", "7"]);
        assert_eq!(question.number("from", 0), Ok(12));
        assert_eq!(question.number("len", 5), Ok(5));
        assert_eq!(question.text("asof"), Some("commit:3"));
        for (path, query) in [
            ("a%2e", ""),
            ("a\\b", ""),
            ("a", "x=%3C"),
            ("a", "x=1&x=2"),
            ("a", "<script>"),
            ("a", "a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q"),
        ] {
            assert_eq!(Question::parse(path, query).unwrap_err().status, 400, "{path} {query}");
        }
        for text in ["-1", "x", "18446744073709551616"] {
            let question = Question::parse("a", &format!("n={text}")).unwrap();
            assert_eq!(question.number("n", 0).unwrap_err().status, 400, "{text}");
        }
    }
}
