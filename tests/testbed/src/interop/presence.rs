//! Presence between baresip and linphonec, texts for the one that is away, message waiting at baresip, `reg` and `dialog` by
//! SIPp, and the lamps of phones that publish nothing.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::calls::Play;
use super::server::{Server, Wanted};
use super::sipp::{Connections, User, succeeded};
use super::softphone::{Line, Softphone};
use super::{Scenario, Stage, Transport, baresip, linphone};
use crate::process::{PATIENCE, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let phones = |transport: Transport| {
        Scenario::new(format!("presence/phones/{}", transport.name()), move |stage: &Stage| {
            phones(stage, transport)
        })
    };
    let events = |(event, transport): (&'static str, Transport)| {
        Scenario::new(format!("presence/{event}/{}", transport.name()), move |stage: &Stage| {
            watch(stage, event, transport)
        })
    };
    let mut all: Vec<_> = [Transport::Udp, Transport::Tcp].map(phones).into();
    all.push(Scenario::new("presence/voicemail", voicemail));
    all.extend([Transport::Udp, Transport::Tcp].map(|transport| {
        Scenario::new(format!("presence/texts/{}", transport.name()), move |stage: &Stage| {
            texts(stage, transport)
        })
    }));
    all.extend(
        [
            ("reg", Transport::Udp),
            ("reg", Transport::Tcp),
            ("dialog", Transport::Udp),
            ("dialog", Transport::Tcp),
        ]
        .map(events),
    );
    let dialog_states = |transport: Transport| {
        Scenario::new(format!("presence/lamps/{}", transport.name()), move |stage: &Stage| {
            dialog_states(stage, transport)
        })
    };
    all.extend([Transport::Udp, Transport::Tcp].map(dialog_states));
    all.into_iter().map(|scenario| Scenario { reference: false, ..scenario }).collect()
}

/// Alice at baresip and bob at linphonec watch each other: alice sees bob come, and bob sees alice come and go.
fn phones(stage: &Stage, transport: Transport) -> Result<()> {
    let server = Server::start_with(stage, Wanted::default(), "[presence]\nenabled = true")?;
    server.add_user("alice")?;
    server.add_user("bob")?;
    let line = Line::at_server("alice", 440.0, server.port, transport);
    let mut alice = baresip::Phone::start_watching(stage, line, "bob")?;
    alice.registered()?;
    alice.come_online()?;
    // It reports changes only: the first state must be that bob is away.
    alice.gets("NOTIFY sip:alice")?;
    let line = Line::at_server("bob", 1000.0, server.port, transport);
    let mut bob = linphone::Phone::start_watching(stage, line, "alice")?;
    bob.registered()?;
    alice.sees("bob", "Online").context("alice")?;
    bob.sees("alice", "Online").context("bob")?;
    let counters = server.counters()?;
    ensure!(counters.get("publications")? >= 2, "the phones did not publish");
    ensure!(counters.get("subscriptions")? >= 2, "the phones did not subscribe");
    alice.go_offline()?;
    bob.sees("alice", "Offline").context("after alice has left")
}

/// Alice at linphonec writes to bob, who is away; bob's baresip shows it after a restart of the server, and the other way round.
fn texts(stage: &Stage, transport: Transport) -> Result<()> {
    let sections = "[presence]\nmessages = true";
    let mut server = Server::start_with(stage, Wanted { strict: true, ..Wanted::default() }, sections)?;
    server.add_user("alice")?;
    server.add_user("bob")?;
    let alice_at = Line::at_server("alice", 440.0, server.port, transport);
    let mut alice = linphone::Phone::start(stage, alice_at)?;
    alice.registered()?;
    alice.says("bob", "Dinner at eight?")?;
    keeps(&server, 1).context("the text of alice")?;
    server.kill();
    server.start_again()?;
    keeps(&server, 1).context("after the restart")?;
    let line = Line::at_server("bob", 1000.0, server.port, transport);
    let mut bob = baresip::Phone::start_writing(stage, line, "alice")?;
    bob.registered()?;
    bob.reads("alice", "Dinner at eight?").context("bob")?;
    keeps(&server, 0).context("after the delivery")?;
    // It ends its registration.
    alice.recording()?;
    bob.says("With pleasure")?;
    keeps(&server, 1).context("the text of bob")?;
    let mut alice = linphone::Phone::start(&stage.within("later")?, alice_at)?;
    alice.registered()?;
    alice.reads("bob", "With pleasure").context("alice")?;
    keeps(&server, 0).context("after the second delivery")
}

/// Waits until the server keeps this number of messages.
fn keeps(server: &Server, count: u64) -> Result<()> {
    server.await_counter("messages_waiting", count, PATIENCE)
}

/// A voicemail system tells the server that two messages wait; baresip shows it.
fn voicemail(stage: &Stage) -> Result<()> {
    let wanted = Wanted { trusted: Some(VOICEMAIL), ..Wanted::default() };
    let server = Server::start_with(stage, wanted, "[presence]\nenabled = true")?;
    server.add_user("bob")?;
    let socket = UdpSocket::bind((VOICEMAIL, 0))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let address = socket.local_addr()?;
    let body =
        "Messages-Waiting: yes\r\nMessage-Account: sip:bob@example.org\r\nVoice-Message: 2/0 (0/0)\r\n";
    let notify = format!(
        "NOTIFY sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch=z9hG4bKvoicemail\r\nMax-Forwards: 70\r\n\
         From: <sip:asterisk@{address}>;tag=v\r\nTo: <sip:bob@example.org>\r\nCall-ID: voicemail\r\nCSeq: 1 NOTIFY\r\n\
         Contact: <sip:asterisk@{address}>\r\nEvent: message-summary\r\nSubscription-State: active\r\n\
         Content-Type: application/simple-message-summary\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.send_to(notify.as_bytes(), (Ipv4Addr::LOCALHOST, server.port))?;
    let mut answer = [0; 2000];
    let length = socket.recv(&mut answer).context("the NOTIFY has no response")?;
    ensure!(
        answer.get(..length).is_some_and(|text| text.starts_with(b"SIP/2.0 200")),
        "the NOTIFY was refused"
    );
    for start in 1..=STARTS_MAX {
        let line = Line::at_server("bob", 1000.0, server.port, Transport::Udp);
        let mut bob = baresip::Phone::start_with_messages(&stage.within(&format!("start-{start}"))?, line)?;
        bob.registered()?;
        if bob.has_messages()? {
            return Ok(());
        }
    }
    bail!("baresip only subscribed again and again, {STARTS_MAX} times")
}

/// SIPp subscribes with a password, changes its own state, sees the change, and unsubscribes.
fn watch(stage: &Stage, event: &'static str, transport: Transport) -> Result<()> {
    let users: Vec<User> = (0..5)
        .map(|number| User {
            name: format!("watcher{number}"),
            password: format!("secret-watcher{number}"),
            callee: String::new(),
        })
        .collect();
    let server = Server::start_with(stage, Wanted::default(), "[presence]\nenabled = true")?;
    for user in &users {
        server.add_user(&user.name)?;
    }
    let play = Play { stage, transport, digest: true };
    let mut sipp = play.sipp("watch", event, &users, free_port()?, Some(server.port));
    let parts = [event];
    sipp.parts = &parts;
    let words = [("EVENT", event.to_owned())];
    sipp.words = &words;
    sipp.run(stage)?;
    let counters = server.counters()?;
    ensure!(counters.get("subscriptions")? == users.len() as u64, "not every SUBSCRIBE began a subscription");
    ensure!(counters.get("subscriptions_active")? == 0, "a subscription has not ended");
    Ok(())
}

/// Caller and callee are SIPp, which publishes nothing; two watchers see each state of their call.
fn dialog_states(stage: &Stage, transport: Transport) -> Result<()> {
    let user = |name: &str, callee: &str| User {
        name: name.to_owned(),
        password: format!("secret-{name}"),
        callee: callee.to_owned(),
    };
    let (callers, callees) = ([user("alice", "bob")], [user("bob", "alice")]);
    let watchers = [user("carol", "bob"), user("dave", "alice")];
    let server = Server::start_with(stage, Wanted::default(), "[presence]\nenabled = true")?;
    for User { name, .. } in callers.iter().chain(&callees).chain(&watchers) {
        server.add_user(name)?;
    }
    let play = Play { stage, transport, digest: true };
    let callee_port = free_port()?;
    play.sipp("register", "register", &callees, callee_port, Some(server.port)).run(stage)?;
    let mut answering = play.sipp("answer", "callee", &callees, callee_port, None);
    answering.parts = &["routed", "slow"];
    let mut answering = answering.start(stage)?;
    let mut watching =
        play.sipp("lamp", "watcher", &watchers, free_port()?, Some(server.port)).start(stage)?;
    server.await_counter("subscriptions_active", watchers.len() as u64, PATIENCE)?;
    // A subscription gets one NOTIFY a second: `trying` would merge into `early`.
    std::thread::sleep(Duration::from_millis(1500));
    let mut calling = play.sipp("call", "caller", &callers, free_port()?, Some(server.port));
    calling.connections = Connections::OnePerCall;
    calling.parts = &["digest", "stateful", "slow"];
    calling.run(stage)?;
    succeeded("callee", &mut answering)?;
    succeeded("watcher", &mut watching)?;
    let counters = server.counters()?;
    ensure!(counters.get("lamps_lit")? == 2, "each user of the call is shown once");
    ensure!(counters.get("publications")? == 0, "nobody published");
    Ok(())
}

/// Address of the voicemail system.
const VOICEMAIL: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// Attempts to have a baresip that handles messages.
const STARTS_MAX: usize = 10;
