//! Targets that a request may get after its target set is made: of a forward of the called user, and of 3xx responses.

use crate::Forwards;
use crate::dialog::route::Routed;
use crate::proxy::targets::Targets;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::TimerKey;
use ringway_sip::Uri;

/// Forwards of the called user that may still apply to a request.
#[derive(Debug)]
pub(in crate::proxy) struct Diversion {
    pub(in crate::proxy) forwards: Arc<Forwards>,
    /// Time of the forward of calls that nobody answers.
    pub(in crate::proxy) timer: TimerKey,
    /// Spirals of the branch of a forward.
    pub(in crate::proxy) spirals: u32,
}

/// Targets of a request so far: none is called twice (RFC 3261 §16.5).
#[derive(Debug)]
pub(in crate::proxy) struct Recursion {
    called: Vec<Box<[u8]>>,
    /// Number of contacts of 3xx that may still be called.
    left: usize,
}

impl Recursion {
    pub(in crate::proxy) fn of(routed: &Routed<'_>, targets: &Targets) -> Box<Self> {
        let mut called: Vec<Box<[u8]>> = vec![routed.uri.as_bytes().into()];
        called.extend(targets.list().iter().map(|target| targets.uri(target).into()));
        Box::new(Self { called, left: CONTACTS_MAX })
    }

    /// Adds a target that is not a contact of a 3xx.
    pub(in crate::proxy) fn note(&mut self, uri: &[u8]) {
        self.called.push(uri.into());
    }

    /// Adds a contact of a 3xx. False: it was called before, or there are too many.
    pub(in crate::proxy) fn add(&mut self, uri: &Uri<'_>) -> bool {
        let is_same = |called: &[u8]| Uri::parse(called).is_ok_and(|called| called.equals(uri));
        if self.left == 0 || self.called.iter().any(|called| is_same(called)) {
            return false;
        }
        self.left -= 1;
        self.called.push(uri.as_bytes().into());
        true
    }
}

/// Maximum number of contacts of 3xx responses that are called for one request.
const CONTACTS_MAX: usize = 10;
