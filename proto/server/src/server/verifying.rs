//! Calls of trunks that wait for the certificate of who has signed the identity of their caller (RFC 8224 §6.2).

use super::Server;
use super::held::{Held, HeldIndex, Holds};
use super::locating::Checked;
use crate::base::{Env, Grant, Request};
use crate::config::CallerCheck;
use crate::policy::{IdentityFault, check_time, claimed, verify, verifying_trunk};
use crate::report::Report;
use crate::tables::SharedTables;
use crate::{Action, Detail, Reason, Trunk};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Context, Instant, NoSigner, Seed, SignerCertificate, Wheel};
use ringway_transaction::MatchKey;

/// Calls that wait, by query number.
pub(super) struct Verifying {
    requests: HashMap<u64, Held, SeededHash>,
    index: HeldIndex,
    last_query: u64,
    deadlines: Wheel<u64>,
}

/// Decision about a call that comes in.
enum Begun {
    /// It waits.
    Waits,
    /// It does not.
    Is(Checked),
}

impl Verifying {
    /// Maximum time for which a call waits; the driver answers earlier, unless the result is lost.
    const DURATION_MAX: Duration = Duration::from_secs(5);

    pub(super) fn new(seed: &Seed, now: Instant) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            requests: HashMap::with_hasher(hash),
            index: HeldIndex::new(hash),
            last_query: 0,
            deadlines: Wheel::new(now),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        // Called after each message: usually none waits.
        if self.requests.is_empty() { None } else { self.deadlines.next_due() }
    }

    /// The request with the result of its verification, or as it is. `None`: it waits, or was refused.
    #[inline]
    pub(super) fn pass<'r, 'm, 'a>(
        &mut self,
        env: &mut Env<'_>,
        request: &'r Request<'m, 'a>,
        checked: &'r mut Option<Request<'m, 'a>>,
    ) -> Option<&'r Request<'m, 'a>> {
        match self.begin(env, request) {
            None => Some(request),
            Some(Begun::Waits | Begun::Is(Checked::Answered)) => None,
            Some(Begun::Is(Checked::Passes(verstat))) => {
                let grant = Grant { verstat, ..request.grant };
                Some(checked.insert(Request { grant, ..*request }))
            }
        }
    }

    /// Begins the verification of a call, if it is one of a trunk whose calls are verified.
    #[cold]
    fn begin(&mut self, env: &mut Env<'_>, request: &Request<'_, '_>) -> Option<Begun> {
        let trunk = verifying_trunk(env.config, request)?;
        let claimed = claimed(env.config, request.message, trunk);
        let held = claimed.and_then(|passport| {
            check_time(&passport, env.cx.now)?;
            self.hold(env, request, trunk, &passport.url)
        });
        Some(match held {
            Ok(()) => Begun::Waits,
            Err(fault) => Begun::Is(decide(env, request, trunk.stir.check, fault)),
        })
    }

    fn hold(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        trunk: &Trunk,
        url: &str,
    ) -> Result<(), IdentityFault> {
        if !env.tables.admit_check(env.cx.now, &trunk.name, env.config.stir.checks_per_second) {
            return Err(IdentityFault::TooMany);
        }
        let held = Held::of(env, request).ok_or(IdentityFault::TooMany)?;
        self.last_query += 1;
        let query = self.last_query;
        self.deadlines.arm(env.cx.now + Self::DURATION_MAX, query);
        self.index.add(request.key, query);
        self.requests.insert(query, held);
        env.decided(request, Reason::IdentityAsked, Detail::Text(url.as_bytes()));
        env.cx.actions.push(Action::FindSigner { query, url: Box::from(url) });
        Ok(())
    }

    fn end(&mut self, tables: &SharedTables, query: u64) -> Option<Held> {
        let held = self.requests.remove(&query)?;
        self.index.release(tables, &held);
        Some(held)
    }
}

impl Holds for Verifying {
    fn index(&self) -> &HeldIndex {
        &self.index
    }

    fn index_mut(&mut self) -> &mut HeldIndex {
        &mut self.index
    }

    fn take(&mut self, tables: &SharedTables, key: MatchKey, cancel: &Request<'_, '_>) -> Option<Held> {
        let query = self.index.query_of(key)?;
        self.requests.get(&query).filter(|held| held.is_cancelled_by(key, cancel))?;
        self.end(tables, query)
    }
}

impl Server {
    /// Goes on with the call that waits for a certificate.
    pub(super) fn on_signer(
        &mut self,
        cx: &mut Context<'_, Action>,
        query: u64,
        found: &Result<Arc<SignerCertificate>, NoSigner>,
    ) {
        let Some(held) = self.verifying.end(self.environment.tables(), query) else { return };
        self.go_on(cx, held, |env, request| Some(checked(env, request, found)));
    }

    /// Goes on with the calls whose time has passed.
    pub(super) fn expire_verifications(&mut self, cx: &mut Context<'_, Action>) {
        while let Some(query) = self.verifying.deadlines.expire(cx.now) {
            self.on_signer(cx, query, &Err(NoSigner::Unreachable));
        }
    }
}

/// Verifies the identity of a call with the certificate that it names. A reload may have changed the rules.
fn checked(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    found: &Result<Arc<SignerCertificate>, NoSigner>,
) -> Checked {
    let config = env.config;
    let Some(trunk) = verifying_trunk(config, request) else { return Checked::Passes(request.grant.verstat) };
    // Its time was checked when it came.
    let passport = claimed(config, request.message, trunk);
    let certificate = || found.as_ref().map(Arc::as_ref).map_err(|why| *why);
    let result = passport.and_then(|passport| {
        let verstat = verify(&passport, certificate())?;
        let attested = passport.claims.attestation.map_or("no attestation", |of| of.letter());
        env.report(request, Report::IdentityVerified { url: &passport.url, attested });
        Ok(verstat)
    });
    match result {
        Ok(verstat) => Checked::Passes(verstat),
        Err(fault) => decide(env, request, trunk.stir.check, fault),
    }
}

/// Decides about a call without a valid identity.
fn decide(env: &mut Env<'_>, request: &Request<'_, '_>, check: CallerCheck, fault: IdentityFault) -> Checked {
    let is_limit = fault == IdentityFault::TooMany;
    let is_wrong = fault.verstat() == crate::base::Verstat::Failed;
    env.report(request, Report::IdentityNotVerified { why: fault.text(), is_limit, is_wrong });
    match check {
        CallerCheck::Off | CallerCheck::Verify => Checked::Passes(fault.verstat()),
        CallerCheck::Require => {
            let (status, phrase) = fault.answer();
            env.refuse_decided(request, status, phrase);
            Checked::Answered
        }
    }
}
