//! For tests: a person at the phone, and what they see.

use super::model::{Effect, Event, Host, Model};
use super::settings::{Account, Contact, PasswordPlace, Registration, Settings};
use super::view;
use super::{Now, WallTime};
use crate::cells::Cells;
use crate::keys::Key;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_phone::{
    CallNumber, Levels, MediaReport, MessageDirection, PhoneCommand, PhoneEvent, Protection, SipMessage,
};
use ringway_sansio::Transport;

/// Settings with an account and three contacts.
pub(crate) fn settings() -> Settings {
    let account = Account {
        uri: "sip:alice@example.org".to_owned(),
        name: String::new(),
        auth_user: None,
        realm: None,
        server: Some("192.0.2.10:5060".to_owned()),
        transport: Transport::Udp,
        registration: Registration::Wanted,
        password: PasswordPlace::Ask,
    };
    let contact =
        |name: &str, uri: &str, quick| Contact { name: name.to_owned(), uri: uri.to_owned(), quick };
    let contacts = [
        contact("Bob", "sip:bob@example.org", Some(1)),
        contact("Carol Danvers", "sip:carol@example.org", Some(4)),
        contact("Door", "sip:door@192.0.2.30", None),
    ];
    Settings { account: Some(account), contacts: contacts.into(), ..Settings::default() }
}

/// A person at a phone, on a clock that goes on when told.
pub(crate) struct Scene {
    pub(crate) model: Model,
    pub(crate) now: Now,
    /// Effects since they were taken last.
    effects: Vec<Effect>,
}

impl Scene {
    /// A phone with these settings, at three minutes past two.
    pub(crate) fn with(settings: Settings) -> Self {
        let host = Host::System { file: "phone.toml".to_owned() };
        let wall = WallTime { month: 5, day: 1, hour: 14, minute: 3, second: 7, millisecond: 120 };
        let now = Now { elapsed: Duration::from_secs(10), wall: Some(wall) };
        Self { model: Model::new(settings, host), now, effects: Vec::new() }
    }

    /// A phone with an account and contacts.
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    /// Time goes on, by less than an hour in all.
    pub(crate) fn wait_ms(&mut self, ms: u64) {
        self.now.elapsed += Duration::from_millis(ms);
        let Some(wall) = &mut self.now.wall else { return };
        let all =
            u64::from(wall.millisecond) + ms + 1000 * (u64::from(wall.second) + 60 * u64::from(wall.minute));
        wall.millisecond = (all % 1000) as u16;
        wall.second = (all / 1000 % 60) as u8;
        wall.minute = (all / 60_000) as u8;
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.model.update(self.now, event, &mut self.effects);
    }

    pub(crate) fn phone(&mut self, event: PhoneEvent) {
        self.event(Event::Phone(event));
    }

    /// The program calls a method of the model.
    pub(crate) fn on_model(&mut self, call: impl FnOnce(&mut Model, Now, &mut Vec<Effect>)) {
        call(&mut self.model, self.now, &mut self.effects);
    }

    pub(crate) fn press(&mut self, key: Key) {
        self.event(Event::Key(key));
    }

    pub(crate) fn types(&mut self, text: &str) {
        for c in text.chars() {
            self.press(Key::Char(c));
        }
    }

    /// Effects since the last time.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        core::mem::take(&mut self.effects)
    }

    /// Commands since the last time.
    pub(crate) fn commands(&mut self) -> Vec<PhoneCommand> {
        let effects = self.effects().into_iter();
        effects
            .filter_map(|effect| match effect {
                Effect::Phone(command) => Some(command),
                Effect::Save(_)
                | Effect::KeepPassword { .. }
                | Effect::ForgetPassword { .. }
                | Effect::KeepCalls
                | Effect::Bell
                | Effect::Leave
                | Effect::SignIn { .. } => None,
            })
            .collect()
    }

    /// Bob calls, as call `number`.
    pub(crate) fn bob_calls(&mut self, number: u64) -> CallNumber {
        let call = CallNumber(number);
        self.phone(PhoneEvent::Incoming {
            call,
            name: "Robert".to_owned(),
            uri: "sip:bob@example.org".to_owned(),
            bypasses_server: false,
            is_sips: false,
            replaces: None,
        });
        call
    }

    /// We call `to` as call `number`, and they answer.
    pub(crate) fn talk_to(&mut self, number: u64, to: &str) -> CallNumber {
        let call = CallNumber(number);
        self.phone(PhoneEvent::Calling { call, to: to.to_owned() });
        self.phone(PhoneEvent::Ringing { call });
        self.phone(PhoneEvent::Answered { call, codec: "PCMU".to_owned() });
        call
    }

    pub(crate) fn secured(&mut self, call: CallNumber, lock: Protection) {
        self.phone(PhoneEvent::Secured { call, protection: lock });
    }

    /// A second of sound.
    pub(crate) fn second_of_sound(&mut self, call: CallNumber, second: u64) {
        self.wait_ms(1000);
        let wave = (second * 7 % 11) as f32;
        let report = MediaReport {
            sent_packets: 50 * second,
            received_packets: 50 * second - 3,
            lost_packets: 3,
            delta_ms: 20.0 + wave / 10.0,
            delta_ms_max: 22.4,
            jitter_ms: 0.1 + wave / 50.0,
            jitter_ms_max: 0.84,
            loss_percent: if second.is_multiple_of(13) { 2.0 } else { 0.0 },
            mos: Some(4.36),
            auth_failures: 0,
            replays: 0,
        };
        self.phone(PhoneEvent::Media { call, report });
        let levels = Levels { sent_db: -18.0, received_db: -31.0 + wave };
        self.phone(PhoneEvent::Levels { call, levels });
    }

    pub(crate) fn message(&mut self, way: MessageDirection, text: &str) {
        let bytes = text.as_bytes().to_vec();
        let peer = "192.0.2.10:5060".parse().unwrap();
        self.phone(PhoneEvent::Message(SipMessage {
            direction: way,
            transport: Transport::Udp,
            peer,
            line: String::new(),
            cseq: String::new(),
            length: bytes.len(),
            bytes,
        }));
    }

    /// The window.
    pub(crate) fn cells(&self, columns: usize, rows: usize) -> Cells {
        let mut cells = Cells::with_size(columns, rows);
        view::draw(&self.model, self.now, None, &mut cells);
        cells
    }

    /// The window of 80 by 24, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        lines(&self.cells(80, 24))
    }

    /// The first line that has `text` in it.
    pub(crate) fn line(&self, text: &str) -> String {
        let lines = self.lines();
        let found = lines.iter().find(|line| line.contains(text)).cloned();
        found.unwrap_or_else(|| panic!("no line has {text:?}:\n{}", lines.join("\n")))
    }

    /// True when any line has it.
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }
}

/// The characters of a screen, a line each, without blanks at the end.
pub(crate) fn lines(cells: &Cells) -> Vec<String> {
    (0..cells.rows()).map(|y| cells.row_text(y).trim_end().to_owned()).collect()
}

/// A call to bob, as it goes over the wire.
pub(crate) const LADDER: [(MessageDirection, &str); 6] = [
    (
        MessageDirection::Sent,
        "INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7:5062;branch=z9hG4bK1\r\n\
         From: <sip:alice@example.org>;tag=a1\r\nTo: <sip:bob@example.org>\r\nCall-ID: 7f3a@192.0.2.7\r\n\
         CSeq: 1 INVITE\r\nContent-Type: application/sdp\r\n\r\nv=0\r\no=- 1 1 IN IP4 192.0.2.7\r\ns=-\r\n\
         c=IN IP4 192.0.2.7\r\nt=0 0\r\nm=audio 40000 RTP/AVP 0 8 101\r\n\
         a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj|2^31\r\na=sendrecv\r\n",
    ),
    (
        MessageDirection::Received,
        "SIP/2.0 407 Proxy Authentication Required\r\nCall-ID: 7f3a@192.0.2.7\r\nCSeq: 1 INVITE\r\n\r\n",
    ),
    (
        MessageDirection::Sent,
        "ACK sip:bob@example.org SIP/2.0\r\nCall-ID: 7f3a@192.0.2.7\r\nCSeq: 1 ACK\r\n\r\n",
    ),
    (
        MessageDirection::Sent,
        "INVITE sip:bob@example.org SIP/2.0\r\nCall-ID: 7f3a@192.0.2.7\r\nCSeq: 2 INVITE\r\n\r\n",
    ),
    (MessageDirection::Received, "SIP/2.0 180 Ringing\r\nCall-ID: 7f3a@192.0.2.7\r\nCSeq: 2 INVITE\r\n\r\n"),
    (MessageDirection::Received, "SIP/2.0 200 OK\r\nCall-ID: 7f3a@192.0.2.7\r\nCSeq: 2 INVITE\r\n\r\n"),
];
