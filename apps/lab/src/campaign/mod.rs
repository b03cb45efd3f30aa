//! Campaigns: experiments on servers, one after another.

pub mod search;
