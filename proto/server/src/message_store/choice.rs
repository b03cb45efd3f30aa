//! Choice of the next message of a user, and of the phone that it is sent to.

use super::mailbox::ContactId;
use super::mailbox::{Kept, Mailbox, Mailboxes};
use crate::Config;
use crate::base::Env;
use crate::location::{LocationTable, Offer};
use crate::proxy::{BindingHop, hop_to_binding};
use alloc::vec::Vec;
use core::cmp::Reverse;
use ringway_sansio::Instant;
use ringway_transaction::SlabKey;

/// Contact of a user to which messages can be sent.
#[derive(Debug)]
pub(super) struct Phone {
    pub(super) id: ContactId,
    expires: Instant,
    /// Way of messages for `sip:` URIs.
    plain: Option<BindingHop>,
    /// Way of messages for `sips:` URIs.
    secure: Option<BindingHop>,
}

/// Result of a choice.
#[derive(Debug)]
pub(super) enum Choice<'p> {
    /// This message is sent to this phone.
    Send(SlabKey, ContactId, &'p BindingHop),
    /// Nothing is sent before this time.
    Wait(Instant),
    /// Nothing is sent before the next REGISTER.
    NoPhone,
}

impl Phone {
    /// Phones of a user, without contacts of an administrator and those at this server.
    pub(super) fn all_of(env: &Env<'_>, table: &LocationTable, aor: &[u8]) -> Vec<Self> {
        let (config, key) = (env.config, &env.keys.message);
        let offers = table.offers(aor, env.cx.now, env.host);
        offers.filter_map(|offer| Self::of(config, key, offer)).collect()
    }

    fn of(config: &Config, key: &[u8; 16], offer: Offer<'_>) -> Option<Self> {
        let [plain, secure] = [false, true].map(|is_sips| hop_to_binding(config, offer, is_sips));
        let binding = offer.binding;
        let id = ContactId::of(key, binding);
        (plain.is_some() || secure.is_some()).then_some(Self { id, expires: binding.expires, plain, secure })
    }

    fn hop(&self, kept: &Kept) -> Option<&BindingHop> {
        if kept.is_sips { self.secure.as_ref() } else { self.plain.as_ref() }
    }
}

impl Mailboxes {
    /// Chooses the next message of a user: the one that others went before most seldom, and of those the oldest.
    pub(super) fn choose<'p>(&self, mailbox: &Mailbox, phones: &'p [Phone], now: Instant) -> Choice<'p> {
        let mut wait: Option<Instant> = None;
        let mut best: Option<(u32, Choice<'p>)> = None;
        for &key in &mailbox.queue {
            let Some(kept) = self.message(key) else { continue };
            if best.as_ref().is_some_and(|(set_back, _)| *set_back <= kept.set_back) {
                continue;
            }
            match choose_phone(mailbox, kept, phones, now) {
                Ok((id, hop)) => best = Some((kept.set_back, Choice::Send(key, id, hop))),
                Err(at) => wait = wait.into_iter().chain(at).min(),
            }
        }
        match (best, wait) {
            (Some((_, choice)), _) => choice,
            (None, Some(at)) => Choice::Wait(at),
            (None, None) => Choice::NoPhone,
        }
    }
}

/// Chooses the phone for a message: one that did not refuse it, and of those one that answers, the one that registered last.
/// A message that all phones refused begins again with the first one.
///
/// # Errors
/// The time of the next attempt; `None` if there is no phone for it.
fn choose_phone<'p>(
    mailbox: &Mailbox,
    kept: &Kept,
    phones: &'p [Phone],
    now: Instant,
) -> Result<(ContactId, &'p BindingHop), Option<Instant>> {
    let able = || phones.iter().filter_map(|phone| Some((phone, phone.hop(kept)?)));
    let rank = |phone: &Phone| {
        let silent = mailbox.silent.position(phone.id).map_or(0, |position| position + 1);
        (silent, mailbox.preferred != Some(phone.id), Reverse(phone.expires))
    };
    let fresh = able().filter(|(phone, _)| !kept.refused.has(phone.id)).min_by_key(|(phone, _)| rank(phone));
    let (phone, hop) = match fresh {
        Some(chosen) => chosen,
        None => {
            let again = able().min_by_key(|(phone, _)| kept.refused.position(phone.id));
            let chosen = again.ok_or(None)?;
            if now < kept.paused_until {
                return Err(Some(kept.paused_until));
            }
            chosen
        }
    };
    if mailbox.silent.has(phone.id) && now < mailbox.paused_until {
        return Err(Some(mailbox.paused_until));
    }
    Ok((phone.id, hop))
}
