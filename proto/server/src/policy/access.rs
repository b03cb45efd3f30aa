//! Access rules: permission to have a request forwarded, and the next hops it allows.
//!
//! [`decide`] is a pure function of the [`Facts`] of a request. Every rule for senders without a proven password is in
//! this file, and the methods of a call in `methods`; docs/decisions/0007 has the reasons.

use crate::Aor;
use crate::base::{EdgePart, Env, Grant, Reach, Request, Sender, TrunkTarget};
use crate::config::Strangers;
use crate::dialog::{DialogMark, LiveMark};
use crate::tables::Way;
use crate::token::sources::Origin;
use ringway_sansio::Defence;
use ringway_sip::Method;

/// Result for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It may be forwarded.
    Forward(Grant),
    /// It may be forwarded after its sender proved a password.
    Challenge(Grant),
    /// It is refused with this status.
    Refuse(u16, &'static str),
    /// It is dropped: an ACK, which has no response.
    Drop,
}

/// Everything that the rules depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) method: Method<'a>,
    /// The From URI is in a domain of `domains`.
    pub(crate) from_us: bool,
    /// The target is in a domain of `domains`, and no Route leads elsewhere.
    pub(crate) to_us: bool,
    pub(crate) mark: Option<LiveMark>,
    /// Part as the edge proxy of another registrar, or as the node that has the flow of a phone.
    pub(crate) edge: EdgePart,
    /// The request came over the link of another node.
    pub(crate) is_of_node: bool,
    /// The source address is in `[auth] trusted`.
    pub(crate) is_trusted: bool,
    /// The source address is in the networks of a trunk, which reaches our users only.
    pub(crate) is_trunk: bool,
    /// `[auth] enabled`.
    pub(crate) requires_passwords: bool,
    /// `[auth] in_dialog`.
    pub(crate) challenges_in_dialog: bool,
    /// Requests in dialogs of ours have marks: the server is stateful and records its route.
    pub(crate) marks_dialogs: bool,
    /// `[auth] strangers`.
    pub(crate) strangers: Strangers,
    /// `[auth] stranger_refer`.
    pub(crate) stranger_refer: bool,
    /// The dialog is of a phone of another registrar (`edge_domains`), which has its own rules.
    pub(crate) is_of_edge: bool,
    /// It is a NOTIFY of an event package that phones subscribe to, with the state of a subscription.
    pub(crate) is_awaited_notify: bool,
}

/// Applies the rules.
pub(crate) fn decide(facts: &Facts<'_>) -> Access {
    match facts.mark {
        Some(LiveMark::Accepted(returned)) if facts.to_us => {
            return Access::Forward(Grant::of_returned(returned));
        }
        Some(LiveMark::Dialog(mark)) if mark.reaches_side => return decide_in_dialog(facts, &mark),
        // The flow of the side was lost: the other node looks its user up.
        Some(LiveMark::Dialog(_)) if facts.is_of_node && facts.method != Method::Ack => {
            return Access::Refuse(430, "Flow Failed");
        }
        Some(LiveMark::Accepted(_) | LiveMark::Dialog(_)) | None => {}
    }
    // The other registrar, or node, asks for passwords. What goes to it, and over a flow that it was given, is no relaying.
    let sender = match facts.is_trusted || facts.is_of_node {
        true => Sender::Trusted,
        false => Sender::Stranger,
    };
    // A node sends over flows of ours and in dialogs, nothing else.
    let edge = match facts.edge {
        EdgePart::ToRegistrar | EdgePart::Absent if facts.is_of_node => EdgePart::Forged,
        edge => edge,
    };
    match edge {
        EdgePart::ToFlow(side) => return forward(Reach::Flow(side), sender),
        EdgePart::ToRegistrar if !facts.from_us => return forward(Reach::Anywhere, sender),
        EdgePart::FlowGone if facts.method != Method::Ack => return Access::Refuse(430, "Flow Failed"),
        EdgePart::Forged if facts.method != Method::Ack => return Access::Refuse(403, "Forged Flow Token"),
        EdgePart::FlowGone | EdgePart::Forged => return Access::Drop,
        EdgePart::ToRegistrar | EdgePart::Absent => {}
    }
    if matches!(facts.method, Method::Ack | Method::Cancel) {
        return decide_unchallengeable(facts);
    }
    if facts.is_trunk {
        return match facts.to_us || !Defence::TrunkReach.is_on() {
            true if facts.to_us => forward(Reach::OurUsers, Sender::Trusted),
            true => forward(Reach::Anywhere, Sender::Trusted),
            false => Access::Refuse(403, "Relaying Denied"),
        };
    }
    if facts.from_us {
        return match (facts.is_trusted, facts.requires_passwords && Defence::CallerPassword.is_on()) {
            (true, _) => forward(Reach::Anywhere, Sender::Trusted),
            (false, false) => forward(Reach::Anywhere, Sender::Believed),
            (false, true) => Access::Challenge(Grant::new(Reach::Anywhere, Sender::Proven)),
        };
    }
    if !facts.to_us {
        return match Defence::Relaying.is_on() {
            true => Access::Refuse(403, "Relaying Denied"),
            false => forward(Reach::Anywhere, Sender::Stranger),
        };
    }
    if facts.is_trusted {
        return forward(Reach::OurUsers, Sender::Trusted);
    }
    if !facts.requires_passwords {
        return forward(Reach::OurUsers, Sender::Believed);
    }
    match (facts.strangers, facts.method) {
        (Strangers::All, _) | (Strangers::Call, Method::Invite | Method::Options) => {
            forward(Reach::OurUsers, Sender::Stranger)
        }
        _ if !Defence::StrangerMethods.is_on() => forward(Reach::OurUsers, Sender::Stranger),
        (Strangers::Call | Strangers::None, _) => {
            Access::Challenge(Grant::new(Reach::OurUsers, Sender::Proven))
        }
    }
}

/// A request to the other side of its dialog. Its mark is sufficient, unless it comes from another address than its side
/// has, or `[auth] in_dialog` is set: then users of `domains` need their password. Others have none.
fn decide_in_dialog(facts: &Facts<'_>, mark: &DialogMark) -> Access {
    let sender = match (facts.is_trusted || facts.is_of_node, facts.requires_passwords) {
        (true, _) => Sender::Trusted,
        (false, false) => Sender::Believed,
        (false, true) => Sender::InDialog,
    };
    let reach = match mark.to {
        Way::Side(side) => Reach::Side(side),
        Way::User => Reach::User,
    };
    let is_user = mark.is_of_user(facts.from_us);
    let is_trunk = facts.is_trunk || mark.is_of_trunk;
    let is_stranger = sender == Sender::InDialog && !is_user && !is_trunk;
    match mark.trunk {
        _ if ends_or_completes(facts.method) => {}
        TrunkTarget::Foreign => return Access::Refuse(481, "Call/Transaction Does Not Exist"),
        TrunkTarget::Other if is_stranger && facts.strangers != Strangers::All => {
            return Access::Refuse(403, "Not The Remote Target");
        }
        TrunkTarget::None | TrunkTarget::Recorded | TrunkTarget::Other => {}
    }
    // ACK and CANCEL cannot be challenged (RFC 3261 §22.1).
    let is_exempt = sender != Sender::InDialog || matches!(facts.method, Method::Ack | Method::Cancel);
    match (is_user && facts.from_us, mark.origin) {
        (true, Origin::Elsewhere) if !is_exempt => Access::Challenge(Grant::new(reach, Sender::Proven)),
        (true, Origin::Recorded) if !is_exempt && facts.challenges_in_dialog => {
            Access::Challenge(Grant::new(reach, Sender::Proven))
        }
        // A trunk has several addresses; they are as good as those of its calls.
        (false, Origin::Elsewhere) if !is_exempt && !facts.is_trunk => {
            Access::Refuse(403, "Not From This Side Of The Dialog")
        }
        // A called phone dials for REFER with its user's password, and obeys some NOTIFYs.
        (true | false, Origin::Recorded | Origin::Elsewhere)
            if is_stranger && !facts.is_of_edge && !is_permitted_to_strangers(facts) =>
        {
            Access::Refuse(403, "Not In A Call With A Stranger")
        }
        (true | false, Origin::Recorded | Origin::Elsewhere) => forward(reach, sender),
    }
}

/// True for what a call, or a subscription of a user of ours, needs from a stranger.
fn is_permitted_to_strangers(facts: &Facts<'_>) -> bool {
    is_of_call(facts.method)
        || !Defence::CallMethods.is_on()
        || (facts.method == Method::Notify && facts.is_awaited_notify)
        || (facts.method == Method::Refer && facts.stranger_refer)
        || facts.strangers == Strangers::All
}

/// ACK and CANCEL cannot be challenged (RFC 3261 §22.1), so a From in `domains` proves nothing here.
fn decide_unchallengeable(facts: &Facts<'_>) -> Access {
    let sender = match (facts.is_trusted, facts.requires_passwords) {
        (true, _) => Sender::Trusted,
        (false, false) => Sender::Believed,
        (false, true) => Sender::Stranger,
    };
    // The ACK of a user's call has the mark of its dialog, or ends a transaction of this server.
    let is_of_user = facts.from_us && !(facts.method == Method::Ack && facts.marks_dialogs);
    let reaches_users = sender != Sender::Stranger || is_of_user || facts.strangers != Strangers::None;
    match (facts.to_us, facts.method) {
        (true, _) if reaches_users => forward(Reach::OurUsers, sender),
        (false, _) if facts.from_us && sender != Sender::Stranger => forward(Reach::Anywhere, sender),
        (_, Method::Ack) => Access::Drop,
        _ => Access::Refuse(403, "Relaying Denied"),
    }
}

const fn forward(reach: Reach, sender: Sender) -> Access {
    Access::Forward(Grant::new(reach, sender))
}

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

/// User whose password the sender of a request proved, or whom a trusted proxy names; `None` for anybody else. A trunk names
/// callers, who are no users of ours.
pub(crate) fn proven_sender(env: &Env<'_>, request: &Request<'_, '_>) -> Option<Aor> {
    let is_proven = match request.grant.sender {
        Sender::Proven | Sender::Believed => true,
        Sender::Trusted => !env.config.trunking.is_trunk(request.source()),
        Sender::ProvenUnnamed | Sender::InDialog | Sender::Stranger | Sender::Unknown => false,
    };
    let mut aor = Aor::default();
    let is_user = env.config.read_aor(&request.message.from().uri, &mut aor);
    (is_proven && is_user).then_some(aor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Returned, Side, TargetHash};

    const SIDE: Side = Side::Contact(TargetHash::NONE);
    const MARK: DialogMark = DialogMark {
        to: Way::Side(SIDE),
        reaches_side: true,
        origin: Origin::Recorded,
        hop: None,
        id: 1,
        sender: None,
        is_of_trunk: false,
        trunk: TrunkTarget::None,
    };

    fn facts(method: Method<'static>) -> Facts<'static> {
        Facts {
            method,
            from_us: false,
            to_us: true,
            mark: None,
            edge: EdgePart::Absent,
            is_of_node: false,
            is_trusted: false,
            is_trunk: false,
            requires_passwords: true,
            challenges_in_dialog: false,
            marks_dialogs: true,
            strangers: Strangers::Call,
            stranger_refer: false,
            is_of_edge: false,
            is_awaited_notify: false,
        }
    }

    fn reach(access: Access) -> Option<Reach> {
        match access {
            Access::Forward(grant) => Some(grant.reach),
            Access::Challenge(_) | Access::Refuse(..) | Access::Drop => None,
        }
    }

    #[test]
    fn strangers_reach_users_by_the_methods_of_the_policy() {
        for (policy, open) in [
            (Strangers::Call, "INVITE OPTIONS ACK CANCEL"),
            (Strangers::None, ""),
            (
                Strangers::All,
                "INVITE OPTIONS ACK CANCEL BYE MESSAGE SUBSCRIBE NOTIFY REFER INFO UPDATE PRACK",
            ),
        ] {
            for name in [
                "INVITE",
                "OPTIONS",
                "ACK",
                "CANCEL",
                "BYE",
                "MESSAGE",
                "SUBSCRIBE",
                "NOTIFY",
                "REFER",
                "INFO",
                "UPDATE",
                "PRACK",
            ] {
                let method = Method::from_bytes(name.as_bytes());
                let access = decide(&Facts { strangers: policy, ..facts(method) });
                let expected = open.split(' ').any(|one| one == name).then_some(Reach::OurUsers);
                assert_eq!(reach(access), expected, "{name} {policy:?}");
            }
        }
    }

    #[test]
    fn what_this_server_sent_to_itself_has_its_senders_rights() {
        let client = core::net::IpAddr::from([192, 0, 2, 1]);
        for sender in [Sender::Proven, Sender::Trusted, Sender::InDialog, Sender::Stranger] {
            for dialog in [None, Some(4)] {
                let (letter, has_own_uri) = (sender.letter(), dialog.is_some());
                let returned = Returned { sender: letter, dialog, client, has_own_uri };
                let mark = Some(LiveMark::Accepted(returned));
                let request = Facts { mark, is_trusted: true, ..facts(Method::Invite) };
                let Access::Forward(grant) = decide(&request) else { panic!("{sender:?}") };
                assert_eq!((grant.reach, grant.sender), (Reach::OurUsers, sender));
                assert_eq!((grant.returned, grant.has_own_uri), (Some(client), has_own_uri));
                assert_eq!(grant.dialog.is_some(), dialog.is_some());
                assert_ne!(grant.dialog, Some(4), "an account of its own");
            }
        }
    }

    #[test]
    fn a_stranger_sends_in_a_call_what_a_call_needs() {
        let mark = Some(LiveMark::Dialog(MARK));
        let request =
            |name: &'static str| Facts { mark, to_us: false, ..facts(Method::from_bytes(name.as_bytes())) };
        for name in ["INVITE", "ACK", "BYE", "CANCEL", "PRACK", "UPDATE", "INFO", "OPTIONS"] {
            assert_eq!(reach(decide(&request(name))), Some(Reach::Side(SIDE)), "{name}");
        }
        for name in ["REFER", "MESSAGE", "SUBSCRIBE", "PUBLISH", "REGISTER", "NOTIFY", "XYZ"] {
            let refused = Access::Refuse(403, "Not In A Call With A Stranger");
            assert_eq!(decide(&request(name)), refused, "{name}");
            for good in [
                Facts { from_us: true, ..request(name) },
                Facts { is_trunk: true, ..request(name) },
                Facts { is_trusted: true, ..request(name) },
                Facts { is_of_edge: true, ..request(name) },
                Facts { requires_passwords: false, ..request(name) },
            ] {
                assert_eq!(reach(decide(&good)), Some(Reach::Side(SIDE)), "{name}");
            }
            let open = Facts { strangers: Strangers::All, ..request(name) };
            assert_eq!(reach(decide(&open)), Some(Reach::Side(SIDE)), "{name}");
            let refers = Facts { stranger_refer: true, ..request(name) };
            assert_eq!(reach(decide(&refers)).is_some(), name == "REFER", "{name}");
        }
        let notify = Facts { is_awaited_notify: true, ..request("NOTIFY") };
        assert_eq!(reach(decide(&notify)), Some(Reach::Side(SIDE)));
    }

    #[test]
    fn without_strangers_a_from_of_ours_lets_no_ack_pass() {
        let ack = Facts { from_us: true, strangers: Strangers::None, ..facts(Method::Ack) };
        assert_eq!(decide(&ack), Access::Drop);
        assert_eq!(reach(decide(&Facts { marks_dialogs: false, ..ack })), Some(Reach::OurUsers));
        let cancel = Facts { method: Method::Cancel, ..ack };
        assert_eq!(reach(decide(&cancel)), Some(Reach::OurUsers), "of a stateless proxy");
    }

    #[test]
    fn a_mark_reaches_its_side_and_nothing_else() {
        for name in ["ACK", "BYE", "INFO", "UPDATE", "PRACK", "INVITE"] {
            let method = Method::from_bytes(name.as_bytes());
            for challenges_in_dialog in [false, true] {
                let mark = |reaches_side, origin| {
                    Some(LiveMark::Dialog(DialogMark { reaches_side, origin, ..MARK }))
                };
                let there = mark(true, Origin::Recorded);
                let request = Facts { mark: there, to_us: false, challenges_in_dialog, ..facts(method) };
                assert_eq!(reach(decide(&request)), Some(Reach::Side(SIDE)), "{name}");
                let elsewhere = mark(false, Origin::Recorded);
                assert_eq!(reach(decide(&Facts { mark: elsewhere, ..request })), None, "{name}");
                let moved = Facts { mark: mark(true, Origin::Elsewhere), ..request };
                assert_eq!(reach(decide(&moved)).is_some(), name == "ACK", "{name}");
                let is_challenged = matches!(decide(&Facts { from_us: true, ..moved }), Access::Challenge(_));
                assert_eq!(is_challenged, name != "ACK", "{name}");
                for exempt in [
                    Facts { is_trusted: true, ..moved },
                    Facts { requires_passwords: false, ..moved },
                    Facts { is_trunk: true, ..moved },
                ] {
                    assert_eq!(reach(decide(&exempt)), Some(Reach::Side(SIDE)), "{name}");
                }
            }
        }
    }

    #[test]
    fn a_trunk_reaches_our_users_and_nothing_else() {
        for name in ["INVITE", "BYE", "MESSAGE", "OPTIONS", "SUBSCRIBE"] {
            let method = Method::from_bytes(name.as_bytes());
            for (is_trusted, from_us, requires_passwords) in
                [(false, false, true), (false, true, true), (true, true, true), (true, true, false)]
            {
                let request =
                    Facts { is_trunk: true, is_trusted, from_us, requires_passwords, ..facts(method) };
                assert_eq!(reach(decide(&request)), Some(Reach::OurUsers), "{name}");
                assert_eq!(reach(decide(&Facts { to_us: false, ..request })), None, "{name}");
            }
        }
    }

    #[test]
    fn a_node_reaches_flows_and_its_dialogs_and_nothing_else() {
        for name in ["INVITE", "ACK", "CANCEL", "BYE", "MESSAGE", "OPTIONS"] {
            let method = Method::from_bytes(name.as_bytes());
            for (is_trusted, from_us, to_us, requires_passwords) in
                [(false, false, true, true), (true, true, false, true), (true, true, true, false)]
            {
                let request = Facts {
                    is_of_node: true,
                    is_trusted,
                    from_us,
                    to_us,
                    requires_passwords,
                    ..facts(method)
                };
                for edge in [EdgePart::Absent, EdgePart::ToRegistrar, EdgePart::FlowGone, EdgePart::Forged] {
                    let client = core::net::IpAddr::from([192, 0, 2, 1]);
                    let sender = Sender::Trusted.letter();
                    let accepted = Returned { sender, dialog: None, client, has_own_uri: true };
                    let mark = Some(LiveMark::Accepted(accepted));
                    let request = Facts { mark, to_us: false, edge, ..request };
                    assert_eq!(reach(decide(&request)), None, "{name} {edge:?}");
                    assert_eq!(
                        reach(decide(&Facts { mark: None, to_us, ..request })),
                        None,
                        "{name} {edge:?}"
                    );
                }
                let over_flow = decide(&Facts { edge: EdgePart::ToFlow(SIDE), ..request });
                assert_eq!(over_flow, forward(Reach::Flow(SIDE), Sender::Trusted), "{name}");
            }
        }
    }

    #[test]
    fn nothing_is_relayed_from_strangers_to_strangers() {
        for is_trusted in [false, true] {
            for requires_passwords in [false, true] {
                for strangers in [Strangers::Call, Strangers::None, Strangers::All] {
                    for name in ["INVITE", "ACK", "CANCEL", "BYE", "MESSAGE"] {
                        let method = Method::from_bytes(name.as_bytes());
                        let plain = Facts {
                            to_us: false,
                            is_trusted,
                            requires_passwords,
                            strangers,
                            ..facts(method)
                        };
                        assert_eq!(reach(decide(&plain)), None, "{name}");
                    }
                }
            }
        }
    }
}
