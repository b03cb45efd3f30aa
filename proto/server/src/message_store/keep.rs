//! Keeping: the messages that may be kept, limits, and the 202.

use super::mailbox::{Kept, SENDER_SHARE};
use super::record::{FIELDS, Record};
use super::{Messages, Refusal, SOURCE, reserved_bytes, write_key};
use crate::Aor;
use crate::base::{Env, Reach, Request};
use crate::dialog::route::Routed;
use crate::location::LocationTable;
use crate::policy::proven_sender;
use crate::proxy::{Candidate, hop_to_binding};
use crate::report::{MessageLimit, Report};
use core::hash::Hasher;
use core::time::Duration;
use ringway_sansio::{Defence, PartHasher};
use ringway_sip::grammar::{delta_seconds, trim};
use ringway_sip::{HeaderName, Message, Scheme};
use siphasher::sip::SipHasher13;

impl Messages {
    /// Users of a request that is kept if no phone takes it. `None`: it never is.
    pub(crate) fn candidate(
        &self,
        env: &Env<'_>,
        table: &LocationTable,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) -> Option<Candidate> {
        if !cfg!(feature = "events") || !self.is_on {
            return None;
        }
        let message = request.message;
        let is_elsewhere = routed.next_route.is_some() || !routed.is_of_domains || routed.mark.is_some();
        let is_bound = matches!(request.grant.reach, Reach::Side(_) | Reach::User | Reach::Flow(_));
        // A GRUU names one phone.
        if is_elsewhere || is_bound || message.to().tag().is_some() || routed.uri.params().has(b"gr") {
            return None;
        }
        if !has_text(message) || message.has(HeaderName::Require) || lifetime_of(message).is_zero() {
            return None;
        }
        let sender = match Defence::KeptSender.is_on() {
            true => proven_sender(env, request)?,
            false => claimed_sender(env, request)?,
        };
        let mut recipient = Aor::default();
        if !env.config.read_aor(&routed.uri, &mut recipient)
            || !env.host.is_known(recipient.user(), recipient.domain())
        {
            return None;
        }
        // Contacts of an administrator, and those of other users, are not waited for.
        let is_sips = routed.uri.scheme() == Scheme::Sips;
        let may_wait = table
            .offers(recipient.as_bytes(), env.cx.now, env.host)
            .all(|offer| hop_to_binding(env.config, offer, is_sips).is_some());
        may_wait.then_some(Candidate { recipient, sender })
    }

    /// Answers a repeated request of a kept message; false: it is none.
    pub(crate) fn answer_repeated(
        &self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        candidate: &Candidate,
    ) -> bool {
        let is_repeated = self.boxes.has(number_of(&env.keys.message, request.message, candidate));
        if is_repeated {
            accept(env, request);
        }
        is_repeated
    }

    /// Keeps a message that no phone took, and answers it.
    pub(crate) fn keep(&mut self, env: &mut Env<'_>, request: &Request<'_, '_>, candidate: &Candidate) {
        if self.answer_repeated(env, request, candidate) {
            return;
        }
        match self.try_keep(env, request, candidate) {
            Ok(()) => {
                env.report(request, Report::MessageKept(candidate.recipient.as_bytes()));
                accept(env, request);
            }
            Err(refusal) => {
                let limit = match refusal {
                    Refusal::Memory => MessageLimit::Memory,
                    Refusal::Store => MessageLimit::Store,
                    _ => MessageLimit::Messages,
                };
                let (sender, recipient) = (candidate.sender.as_bytes(), candidate.recipient.as_bytes());
                let (why, source) = (refusal.text(), request.flow.remote);
                env.report(request, Report::MessageNotKept { sender, recipient, why, source, limit });
                match refusal {
                    Refusal::NoUser => env.refuse_decided(request, 404, "Not Found"),
                    Refusal::TooLarge => env.refuse_decided(request, 413, "Request Entity Too Large"),
                    _ => env.refuse_decided(request, 480, "Temporarily Unavailable"),
                }
            }
        }
    }

    fn try_keep(
        &mut self,
        env: &Env<'_>,
        request: &Request<'_, '_>,
        candidate: &Candidate,
    ) -> Result<(), Refusal> {
        let (message, now) = (request.message, env.cx.now);
        let Candidate { recipient, sender } = candidate;
        // It may have been removed while its phones were silent.
        if !env.host.is_known(recipient.user(), recipient.domain()) {
            return Err(Refusal::NoUser);
        }
        let content_type = content_type_of(message).ok_or(Refusal::HeadTooLarge)?;
        let expires = now + lifetime_of(message).min(self.longest);
        let record = Record {
            received: now,
            expires,
            is_sips: request.uri.scheme() == Scheme::Sips,
            sender: sender.as_bytes(),
            fields: FIELDS.map(|field| field.value_in(message)),
            content_type,
            body: message.body(),
        };
        if record.body.len() > BODY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        // A folded value is not kept: it would have to be unfolded, and may be signed.
        let is_folded = |value: &&[u8]| memchr::memchr3(b'\r', b'\n', 0, value).is_some();
        if record.head_len() > HEAD_BYTES_MAX || record.fields.iter().any(is_folded) {
            return Err(Refusal::HeadTooLarge);
        }
        let written = record.write();
        self.boxes.check(recipient, sender, written.len())?;
        let number = number_of(&env.keys.message, message, candidate);
        write_key(recipient.as_bytes(), number, &mut self.key);
        // A REGISTER is repeated; a message that got 202 is not.
        if env.host.store_status().has_failed {
            return Err(Refusal::Store);
        }
        match env.host.record_bytes_max(&self.key) {
            Ok(max) if written.len() <= max => {}
            Ok(_) | Err(crate::StoreFailed) => return Err(Refusal::Store),
        }
        // The sender may have a part of the memory that is left.
        let reserved = reserved_bytes(written.len());
        let for_others = (SENDER_SHARE - 1) * self.boxes.bytes_of_sender(sender.as_bytes());
        if !env.tables.reserve(SOURCE, reserved + for_others) {
            return Err(Refusal::Memory);
        }
        env.tables.shrink(SOURCE, for_others);
        env.host.store(&self.key, &written);
        let mailbox = self.boxes.find_or_add(recipient.as_bytes());
        self.add(Kept::new(mailbox, number, &record, &written, now, reserved));
        // A phone that did not answer may do so later.
        let retry = self
            .boxes
            .mailbox(mailbox)
            .map_or(super::RETRY_MIN, |mailbox| super::deliver::pause_of(mailbox.failures));
        self.schedule(mailbox, now + retry);
        Ok(())
    }
}

impl Refusal {
    /// Text for a trace and the log.
    const fn text(self) -> &'static str {
        match self {
            Self::NoUser => "its recipient was removed",
            Self::TooLarge => "its body is too large",
            Self::HeadTooLarge => "its header fields are too large or folded",
            Self::RecipientFull => "too many messages of the recipient",
            Self::SenderFull => "too many messages of the sender",
            Self::PairFull => "too many messages of the sender to the recipient",
            Self::ShardFull => "too many messages",
            Self::Memory => "no memory",
            Self::Store => "it cannot be stored",
        }
    }
}

/// Answers 202; with strict durability not before the message is on the disk.
fn accept(env: &mut Env<'_>, request: &Request<'_, '_>) {
    let before = env.cx.out.len();
    env.reply(request, 202, "Accepted", |_| {});
    if env.cx.out.len() > before {
        env.cx.out.hold_last(0);
    }
}

/// Number of a message: equal for each copy of a request, and different for others.
fn number_of(key: &[u8; 16], message: &Message<'_>, candidate: &Candidate) -> u64 {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    hash.part(candidate.sender.as_bytes());
    hash.part(candidate.recipient.as_bytes());
    hash.part(message.call_id());
    hash.part(message.from().tag().unwrap_or_default());
    hash.fixed(&message.cseq().number.to_le_bytes());
    hash.hasher().finish()
}

/// True for a message with a text for people: a notice that somebody types (RFC 3994), or one of a delivery (IMDN, RFC 5438), is
/// none.
fn has_text(message: &Message<'_>) -> bool {
    let is_notice = |value: &str| {
        if type_is(value.as_bytes(), b"message/cpim") {
            return NOTICES
                .iter()
                .any(|notice| inner_type_of(message.body()).is_some_and(|value| type_is(value, notice)));
        }
        NOTICES.iter().any(|notice| type_is(value.as_bytes(), notice))
    };
    !message.body().is_empty() && content_type_of(message).is_some_and(|value| !is_notice(value))
}

fn type_is(value: &[u8], name: &[u8]) -> bool {
    let end = value.iter().position(|&byte| byte == b';').unwrap_or(value.len());
    trim(value.get(..end).unwrap_or_default()).eq_ignore_ascii_case(name)
}

/// Value of Content-Type among the MIME header fields of a CPIM message (RFC 3862 §2.1), which follow its own ones.
fn inner_type_of(body: &[u8]) -> Option<&[u8]> {
    let start = memchr::memmem::find(body, b"\r\n\r\n")? + 4;
    let fields = body.get(start..)?;
    let end = memchr::memmem::find(fields, b"\r\n\r\n").unwrap_or(fields.len());
    fields.get(..end)?.split(|&byte| byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|&byte| byte == b':')?)?;
        let value = value.get(1..)?.trim_ascii();
        trim(name).eq_ignore_ascii_case(b"content-type").then_some(value)
    })
}

fn content_type_of<'a>(message: &Message<'a>) -> Option<&'a str> {
    let value = message.first(HeaderName::ContentType)?;
    core::str::from_utf8(value).ok().filter(|value| !value.contains(['\r', '\n', '\0']))
}

/// Time for which a message is valid (RFC 3428 §7); without an Expires that can be read it does not end.
fn lifetime_of(message: &Message<'_>) -> Duration {
    let seconds = message.first(HeaderName::Expires).and_then(delta_seconds);
    seconds.map_or(Duration::MAX, |seconds| Duration::from_secs(u64::from(seconds)))
}

/// User in From, without a proof.
fn claimed_sender(env: &Env<'_>, request: &Request<'_, '_>) -> Option<Aor> {
    let mut aor = Aor::default();
    env.config.read_aor(&request.message.from().uri, &mut aor).then_some(aor)
}

/// Content types that are not kept.
const NOTICES: [&[u8]; 2] = [b"application/im-iscomposing+xml", b"message/imdn+xml"];
/// Maximum length of a body in bytes.
const BODY_BYTES_MAX: usize = 8192;
/// Maximum length in bytes of the header fields that are kept.
const HEAD_BYTES_MAX: usize = 2048;
