//! Long polls of `/api/trace` over real sockets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use ringway_admin::{
    Admin, AdminServer, Answer, BlockPage, Call, CallRecord, Change, Connection, Control, Page, Registration,
    ServerInfo, Stats, TraceEntry, TracePage, TraceRefusal, Traces, User, UserQuery, View,
};
use ringway_test_support::eventually::wait_until;
use ringway_test_support::programs::run_alone;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct NoControl;

impl Control for NoControl {
    fn apply(&self, _: Change) -> Answer {
        Answer::refused(500, "not here")
    }

    fn blocks(&self, _: u64, _: usize) -> Result<BlockPage, String> {
        Ok(BlockPage::default())
    }

    fn forwards(&self, _: &str) -> Answer {
        Answer::refused(500, "not here")
    }

    fn users(&self, _: &UserQuery) -> Result<Page<User>, String> {
        Ok(Page::default())
    }

    fn user(&self, _: &str) -> Answer {
        Answer::refused(500, "not here")
    }

    fn configuration(&self) -> Answer {
        Answer::refused(500, "not here")
    }

    fn routes(&self) -> Answer {
        Answer::refused(500, "not here")
    }
}

/// A trace of bob with this many entries.
#[derive(Debug, Default)]
struct OneTrace {
    entries: AtomicU64,
    reads: AtomicU64,
    left: AtomicU64,
}

impl View for OneTrace {
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

    fn server(&self) -> ServerInfo {
        ServerInfo::default()
    }

    fn stats(&self) -> Stats {
        Vec::new()
    }

    fn traces(&self) -> Option<&dyn Traces> {
        Some(self)
    }
}

impl Traces for OneTrace {
    fn read(&self, user: &str, after: Option<u64>, max: usize) -> Result<TracePage, TraceRefusal> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        match user {
            "bob" => {}
            "busy" => return Err(TraceRefusal::TooMany),
            _ => return Err(TraceRefusal::BadName),
        }
        let last = self.entries.load(Ordering::Relaxed);
        let after = after.unwrap_or(last);
        let entry = |n| TraceEntry { n, text: Some("<b>\u{1b}".to_owned()), ..TraceEntry::default() };
        let entries: Vec<_> = (after + 1..=last).take(max).map(entry).collect();
        Ok(TracePage { next: entries.last().map_or(after, |last| last.n), entries, lost: 0 })
    }

    fn leave(&self, _: &str) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

fn serve(token: &str) -> (Arc<OneTrace>, AdminServer) {
    let view = Arc::new(OneTrace::default());
    let admin = Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let server = admin.serve(Arc::clone(&view) as _, Arc::new(NoControl), token, Arc::new(|| None)).unwrap();
    (view, server)
}

fn begin(address: SocketAddr, query: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /api/trace{query} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn end(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn a_poll_answers_at_once_when_there_is_something_and_waits_when_there_is_not() {
    let (view, server) = serve("");
    view.entries.store(3, Ordering::Relaxed);
    let answer = end(begin(server.address(), "?user=bob&after=2"));
    assert!(answer.contains("{\"entries\":[{\"call_id\":\"\"") && answer.contains("\"next\":3}"), "{answer}");
    assert!(answer.contains("<b>\\u001b"), "no control byte is written as it is: {answer}");
    let waits = begin(server.address(), "?user=bob&after=3");
    std::thread::sleep(Duration::from_millis(300));
    view.entries.store(4, Ordering::Relaxed);
    assert!(end(waits).contains("\"n\":4"));
    let begun = Instant::now();
    assert!(end(begin(server.address(), "?user=bob&after=4&wait=1")).contains("\"entries\":[]"));
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_poll_without_a_number_answers_what_happens_from_now_on() {
    let (view, server) = serve("");
    view.entries.store(3, Ordering::Relaxed);
    let now = end(begin(server.address(), "?user=bob&wait=0"));
    assert!(now.contains("\"entries\":[]") && now.contains("\"next\":3"), "{now}");
    let waits = begin(server.address(), "?user=bob");
    std::thread::sleep(Duration::from_millis(300));
    view.entries.store(4, Ordering::Relaxed);
    let next = end(waits);
    assert!(next.contains("\"n\":4") && !next.contains("\"n\":3"), "{next}");
}

#[test]
fn a_reader_that_ends_leaves_its_trace() {
    let (view, server) = serve("");
    let left = |count| {
        wait_until(&format!("{count} readers have ended"), || view.left.load(Ordering::Relaxed) == count);
    };
    end(begin(server.address(), "?user=bob&after=0&wait=0"));
    left(0);
    end(begin(server.address(), "?user=bob&after=0&wait=0&end=true"));
    left(1);
    // As by Ctrl-C.
    let waits = begin(server.address(), "?user=bob&after=0");
    std::thread::sleep(Duration::from_millis(300));
    drop(waits);
    left(2);
}

#[test]
fn wrong_types_refusals_and_a_missing_token_are_answered_at_once() {
    let (view, server) = serve("");
    for query in [
        "",
        "?after=1",
        "?user=bob&after=-1",
        "?user=bob&after=x",
        "?user=bob&wait=1e9",
        "?user=bob&x=",
        "?user=eve",
    ] {
        let answer = end(begin(server.address(), query));
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"error\""), "{query}: {answer}");
    }
    assert!(end(begin(server.address(), "?user=busy")).starts_with("HTTP/1.1 503 "));
    let reads = view.reads.load(Ordering::Relaxed);
    let (view, server) = serve("secret");
    assert!(end(begin(server.address(), "?user=bob")).starts_with("HTTP/1.1 401 "));
    assert_eq!((reads, view.reads.load(Ordering::Relaxed)), (2, 0));
}

#[test]
fn thousands_of_polls_hold_no_threads_and_keep_nobody_from_being_served() {
    // The threads of other tests must not be counted.
    run_alone("traces::polls_beside_no_other_test");
}

#[test]
#[ignore = "run by the test above"]
fn polls_beside_no_other_test() {
    let (_view, server) = serve("");
    let before = threads();
    // More than are served at once; the system's limit of open files permits no more in one process.
    let mut open = std::collections::VecDeque::new();
    for _ in 0..2000 {
        open.push_back(begin(server.address(), "?user=bob"));
        if open.len() > 400 {
            open.pop_front();
        }
    }
    assert!(threads() <= before + 8, "{} threads, {before} before", threads());
    let begun = Instant::now();
    let mut stats = TcpStream::connect(server.address()).unwrap();
    let host = server.address();
    stats
        .write_all(format!("GET /api/stats HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    assert!(end(stats).starts_with("HTTP/1.1 200 "));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
