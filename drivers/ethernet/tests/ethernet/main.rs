//! The network loop without an operating system: stations, downloads, and the corpus of the fuzz target `tftp`.

mod corpora;
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../harness/mod.rs"]
mod harness;
mod station;
mod tftp;
