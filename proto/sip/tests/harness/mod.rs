//! What must hold for any bytes at all. The fuzz targets of `fuzz/` run these with bytes nobody thought of; the test
//! `corpus` runs them with those that were found.

pub(crate) mod digest_header;
pub(crate) mod edit;
pub(crate) mod message;
pub(crate) mod stream;
pub(crate) mod uri;
