//! Methods that this server answers; all others are forwarded or redirected.

mod drain;
mod ends;
mod extensions;
mod options;
mod redirect;
mod register;
mod sharing;

pub(crate) use drain::DRAINING;
pub(crate) use options::on_options;
pub(crate) use redirect::redirect;
pub(crate) use register::Registrar;
