//! One user agent against peers that are a script, on a virtual clock.
#![cfg(test)]

mod called;
mod callers;
mod calling;
mod challenges;
mod changes;
mod harness;
mod hostile;
mod registering;
mod sending;
mod transfers;
