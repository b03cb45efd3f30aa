//! To read or change a server by its admin API, over sockets of this machine.

use crate::row::{Door, Row, Seen, Thesis};
use ringway_admin::{
    Admin, AdminServer, Answer, BlockPage, Call, CallRecord, Change, Connection, Control, Page, Registration,
    ServerInfo, Stats, User, UserQuery, View,
};
use ringway_sansio::Defence;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a program reads the registrations without the token",
        door: Door::Admin,
        thesis: Thesis::Other,
        defence: Defence::AdminToken,
        attack: reads_without_a_token,
    },
    Row {
        name: "a short token is guessed, the right one after two hundred others",
        door: Door::Admin,
        thesis: Thesis::Other,
        defence: Defence::AdminGuessing,
        attack: guesses_the_token,
    },
    Row {
        name: "a name of the attacker leads a browser to the listener on loopback (DNS rebinding)",
        door: Door::Admin,
        thesis: Thesis::Other,
        defence: Defence::AdminHost,
        attack: rebinds_a_name,
    },
    Row {
        name: "a page of another site changes the server by a browser on its machine",
        door: Door::Admin,
        thesis: Thesis::Other,
        defence: Defence::AdminOrigin,
        attack: changes_from_a_page,
    },
];

/// A server without anything, and the number of changes.
#[derive(Default)]
struct Empty {
    changes: AtomicUsize,
}

impl View for Empty {
    fn registrations(&self, _: Option<&str>, _: usize, _: Option<&str>) -> Page<Registration> {
        Page::default()
    }

    fn calls(&self, _: Option<&str>, _: usize) -> Page<Call> {
        Page::default()
    }

    fn records(&self, _: Option<&str>, _: usize) -> Page<CallRecord> {
        Page::default()
    }

    fn connections(&self, _: Option<&str>, _: usize, _: Option<&str>) -> Page<Connection> {
        Page::default()
    }

    fn stats(&self) -> Stats {
        Vec::new()
    }

    fn server(&self) -> ServerInfo {
        ServerInfo::default()
    }
}

impl Control for Empty {
    fn apply(&self, _: Change) -> Answer {
        self.changes.fetch_add(1, Ordering::Relaxed);
        Answer::refused(503, "it was counted")
    }

    fn blocks(&self, _: u64, _: usize) -> Result<BlockPage, String> {
        Err("none".to_owned())
    }

    fn forwards(&self, _: &str) -> Answer {
        Answer::refused(404, "none")
    }

    fn users(&self, _: &UserQuery) -> Result<Page<User>, String> {
        Ok(Page::default())
    }

    fn user(&self, _: &str) -> Answer {
        Answer::refused(404, "none")
    }

    fn configuration(&self) -> Answer {
        Answer::refused(404, "none")
    }

    fn routes(&self) -> Answer {
        Answer::refused(404, "none")
    }
}

/// The API on a port of loopback, and its traffic.
struct Api {
    server: AdminServer,
    address: std::net::SocketAddr,
    state: Arc<Empty>,
    sent: u64,
    received: u64,
}

impl Api {
    fn serve(token: &str) -> Self {
        let admin = Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, state) = (admin.address(), Arc::new(Empty::default()));
        let (view, control) = (Arc::clone(&state) as Arc<dyn View>, Arc::clone(&state) as Arc<dyn Control>);
        let server = admin.serve(view, control, token, Arc::new(|| None)).unwrap();
        Self { server, address, state, sent: 0, received: 0 }
    }

    /// Status of the response to a request with these lines.
    fn ask(&mut self, request: &str, lines: &str) -> u16 {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let request = format!("{request} HTTP/1.1\r\n{lines}Content-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        self.received += request.len() as u64;
        self.sent += answer.len() as u64;
        std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap()
    }

    fn seen(self, succeeded: bool) -> Seen {
        drop(self.server);
        Seen { succeeded, received_bytes: self.received, sent_bytes: self.sent }
    }
}

const LOCAL: &str = "Host: localhost\r\n";

fn reads_without_a_token() -> Seen {
    let mut api = Api::serve("a token that nobody guesses");
    let status = api.ask("GET /api/registrations", LOCAL);
    api.seen(status == 200)
}

fn guesses_the_token() -> Seen {
    let mut api = Api::serve("w200");
    let mut succeeded = false;
    for number in 0..=200 {
        let lines = format!("{LOCAL}Authorization: Bearer w{number}\r\n");
        succeeded |= api.ask("GET /api/registrations", &lines) == 200;
    }
    api.seen(succeeded)
}

fn rebinds_a_name() -> Seen {
    let mut api = Api::serve("");
    let status = api.ask("GET /api/registrations", "Host: evil.example\r\n");
    api.seen(status == 200)
}

fn changes_from_a_page() -> Seen {
    let mut api = Api::serve("");
    api.ask("POST /api/reload", &format!("{LOCAL}Origin: https://evil.example\r\n"));
    let changes = api.state.changes.load(Ordering::Relaxed);
    api.seen(changes == 1)
}
