//! Properties that hold for any input bytes. The fuzz targets in `fuzz/` and the test `corpus` run them.

pub(crate) mod offer_answer;
pub(crate) mod sdp;
