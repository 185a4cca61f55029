//! Making an image.
