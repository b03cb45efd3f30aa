//! Tests of one user agent with scripted peers, on a virtual clock.
#![cfg(test)]

mod bodies;
mod called;
mod callers;
mod calling;
mod challenges;
mod changes;
mod harness;
mod hostile;
mod null_tags;
mod registering;
mod sending;
mod transfers;
