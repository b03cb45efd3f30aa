//! The transaction layer, and its four state machines against the figures.

mod layer;
mod machines;
