//! The past of volumes whose every state is known.

mod model;
mod past;
