//! What is wrong with a recipe, or with a dump that it is applied to.

use std::error::Error;
use std::{fmt, io};

/// A recipe that means nothing, or input and output that failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecipeError {
    /// The text of a recipe is not understood.
    Syntax(String),
    /// A part of a recipe contradicts another one.
    Recipe {
        /// The name of the recipe.
        name: String,
        /// What is wrong and what is expected.
        message: String,
    },
    /// The size of a file does not fit.
    Size {
        /// The size of the file.
        size: u64,
        /// The size of its unit.
        unit: u64,
        /// What the unit is.
        what: &'static str,
    },
    /// Another dump of a chip has another size.
    Sizes {
        /// The size of the file.
        size: u64,
        /// The size of the first one.
        expected: u64,
    },
    /// A read or a write failed.
    Io(io::Error),
}

impl RecipeError {
    pub(crate) fn recipe(name: &str, message: impl Into<String>) -> Self {
        Self::Recipe { name: name.to_owned(), message: message.into() }
    }

    /// Returns the error of the host, if it is one.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for RecipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(message) => write!(f, "not a recipe: {message}"),
            Self::Recipe { name, message } => write!(f, "recipe {name}: {message}"),
            Self::Size { size, unit, what } => {
                write!(f, "the file has {size} bytes, expected a multiple of {unit} ({what})")
            }
            Self::Sizes { size, expected } => {
                write!(f, "another dump has {size} bytes, expected the {expected} of the first one")
            }
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl Error for RecipeError {}

impl From<io::Error> for RecipeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
