//! Properties that hold for any input bytes. The fuzz target in `fuzz/` and the test `corpus` run them.

pub(crate) mod websocket;
