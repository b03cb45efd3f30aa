//! Methods by their part in a call.

use ringway_sip::Method;

/// True for the methods that begin nothing at their target.
pub(crate) fn ends_or_completes(method: Method<'_>) -> bool {
    matches!(method, Method::Ack | Method::Bye | Method::Cancel | Method::Prack)
}

/// True for the methods that every call needs.
pub(crate) fn is_of_call(method: Method<'_>) -> bool {
    match method {
        Method::Invite
        | Method::Ack
        | Method::Bye
        | Method::Cancel
        | Method::Prack
        | Method::Update
        | Method::Info
        | Method::Options => true,
        Method::Register
        | Method::Message
        | Method::Subscribe
        | Method::Publish
        | Method::Notify
        | Method::Refer
        | Method::Other(_) => false,
    }
}
