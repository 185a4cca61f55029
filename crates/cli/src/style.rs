//! Colours on a terminal, plain text everywhere else.

use std::fmt::Display;
use std::io::IsTerminal;

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Whether one output stream gets colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    enabled: bool,
}

/// What a piece of text means; each has one look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ink {
    /// Headings and names that matter.
    Bold,
    /// Less important text.
    Faint,
    /// Something is wrong.
    Red,
    /// Something is suspicious.
    Yellow,
    /// Fine; executables.
    Green,
    /// Directories.
    Blue,
    /// Links; notes.
    Cyan,
    /// Device nodes.
    Magenta,
}

impl Ink {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Faint => "2",
            Self::Red => "1;31",
            Self::Yellow => "33",
            Self::Green => "32",
            Self::Blue => "1;34",
            Self::Cyan => "36",
            Self::Magenta => "35",
        }
    }
}

impl Style {
    /// The style of a stream under the user's choice.
    pub(crate) fn new(choice: ColorChoice, stream: &impl IsTerminal) -> Self {
        let enabled = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
                stream.is_terminal() && !refused && !dumb
            }
        };
        Self { enabled }
    }

    /// No colours at all.
    pub(crate) const PLAIN: Self = Self { enabled: false };

    /// `text` in the look of `ink`.
    pub(crate) fn paint(self, ink: Ink, text: impl Display) -> String {
        if self.enabled { format!("\x1b[{}m{text}\x1b[0m", ink.code()) } else { text.to_string() }
    }
}

/// Returns the number of columns of the terminal on standard output; 80 if there is none.
pub(crate) fn terminal_width() -> usize {
    let from_variable = || std::env::var("COLUMNS").ok()?.parse().ok();
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .or_else(from_variable)
        .unwrap_or(80)
        .clamp(40, 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_plain() {
        assert_eq!(Style::PLAIN.paint(Ink::Red, "x"), "x");
        let colours = Style::new(ColorChoice::Always, &std::io::stdout());
        assert_eq!(colours.paint(Ink::Red, "x"), "\x1b[1;31mx\x1b[0m");
    }
}
