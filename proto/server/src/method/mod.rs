//! Methods that this server itself does something about; all others are forwarded or redirected.

mod cancel;
mod options;
mod redirect;
mod register;
