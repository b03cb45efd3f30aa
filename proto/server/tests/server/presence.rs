//! Tests of SUBSCRIBE, NOTIFY and PUBLISH for users of the server (RFC 6665, 3903, 3856, 4235, 3842, 3680).

use crate::challenge::{Login, proven};
use crate::harness::{
    ALICE, BOB, CAROL, EDGE, Request, STRANGER, Sent, Wire, World, only, register, request, requests,
    statuses,
};
use ringway_sansio::{ConnectionId, Event};
use ringway_server::{Config, PresenceConfig, Watchers};
use std::time::Duration;

const PIDF: &str = "application/pidf+xml";
const BUSY: &str =
    "<presence><tuple id=\"t\"><status><basic>open</basic></status><note>busy</note></tuple></presence>";

pub(crate) fn on(config: &mut Config) {
    config.presence = PresenceConfig { enabled: true, ..PresenceConfig::default() };
}

/// Server with presence, without passwords.
pub(crate) fn world() -> World {
    World::with(on)
}

/// SUBSCRIBE of a user at `from` to an event of `user`.
pub(crate) fn subscribe(watcher: &str, from: &str, user: &str, event: &str) -> Request {
    let mut request = request("SUBSCRIBE", &format!("sip:{user}@example.org"));
    request.from = format!("<sip:{watcher}@example.org>;tag=from-{watcher}");
    request
        .via(&format!("SIP/2.0/UDP {from};rport;branch=z9hG4bK"))
        .call_id(&format!("{watcher}-{user}-{event}"))
        .line(&format!("Contact: <sip:{watcher}@{from}>"))
        .line(&format!("Event: {event}"))
        .line("Expires: 600")
}

pub(crate) fn publish(user: &str, event: &str, etag: Option<&str>) -> Request {
    let mut request = request("PUBLISH", &format!("sip:{user}@example.org"));
    request.from = format!("<sip:{user}@example.org>;tag=from-{user}");
    let request = request.call_id(&format!("{user}-publishes")).line(&format!("Event: {event}"));
    match etag {
        Some(etag) => request.line(&format!("SIP-If-Match: {etag}")),
        None => request,
    }
}

/// The message with a body.
pub(crate) fn with_body(request: &Request, content_type: &str, body: &str) -> Vec<u8> {
    let text = String::from_utf8(request.wire()).unwrap();
    let head = format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    text.replace("Content-Length: 0\r\n\r\n", &head).into_bytes()
}

pub(crate) fn body(sent: &Sent) -> String {
    sent.text().split_once("\r\n\r\n").unwrap().1.into()
}

/// 200 and NOTIFY that a SUBSCRIBE got.
#[track_caller]
pub(crate) fn accepted(sent: Vec<Sent>) -> (Sent, Sent) {
    let [ok, notify] = <[Sent; 2]>::try_from(sent).unwrap();
    assert_eq!((ok.status(), notify.method().as_str()), (200, "NOTIFY"), "{}", ok.text());
    (ok, notify)
}

/// A later SUBSCRIBE of the dialog that `ok` began.
fn again(first: &Request, ok: &Sent, cseq: u32) -> Request {
    let contact = ok.header("Contact");
    let uri = contact.trim_matches(['<', '>']).to_owned();
    Request { uri, to: ok.header("To"), cseq, ..first.clone() }
}

fn expires(request: Request, seconds: u32) -> Request {
    let lines = request.lines.iter().filter(|line| !line.starts_with("Expires")).cloned().collect();
    Request { lines, ..request }.line(&format!("Expires: {seconds}"))
}

#[test]
fn a_watcher_gets_the_state_at_once_and_each_change() {
    let mut world = world();
    let first = subscribe("alice", ALICE, "bob", "presence");
    let (ok, notify) = accepted(world.udp(ALICE, &first));
    assert_eq!(
        (ok.header("Expires"), ok.header("Contact")),
        ("600".into(), "<sip:bob@192.0.2.1:5060>".into())
    );
    assert_eq!((notify.to(), notify.uri()), (ALICE.into(), format!("sip:alice@{ALICE}")));
    assert_eq!(notify.header("To"), first.from);
    assert_eq!(notify.header("From"), ok.header("To"));
    assert_eq!((notify.header("Call-ID"), notify.header("CSeq")), (first.call_id.clone(), "1 NOTIFY".into()));
    assert_eq!(notify.header("Event"), "presence");
    assert_eq!(notify.header("Subscription-State"), "active;expires=600");
    assert_eq!(notify.header("Content-Type"), PIDF);
    assert!(body(&notify).contains("entity=\"sip:bob@example.org\"") && body(&notify).contains(">closed<"));
    assert!(world.udp(ALICE, &notify.answer(200, &[])).is_empty());
    // At most one in five seconds.
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let sent = world.pass(Duration::from_secs(6));
    let open =
        only(requests(sent.into_iter().filter(|one| one.header("CSeq") == "2 NOTIFY").take(1).collect()));
    assert!(body(&open).contains(">open<"), "{}", open.text());
    world.udp(ALICE, &open.answer(200, &[]));
    assert_eq!((world.server.subscriptions_len(), world.server.counters().notifies), (1, 2));
    assert!(world.pass(Duration::from_secs(500)).is_empty(), "nothing changes");
    let last = only(requests(world.pass(Duration::from_secs(95)).into_iter().take(1).collect()));
    assert_eq!(last.header("Subscription-State"), "terminated;reason=timeout");
    world.udp(ALICE, &last.answer(200, &[]));
    assert_eq!(world.server.subscriptions_len(), 0);
    world.pass(Duration::from_secs(40));
    assert_eq!(world.server.transactions_len(), (0, 0));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

#[test]
fn a_subscription_is_refreshed_and_ended_in_its_dialog() {
    let mut world = world();
    let first = subscribe("alice", ALICE, "bob", "dialog;id=7");
    let (ok, notify) = accepted(world.udp(ALICE, &first));
    assert_eq!(notify.header("Event"), "dialog;id=7");
    assert!(body(&notify).contains("version=\"0\" state=\"full\" entity=\"sip:bob@example.org\""));
    // A retransmission begins nothing.
    let repeated = only(world.udp(ALICE, &first));
    assert_eq!((repeated.status(), repeated.header("To")), (200, ok.header("To")));
    world.udp(ALICE, &notify.answer(200, &[]));
    let second = again(&first, &ok, 2);
    let (_, notify) = accepted(world.udp(ALICE, &second));
    assert!(body(&notify).contains("version=\"1\""));
    assert_eq!(only(world.udp(ALICE, &second)).status(), 200, "a retransmission");
    assert_eq!(only(world.udp(ALICE, &again(&first, &ok, 1).call_id("alice-bob-dialog;id=7"))).status(), 500);
    world.udp(ALICE, &notify.answer(200, &[]));
    let (ended, last) = accepted(world.udp(ALICE, &expires(again(&first, &ok, 3), 0)));
    assert_eq!(
        (ended.header("Expires"), last.header("Subscription-State")),
        ("0".into(), "terminated;reason=timeout".into())
    );
    assert_eq!(only(world.udp(ALICE, &again(&first, &ok, 4))).status(), 481, "it has ended");
    world.udp(ALICE, &last.answer(200, &[]));
    assert_eq!(world.server.subscriptions_len(), 0);
    assert_eq!(only(world.udp(ALICE, &again(&first, &ok, 5))).status(), 481);
}

#[test]
fn a_query_gets_one_notify() {
    let mut world = world();
    let (ok, notify) = accepted(world.udp(ALICE, &expires(subscribe("alice", ALICE, "bob", "presence"), 0)));
    assert_eq!(
        (ok.header("Expires"), notify.header("Subscription-State")),
        ("0".into(), "terminated;reason=timeout".into())
    );
    world.udp(ALICE, &notify.answer(200, &[]));
    assert_eq!(world.server.subscriptions_len(), 0);
}

#[test]
fn other_packages_and_dialogs_are_forwarded_and_bad_ones_refused() {
    let mut world = world();
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let other = world.udp(ALICE, &subscribe("alice", ALICE, "bob", "call-completion"));
    assert_eq!(only(requests(other)).to(), BOB, "a package of the phone");
    let none = Request {
        lines: vec![format!("Contact: <sip:alice@{ALICE}>")],
        ..subscribe("alice", ALICE, "bob", "x")
    };
    let refused = only(world.udp(ALICE, &none.call_id("none")));
    assert_eq!((refused.status(), refused.header("Allow-Events").contains("presence")), (489, true));
    assert_eq!(only(world.udp(ALICE, &publish("alice", "reg", None))).status(), 489);
    let brief = only(world.udp(ALICE, &expires(subscribe("alice", ALICE, "bob", "presence"), 30)));
    assert_eq!((brief.status(), brief.header("Min-Expires")), (423, "60".into()));
    let accept =
        subscribe("alice", ALICE, "bob", "presence").line("Accept: application/sdp").call_id("accept");
    assert_eq!(only(world.udp(ALICE, &accept)).status(), 406);
    let required = subscribe("alice", ALICE, "bob", "presence").line("Require: eventlist").call_id("require");
    assert_eq!(only(world.udp(ALICE, &required)).status(), 420);
    // A SUBSCRIBE inside a dialog of two phones.
    let mut foreign =
        request("SUBSCRIBE", &format!("sip:bob@{BOB}")).line("Event: presence").call_id("foreign");
    foreign.to = "<sip:bob@example.org>;tag=bobs".into();
    assert_eq!(only(requests(world.udp(ALICE, &foreign))).to(), BOB);
    assert_eq!(world.server.subscriptions_len(), 0);
}

#[test]
fn off_changes_nothing() {
    let mut world = World::open();
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    for request in [subscribe("alice", ALICE, "bob", "presence"), publish("bob", "presence", None)] {
        assert_eq!(only(requests(world.udp(ALICE, &request))).to(), BOB);
    }
}

#[test]
fn only_proven_users_watch_and_publish() {
    let mut world = World::with(|config| {
        on(config);
        config.auth.enabled = true;
    });
    let request = subscribe("alice", ALICE, "bob", "presence");
    assert_eq!(only(world.udp(ALICE, &request)).status(), 407);
    assert_eq!(proven(&mut world, ALICE, &request, "alice").len(), 2);
    let mut forged = subscribe("alice", BOB, "bob", "presence").call_id("forged");
    forged.from = "<sip:alice@example.org>;tag=x".into();
    assert_eq!(only(proven(&mut world, BOB, &forged, "bob")).status(), 403, "bob is not alice");
    let mut stranger = subscribe("eve", STRANGER, "bob", "presence").call_id("eve");
    stranger.from = "<sip:eve@example.net>;tag=eve".into();
    assert_eq!(only(world.udp(STRANGER, &stranger)).status(), 407);
    assert_eq!(only(proven(&mut world, STRANGER, &stranger, "carol")).status(), 403, "no user of ours");
    let document = publish("bob", "presence", None).call_id("not-bob");
    assert_eq!(only(world.udp(ALICE, &document)).status(), 407);
    let mut other = publish("bob", "presence", None).call_id("alice-for-bob");
    other.from = "<sip:alice@example.org>;tag=x".into();
    assert_eq!(only(proven(&mut world, ALICE, &other, "alice")).status(), 403, "alice is not bob");
    assert_eq!((world.server.subscriptions_len(), world.server.publications_len()), (1, 0));
    assert_eq!(world.server.counters().watchers_refused, 1);
}

#[test]
fn strangers_who_may_do_anything_else_do_not_watch() {
    let mut world = World::with(|config| {
        on(config);
        config.auth.enabled = true;
        config.auth.strangers = ringway_server::Strangers::All;
    });
    let mut request = subscribe("eve", STRANGER, "bob", "presence");
    request.from = "<sip:eve@example.net>;tag=eve".into();
    assert_eq!(only(world.udp(STRANGER, &request)).status(), 403);
}

#[test]
fn addresses_and_messages_are_for_the_user_alone() {
    for (watchers, event, watcher, allowed) in [
        (Watchers::Domain, "presence", "alice", true),
        (Watchers::Domain, "dialog", "alice", true),
        (Watchers::Domain, "reg", "alice", false),
        (Watchers::Domain, "message-summary", "alice", false),
        (Watchers::Domain, "reg", "bob", true),
        (Watchers::Domain, "message-summary", "bob", true),
        (Watchers::Oneself, "presence", "alice", false),
        (Watchers::Oneself, "dialog", "bob", true),
    ] {
        let mut world = World::with(|config| {
            on(config);
            config.presence.watchers = watchers;
        });
        let sent = world.udp(ALICE, &subscribe(watcher, ALICE, "bob", event));
        assert_eq!(statuses(&sent), [if allowed { 200 } else { 403 }], "{watchers:?} {event} {watcher}");
    }
}

#[test]
fn a_notify_goes_to_the_flow_of_its_subscribe_and_nowhere_else() {
    let mut world = world();
    let mut request = subscribe("alice", ALICE, "bob", "presence");
    request.lines[0] = "Contact: <sip:victim@203.0.113.9>".into();
    let request =
        request.line("Record-Route: <sip:203.0.113.8;lr>").line("Record-Route: <sip:203.0.113.7;lr>");
    let (ok, notify) = accepted(world.udp(ALICE, &request));
    assert_eq!((notify.to(), notify.uri()), (ALICE.into(), "sip:victim@203.0.113.9".into()));
    assert_eq!(notify.headers("Route"), ["<sip:203.0.113.8;lr>, <sip:203.0.113.7;lr>"]);
    assert_eq!(ok.headers("Record-Route").len(), 2);
    for sent in world.pass(Duration::from_secs(40)) {
        assert_eq!(sent.to(), ALICE);
    }
    assert_eq!((world.server.subscriptions_len(), world.server.counters().notify_failures), (0, 1));
}

#[test]
fn a_connection_is_the_way_to_its_subscriber() {
    let mut world = world();
    let request = subscribe("alice", ALICE, "bob", "presence").tcp();
    let (ok, notify) = accepted(world.tcp(7, ALICE, &request));
    assert_eq!(ok.header("Contact"), "<sip:bob@192.0.2.1:5060;transport=tcp>");
    assert_eq!(notify.flow.connection, Some(ConnectionId(7)));
    assert_eq!(world.kept.last().map(|(connection, _)| *connection), Some(ConnectionId(7)));
    world.tcp(7, ALICE, &notify.answer(200, &[]));
    // The phone refreshes over another connection.
    let refresh = again(&request, &ok, 2);
    let (_, notify) = accepted(world.tcp(8, "192.0.2.10:40000", &refresh));
    assert_eq!(notify.flow.connection, Some(ConnectionId(8)));
    world.event(Event::Closed(ConnectionId(7)));
    assert_eq!(world.server.subscriptions_len(), 1);
    world.event(Event::Closed(ConnectionId(8)));
    assert_eq!((world.server.subscriptions_len(), world.server.transactions_len()), (0, (0, 0)));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

#[test]
fn a_failed_notify_ends_the_subscription_unless_it_asks_for_a_pause() {
    for (status, lines, left) in [
        (481, &[][..], 0),
        (407, &[][..], 0),
        (500, &[][..], 0),
        (503, &["Retry-After: 20"][..], 1),
        (503, &["Retry-After: 20 (busy);duration=5"][..], 1),
        (503, &["Retry-After: soon"][..], 0),
    ] {
        let mut world = world();
        let (_, notify) = accepted(world.udp(ALICE, &subscribe("alice", ALICE, "bob", "presence")));
        assert!(world.udp(ALICE, &notify.answer(status, lines)).is_empty());
        assert_eq!(world.server.subscriptions_len(), left, "{status} {lines:?}");
        if left > 0 {
            assert!(world.pass(Duration::from_secs(19)).is_empty());
            assert_eq!(only(world.pass(Duration::from_millis(1100))).header("CSeq"), "2 NOTIFY");
        }
    }
}

#[test]
fn changes_while_a_notify_is_under_way_become_one() {
    let mut world = world();
    let (_, notify) = accepted(world.udp(ALICE, &subscribe("alice", ALICE, "bob", "dialog")));
    for number in 0..5 {
        let request = publish("bob", "dialog", None).call_id(&format!("p{number}"));
        let document = format!(
            "<dialog-info version=\"{number}\" state=\"full\"><dialog id=\"{number}\"/></dialog-info>"
        );
        let sent = world.udp(BOB, &with_body(&request, "application/dialog-info+xml", &document));
        assert_eq!(statuses(&sent), [200]);
        assert_eq!(sent.len(), 1, "one NOTIFY at a time");
    }
    assert!(world.udp(ALICE, &notify.answer(200, &[])).is_empty(), "at most one a second");
    let next = only(requests(world.pass(Duration::from_millis(1200))));
    assert_eq!(body(&next), "<dialog-info version=\"1\" state=\"full\"><dialog id=\"4\"/></dialog-info>");
}

#[test]
fn a_publication_is_begun_refreshed_changed_and_removed() {
    let mut world = world();
    let (_, notify) = accepted(world.udp(ALICE, &subscribe("alice", ALICE, "bob", "presence")));
    world.udp(ALICE, &notify.answer(200, &[]));
    world.pass(Duration::from_secs(6));
    let first = with_body(&publish("bob", "presence", None), PIDF, BUSY);
    let sent = world.udp(BOB, &first);
    let etag = sent[0].header("SIP-ETag");
    assert_eq!((sent[0].status(), sent[0].header("Expires")), (200, "3600".into()));
    assert_eq!((sent[1].to(), body(&sent[1])), (ALICE.into(), BUSY.into()), "as it came");
    world.udp(ALICE, &sent[1].answer(200, &[]));
    assert_eq!(only(world.udp(BOB, &first)).header("SIP-ETag"), etag, "a retransmission");
    let refresh = publish("bob", "presence", Some(&etag)).cseq(2);
    let refreshed = only(world.udp(BOB, &refresh));
    let second = refreshed.header("SIP-ETag");
    assert_ne!(second, etag);
    assert_eq!(only(world.udp(BOB, &refresh)).header("SIP-ETag"), second, "a retransmission");
    let stale = publish("bob", "presence", Some(&etag)).cseq(3);
    assert_eq!(only(world.udp(BOB, &stale)).status(), 412);
    assert_eq!(only(world.udp(BOB, &publish("bob", "presence", Some("x y")).cseq(4))).status(), 412);
    let other_package = publish("bob", "dialog", Some(&second)).cseq(5);
    assert_eq!(only(world.udp(BOB, &other_package)).status(), 412);
    world.pass(Duration::from_secs(6));
    let removed = world.udp(BOB, &publish("bob", "presence", Some(&second)).cseq(6).line("Expires: 0"));
    assert_eq!(removed[0].status(), 200);
    assert!(body(&removed[1]).contains(">closed<"), "the document of the server");
    assert_eq!(world.server.publications_len(), 0);
}

/// RFC 3903 §4.1: a refresh changes no state, so watchers see the same document as before, and no NOTIFY is due.
#[test]
fn a_refresh_of_an_older_publication_does_not_make_it_the_latest() {
    let mut world = world();
    let phone = |name: &str| publish("bob", "presence", None).call_id(name);
    let desk = only(world.udp(BOB, &with_body(&phone("desk"), PIDF, "<desk/>"))).header("SIP-ETag");
    let mobile = only(world.udp(BOB, &with_body(&phone("mobile"), PIDF, "<mobile/>"))).header("SIP-ETag");
    let (_, notify) = accepted(world.udp(ALICE, &subscribe("alice", ALICE, "bob", "presence")));
    assert_eq!(body(&notify), "<mobile/>");
    world.udp(ALICE, &notify.answer(200, &[]));
    world.pass(Duration::from_secs(6));
    let refresh = publish("bob", "presence", Some(&desk)).call_id("desk").cseq(2).line("Expires: 1800");
    let desk = only(world.udp(BOB, &refresh)).header("SIP-ETag");
    assert!(world.pass(Duration::from_secs(6)).is_empty(), "nothing has changed");
    let second = subscribe("carol", CAROL, "bob", "presence");
    let (_, notify) = accepted(world.udp(CAROL, &second));
    assert_eq!(body(&notify), "<mobile/>");
    world.udp(CAROL, &notify.answer(200, &[]));
    // A new document is the latest.
    let changed = publish("bob", "presence", Some(&desk)).call_id("desk").cseq(3);
    let sent = world.udp(BOB, &with_body(&changed, PIDF, "<desk2/>"));
    assert_eq!(body(&sent[1]), "<desk2/>");
    world.udp(ALICE, &sent[1].answer(200, &[]));
    let removed = publish("bob", "presence", Some(&mobile)).call_id("mobile").cseq(2).line("Expires: 0");
    assert_eq!(world.udp(BOB, &removed)[0].status(), 200);
    world.pass(Duration::from_secs(3700));
    assert_eq!((world.server.publications_len(), world.server.subscriptions_len()), (0, 0));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

#[test]
fn a_publication_expires_and_bad_ones_are_refused() {
    let mut world = world();
    let begin = |cseq| publish("bob", "presence", None).cseq(cseq);
    assert_eq!(only(world.udp(BOB, &begin(1))).status(), 400, "no document");
    assert_eq!(only(world.udp(BOB, &with_body(&begin(2), "text/plain", "x"))).status(), 415);
    let compressed = begin(3).line("Content-Encoding: gzip");
    assert_eq!(only(world.udp(BOB, &with_body(&compressed, PIDF, BUSY))).status(), 415);
    let large = "x".repeat(4097);
    assert_eq!(only(world.udp(BOB, &with_body(&begin(4), PIDF, &large))).status(), 413);
    assert_eq!(only(world.udp(BOB, &with_body(&begin(5).line("Expires: 5"), PIDF, BUSY))).status(), 423);
    assert_eq!(world.server.publications_len(), 0);
    let brief = begin(6).line("Expires: 100");
    assert_eq!(only(world.udp(BOB, &with_body(&brief, PIDF, BUSY))).header("Expires"), "100");
    let (_, notify) = accepted(world.udp(ALICE, &subscribe("alice", ALICE, "bob", "presence")));
    assert_eq!(body(&notify), BUSY);
    world.udp(ALICE, &notify.answer(200, &[]));
    let sent = world.pass(Duration::from_secs(101));
    assert!(body(&sent[0]).contains(">closed<"));
    assert_eq!(world.server.publications_len(), 0);
}

#[test]
fn reg_shows_contacts_and_why_they_ended() {
    let mut world = world();
    let (_, notify) = accepted(world.udp(BOB, &subscribe("bob", BOB, "bob", "reg")));
    assert!(body(&notify).contains(
        "version=\"0\" state=\"full\"><registration aor=\"sip:bob@example.org\" id=\"a\" state=\"init\">"
    ));
    world.udp(BOB, &notify.answer(200, &[]));
    world.pass(Duration::from_secs(6));
    let contact = format!("<sip:bob@{BOB};x=a&b>;q=0.5;expires=100");
    let sent = world.udp(BOB, &register("bob", &contact).call_id("reg"));
    let notify = only(requests(sent));
    assert!(body(&notify).contains("version=\"1\"") && body(&notify).contains("state=\"active\" event=\"registered\" expires=\"100\" q=\"0.500\"><uri>sip:bob@192.0.2.20:5060;x=a&amp;b</uri>"), "{}", body(&notify));
    world.udp(BOB, &notify.answer(200, &[]));
    let refresh = world.udp(BOB, &register("bob", &contact).call_id("reg").cseq(2));
    assert!(requests(refresh).is_empty(), "the same contacts");
    let notify = only(requests(world.pass(Duration::from_secs(101)).into_iter().take(1).collect()));
    assert!(
        body(&notify).contains("state=\"terminated\"><contact")
            && body(&notify).contains("state=\"terminated\" event=\"expired\">"),
        "{}",
        body(&notify)
    );
    world.udp(BOB, &notify.answer(200, &[]));
    world.pass(Duration::from_secs(6));
    world.server.remove_user(b"bob@example.org");
    let last = world.due();
    assert_eq!(only(last).header("Subscription-State"), "terminated;reason=noresource");
}

#[test]
fn a_trusted_voicemail_system_changes_the_summary() {
    let mut world = World::with(on);
    let (_, notify) = accepted(world.udp(BOB, &subscribe("bob", BOB, "bob", "message-summary")));
    assert_eq!(body(&notify), "Messages-Waiting: no\r\nMessage-Account: sip:bob@example.org\r\n");
    world.udp(BOB, &notify.answer(200, &[]));
    world.pass(Duration::from_secs(2));
    let summary = "Messages-Waiting: yes\r\nVoice-Message: 2/0\r\n";
    let mut waiting = request("NOTIFY", "sip:bob@example.org")
        .line("Event: message-summary")
        .via("SIP/2.0/UDP x;branch=z9hG4bK");
    waiting.from = "<sip:voicemail@pbx.example.net>;tag=v".into();
    let wire = with_body(&waiting, "application/simple-message-summary", summary);
    assert_eq!(statuses(&world.udp(STRANGER, &wire)), [480], "only a trusted system");
    let sent =
        world.udp(EDGE, &with_body(&waiting.clone().cseq(2), "application/simple-message-summary", summary));
    assert_eq!((statuses(&sent), body(&only(requests(sent)))), (vec![200], summary.into()));
    world.register("carol", CAROL, &format!("<sip:carol@{CAROL}>"));
    let mut forwarded = waiting.cseq(3);
    forwarded.uri = "sip:carol@example.org".into();
    let wire = with_body(&forwarded, "application/simple-message-summary", summary);
    assert_eq!(
        only(requests(world.udp(EDGE, &wire))).to(),
        CAROL,
        "a phone that did not subscribe gets it as before"
    );
    let (_, notify) = accepted(world.udp(CAROL, &subscribe("carol", CAROL, "carol", "message-summary")));
    assert_eq!(body(&notify), summary);
}

#[test]
fn a_reload_that_switches_presence_off_leaves_nothing() {
    let mut world = world();
    let (_, notify) = accepted(world.udp(ALICE, &subscribe("alice", ALICE, "bob", "presence")));
    world.udp(BOB, &with_body(&publish("bob", "presence", None), PIDF, BUSY));
    let config = crate::harness::config();
    world.server.reconfigure(std::sync::Arc::new(config));
    assert!(world.udp(ALICE, &notify.answer(200, &[])).is_empty());
    world.due();
    assert_eq!((world.server.subscriptions_len(), world.server.publications_len()), (0, 0));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
    assert_eq!(world.server.transactions_len(), (0, 0));
}

#[test]
fn a_refresh_needs_the_password_too() {
    let mut world = World::with(|config| {
        on(config);
        config.auth.enabled = true;
    });
    let request = subscribe("alice", ALICE, "bob", "presence");
    let challenge = only(world.udp(ALICE, &request));
    let login = Login::to(&challenge, "alice");
    let (ok, _) = accepted(world.udp(ALICE, &request.clone().cseq(2).line(&login.line(&request))));
    let refresh = again(&request, &ok, 3);
    assert_eq!(only(world.udp(BOB, &refresh)).status(), 407);
    let stolen = Request { from: "<sip:carol@example.org>;tag=from-alice".into(), ..refresh.clone().cseq(4) };
    assert_eq!(only(proven(&mut world, CAROL, &stolen, "carol")).status(), 403);
    let moved = proven(&mut world, "192.0.2.10:6060", &refresh.cseq(6), "alice");
    assert_eq!(requests(moved).len(), 0, "a NOTIFY is under way");
}
