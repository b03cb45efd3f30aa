//! Properties that must hold for any input. The fuzz targets of `fuzz/` run them on generated inputs; the test `corpus`
//! runs them on the stored ones.

pub(crate) mod tftp;
