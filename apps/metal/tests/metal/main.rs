//! The bootable machines on a cable in memory: the server and the phone.

mod machine;
mod phone;
