//! The words of a line.

/// The words of a line: some without a value, then labels with values. Labels may stand in any order
/// as far as the head of a structure goes; what is taken does not come again.
#[derive(Debug)]
pub(super) struct Line<'a> {
    words: Vec<Word<'a>>,
}

/// A word.
#[derive(Clone, Copy, Debug)]
struct Word<'a> {
    label: &'a str,
    value: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// Splits a line at spaces outside quotation marks.
    pub(super) fn parse(text: &'a str) -> Self {
        let (mut words, mut start) = (Vec::new(), 0);
        let (mut is_quoted, mut is_escaped) = (false, false);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = is_quoted,
                b'"' => is_quoted = !is_quoted,
                b' ' if !is_quoted => {
                    words.push(&text[start..at]);
                    start = at + 1;
                }
                _ => {}
            }
        }
        words.push(&text[start..]);
        let words = words.into_iter().filter(|word| !word.is_empty()).map(|word| {
            match word.split_once('=') {
                Some((label, value)) => Word { label, value: Some(value) },
                None => Word { label: word, value: None },
            }
        });
        // Taken from the end.
        let mut words: Vec<Word<'a>> = words.collect();
        words.reverse();
        Self { words }
    }

    /// Takes the next word, if it has no value.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        self.words.pop_if(|word| word.value.is_none()).map(|word| word.label)
    }

    /// Takes the next label and its value.
    pub(super) fn pair(&mut self) -> Option<(&'a str, &'a str)> {
        let word = *self.words.last()?;
        let value = word.value?;
        self.words.pop();
        Some((word.label, value))
    }

    /// Takes the value of a label, wherever it stands.
    pub(super) fn take(&mut self, label: &str) -> Option<&'a str> {
        // The next one is meant nearly always.
        let at = self.words.iter().rposition(|word| word.label == label && word.value.is_some())?;
        self.words.remove(at).value
    }

    /// Returns the next word that was not taken.
    pub(super) fn left(&self) -> Option<&'a str> {
        self.words.last().map(|word| word.label)
    }
}
