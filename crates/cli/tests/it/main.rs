//! The command as users meet it: the binary is run over small images that it makes itself, or that
//! the classic tools make where they are installed.

mod build;
mod classic;
mod frame;
mod read;
mod sample;
