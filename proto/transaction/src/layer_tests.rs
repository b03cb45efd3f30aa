//! Tests of private state: no transaction, timer or buffer is left over. The stories are in `tests/layer/`.

use super::*;
use crate::client::Outgoing;
use crate::server::ServerId;
use alloc::format;
use alloc::string::String;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{ConnectionId, Context, ListenerId, Outbox, Rng, Seed};
use ringway_sip::MessageWriter;

/// Random requests, responses, retransmissions, CANCELs, broken connections and pauses. Then the user answers all open
/// requests and time passes. Every transaction must be gone, and each server transaction reported once.
#[test]
fn nothing_is_left_after_random_histories() {
    for seed in 0..100 {
        let mut history = History::new(seed);
        for _ in 0..300 {
            history.step();
        }
        history.settle();
        let layer = &history.layer;
        assert_eq!(layer.len(), (0, 0), "seed {seed}");
        assert_eq!(layer.next_deadline(), None, "seed {seed}");
        assert!(layer.wheel.is_empty() && layer.index.is_empty(), "seed {seed}");
        assert!(layer.spare.len() <= SPARE_MAX, "seed {seed}");
        history.gone.sort_unstable();
        assert_eq!(history.gone, (0..history.owners).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(history.ended_clients, history.clients.len(), "seed {seed}");
    }
}

#[test]
fn buffers_that_grew_large_are_not_kept() {
    let mut spare = Vec::new();
    recycle(&mut spare, Vec::with_capacity(SPARE_BYTES_MAX + 1));
    recycle(&mut spare, Vec::new());
    assert!(spare.is_empty());
    for _ in 0..2 * SPARE_MAX {
        recycle(&mut spare, Vec::with_capacity(16));
    }
    assert_eq!(spare.len(), SPARE_MAX);
}

#[test]
fn tokens_read_back_as_the_slab_key_and_the_side_that_they_were_written_for() {
    for (index, generation) in [(0, 1), (5, 0xffff), (SERVER_BIT - 1, 7)] {
        let slot = SlabKey { index, generation };
        assert_eq!(read_token(client_token(9, slot)), (slot, false));
        assert_eq!(read_token(server_token(9, slot)), (slot, true));
        assert_ne!(client_token(0, slot), Token::NONE);
    }
}

/// An owner of two keys fits into the padding of a transaction.
#[test]
fn an_owner_of_twelve_bytes_makes_no_transaction_larger() {
    type Branch = (SlabKey, u32);
    assert_eq!(size_of::<Client<Branch>>(), size_of::<Client<u64>>());
    assert_eq!(size_of::<Server<SlabKey>>(), size_of::<Server<u64>>());
}

struct History {
    rng: Rng,
    layer: Transactions<u64, usize>,
    now: Instant,
    out: Outbox,
    notices: Vec<Notice<usize>>,
    requests: Vec<(ServerId, String)>,
    clients: Vec<(ClientId, String)>,
    tokens: Vec<Token>,
    owners: u64,
    gone: Vec<u64>,
    ended_clients: usize,
}

impl History {
    fn new(seed: u64) -> Self {
        let now = Instant::from_secs(1_000_000);
        let timers = Timers::default();
        let layer = Transactions::new(0, timers, Limits::default(), [3; 16], BranchKey::new([4; 16]), now);
        Self {
            rng: Rng::new(&Seed::from_number(seed)),
            layer,
            now,
            out: Outbox::new(),
            notices: Vec::new(),
            requests: Vec::new(),
            clients: Vec::new(),
            tokens: Vec::new(),
            owners: 0,
            gone: Vec::new(),
            ended_clients: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.below(9) {
            0 => self.new_request(),
            1 => self.repeat_request(),
            2 => self.respond(),
            3 => self.new_client(),
            4 => self.answer(),
            5 => self.cancel(),
            6 => self.break_one(),
            7 if self.rng.random_bool(100) => {
                if let Some((id, _)) = self.pick_request() {
                    self.layer.drop_server(id);
                }
            }
            _ => {
                let pause = Duration::from_millis(self.rng.below(5000));
                self.pass(pause);
            }
        }
        self.collect();
    }

    /// Answers all open requests.
    fn settle(&mut self) {
        for (id, text) in self.requests.clone() {
            self.respond_to(id, &text, 500);
        }
        for (id, _) in self.clients.clone() {
            self.layer.cancel(&mut Context::<()>::new(self.now, &mut self.out, &mut Vec::new()), id);
        }
        self.pass(Duration::from_secs(200));
        self.collect();
    }

    fn pass(&mut self, pause: Duration) {
        let until = self.now + pause;
        while let Some(deadline) = self.layer.next_deadline().filter(|deadline| deadline.at <= until) {
            self.now = self.now.max(deadline.at);
            self.layer.on_timeout(
                &mut Context::<()>::new(self.now, &mut self.out, &mut Vec::new()),
                &mut self.notices,
            );
        }
        self.now = until;
    }

    fn collect(&mut self) {
        self.tokens.extend(self.out.packets().map(|(packet, _)| packet.token));
        self.out.clear();
        self.notices.clear();
        self.gone.extend(core::iter::from_fn(|| self.layer.take_gone()));
        let layer = &self.layer;
        self.ended_clients = self.clients.iter().filter(|(id, _)| layer.clients.get(id.0).is_none()).count();
    }

    fn flow(&mut self) -> Flow {
        let remote: SocketAddr = "192.0.2.1:5060".parse().unwrap();
        match self.rng.below(3) {
            0 => Flow { connection: Some(ConnectionId(1)), ..Flow::dial(ListenerId(0), remote) },
            1 => Flow::dial(ListenerId(0), remote),
            _ => Flow::udp(ListenerId(0), remote),
        }
    }

    fn new_request(&mut self) {
        let is_invite = self.rng.random_bool(500);
        let cookie = if self.rng.random_bool(800) { ";branch=z9hG4bK" } else { ";branch=" };
        let text = request(is_invite, &format!("{cookie}{}", self.owners));
        let flow = self.flow();
        let Incoming::New(key) = self.receive(&text) else { panic!("taken for a retransmission") };
        let id = self.layer.start_server(key, is_invite, flow, 5060, self.owners).unwrap();
        self.owners += 1;
        self.requests.push((id, text));
    }

    fn receive(&mut self, text: &str) -> Incoming<u64> {
        let message = Message::parse(text.as_bytes(), &ringway_sip::Limits::default()).unwrap();
        self.layer
            .receive_request(&mut Context::<()>::new(self.now, &mut self.out, &mut Vec::new()), &message)
    }

    fn pick_request(&mut self) -> Option<(ServerId, String)> {
        let at = self.rng.below(self.requests.len() as u64) as usize;
        self.requests.get(at).cloned()
    }

    fn repeat_request(&mut self) {
        let Some((_, text)) = self.pick_request() else { return };
        let text = if self.rng.random_bool(300) { text.replace("INVITE", "ACK") } else { text };
        self.receive(&text);
    }

    fn respond(&mut self) {
        let Some((id, text)) = self.pick_request() else { return };
        let status = [100, 180, 200, 302, 486, 600][self.rng.below(6) as usize];
        self.respond_to(id, &text, status);
    }

    fn respond_to(&mut self, id: ServerId, text: &str, status: u16) {
        self.layer.respond(
            &mut Context::<()>::new(self.now, &mut self.out, &mut Vec::new()),
            id,
            status,
            |arena| write_response(arena, text, status),
        );
    }

    fn new_client(&mut self) {
        let is_invite = self.rng.random_bool(700);
        let outgoing = Outgoing { flow: self.flow(), is_invite, owner: self.clients.len() };
        let id = self.layer.start_client(
            &mut Context::<()>::new(self.now, &mut self.out, &mut Vec::new()),
            outgoing,
            |arena, branch| {
                let branch = core::str::from_utf8(branch).unwrap();
                arena.extend_from_slice(request(is_invite, &format!(";branch={branch}")).as_bytes());
            },
        );
        let text = core::str::from_utf8(self.out.last_bytes()).unwrap();
        self.clients.push((id.unwrap(), text.into()));
    }

    fn pick_client(&mut self) -> Option<(ClientId, String)> {
        let at = self.rng.below(self.clients.len() as u64) as usize;
        self.clients.get(at).cloned()
    }

    fn answer(&mut self) {
        let Some((_, mut text)) = self.pick_client() else { return };
        if self.rng.random_bool(200) {
            text = text.replace("INVITE", "CANCEL");
        }
        let status = [100, 180, 200, 302, 486, 600][self.rng.below(6) as usize];
        let mut bytes = Vec::new();
        write_response(&mut bytes, &text, status);
        let message = Message::parse(&bytes, &ringway_sip::Limits::default()).unwrap();
        self.layer.receive_response(
            &mut Context::<()>::new(self.now, &mut self.out, &mut Vec::new()),
            &message,
            status,
            |_| true,
        );
    }

    fn cancel(&mut self) {
        if let Some((id, _)) = self.pick_client() {
            self.layer.cancel(&mut Context::<()>::new(self.now, &mut self.out, &mut Vec::new()), id);
        }
    }

    fn break_one(&mut self) {
        let at = self.rng.below(self.tokens.len() as u64) as usize;
        if let Some(&token) = self.tokens.get(at) {
            self.layer.unreachable(
                &mut Context::<()>::new(self.now, &mut self.out, &mut Vec::new()),
                token,
                &mut self.notices,
            );
        }
    }
}

fn request(is_invite: bool, branch: &str) -> String {
    let method = if is_invite { "INVITE" } else { "OPTIONS" };
    format!(
        "{method} sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP host{branch}\r\nFrom: <sip:a@b>;tag=1\r\n\
         To: <sip:b@b>\r\nCall-ID: c\r\nCSeq: 1 {method}\r\n\r\n"
    )
}

fn write_response(out: &mut Vec<u8>, request: &str, status: u16) {
    let request = Message::parse(request.as_bytes(), &ringway_sip::Limits::default()).unwrap();
    MessageWriter::response(out, &request, status, "x", None, Some(b"t")).finish().unwrap();
}

#[test]
fn the_numbers_in_branches_do_not_reveal_the_key_of_the_matcher() {
    let key: [u8; 16] = core::array::from_fn(|at| 0xa0 + at as u8);
    let unique = first_unique(&key).to_be_bytes();
    assert!(key.windows(4).all(|part| !unique.windows(4).any(|shown| shown == part)));
    assert_ne!(unique, first_unique(&[0; 16]).to_be_bytes());
}
