//! Images are built and read back.
