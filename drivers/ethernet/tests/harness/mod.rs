//! What must hold for any bytes at all. The fuzz targets of `fuzz/` run these with bytes nobody thought of; the test
//! `corpus` runs them with those that were found.

pub(crate) mod tftp;
