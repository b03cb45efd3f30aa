//! Tests of servers that share certificate and challenges.

use crate::answers::Answers;
use crate::certificate::wall_s;
use crate::config::{AcmeConfig, AcmeError, ChallengeKind};
use crate::folder::{Folder, State};
use crate::order::OrderContext;
use crate::shared::{Proof, SharedItem, SharedOrders, write_proofs};
use crate::worker::Worker;
use rcgen::{CertificateParams, KeyPair};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

/// Store in memory.
#[derive(Debug, Default)]
struct Memory {
    /// Number of the server that has the right to order.
    right: Mutex<Option<u8>>,
    values: Mutex<[Vec<u8>; 2]>,
}

/// The store as one server sees it.
#[derive(Debug)]
struct Member(Arc<Memory>, u8);

impl SharedOrders for Member {
    fn begin(&self) -> Result<bool, AcmeError> {
        Ok(*self.0.right.lock().unwrap().get_or_insert(self.1) == self.1)
    }

    fn end(&self) -> Result<(), AcmeError> {
        let mut right = self.0.right.lock().unwrap();
        *right = right.filter(|owner| *owner != self.1);
        Ok(())
    }

    fn write(&self, item: SharedItem, value: &[u8]) -> Result<(), AcmeError> {
        self.0.values.lock().unwrap()[item as usize] = value.to_vec();
        Ok(())
    }

    fn read(&self, item: SharedItem) -> Result<Vec<u8>, AcmeError> {
        Ok(self.0.values.lock().unwrap()[item as usize].clone())
    }
}

fn server(memory: &Arc<Memory>, number: u8, http: SocketAddr) -> (Worker, TempDir) {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let domains = vec!["sip.example.org".to_owned()];
    folder.prepare(&domains).unwrap();
    let context = OrderContext {
        config: Arc::new(AcmeConfig {
            directory: "https://ca.example/dir".into(),
            contact: None,
            domains,
            challenge: ChallengeKind::Http01(http),
            folder: place.path().to_owned(),
            ca: None,
        }),
        authorities: Arc::default(),
        folder,
        answers: Arc::new(Answers::default()),
        set_challenges: Arc::new(|_| {}),
        shared: Some(Arc::new(Member(Arc::clone(memory), number))),
    };
    (Worker::new(context, Arc::default()), place)
}

/// File with a certificate for a name that is valid for so many seconds from now on.
fn certificate(name: &str, seconds: i64) -> Vec<u8> {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    let time = |after: i64| OffsetDateTime::from_unix_timestamp(wall_s() as i64 + after).unwrap();
    (params.not_before, params.not_after) = (time(-1000), time(seconds));
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem() + &key.serialize_pem()).into_bytes()
}

fn run(test: impl Future<Output = ()>) {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn file(place: &TempDir) -> Vec<u8> {
    Folder::new(place.path()).certificate_file().unwrap().unwrap()
}

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[test]
fn the_certificate_with_the_latest_end_is_that_of_all() {
    run(async {
        let memory = Arc::new(Memory::default());
        let ((mut a, of_a), (mut b, of_b)) = (server(&memory, 1, ANY), server(&memory, 2, ANY));
        b.follow().await;
        assert!(matches!(State::of(&file(&of_b)), State::Placeholder(_)), "nothing is shared yet");
        let first = certificate("sip.example.org", 10_000);
        Folder::new(of_a.path()).set_certificate(&first).unwrap();
        a.follow().await;
        b.follow().await;
        assert_eq!(file(&of_b), first);
        // A renewed one of the other server.
        let second = certificate("sip.example.org", 20_000);
        Folder::new(of_b.path()).set_certificate(&second).unwrap();
        b.follow().await;
        a.follow().await;
        assert_eq!(file(&of_a), second);
        // Others than for these names and the present time are passed over, and so is an older one that somebody put back.
        for wrong in [
            certificate("other.example", 30_000),
            certificate("sip.example.org", -10),
            first,
            b"no certificate".to_vec(),
            Vec::new(),
        ] {
            memory.values.lock().unwrap()[SharedItem::Certificate as usize] = wrong;
            a.follow().await;
            assert_eq!(file(&of_a), second);
            assert_eq!(
                memory.values.lock().unwrap()[SharedItem::Certificate as usize],
                second,
                "shared again"
            );
        }
    });
}

#[test]
fn one_server_orders_and_another_only_after_it() {
    run(async {
        let memory = Arc::new(Memory::default());
        let ((mut a, of_a), (mut b, _of_b)) = (server(&memory, 1, ANY), server(&memory, 2, ANY));
        assert!(a.may_order().await && !b.may_order().await);
        assert!(a.may_order().await, "the same server again, after a failure");
        // The order succeeds: the other server has the certificate, and does not order.
        Folder::new(of_a.path()).set_certificate(&certificate("sip.example.org", 80_000)).unwrap();
        a.follow().await;
        a.end_right().await;
        assert!(!b.may_order().await && memory.right.lock().unwrap().is_none());
    });
}

#[test]
fn a_server_answers_the_challenges_of_another_as_long_as_they_are_shared() {
    run(async {
        let memory = Arc::new(Memory::default());
        let http = TcpListener::bind(ANY).unwrap().local_addr().unwrap();
        let (mut b, _of_b) = server(&memory, 2, http);
        let proof = |domain: &str, token: &str| Proof {
            domain: domain.into(),
            token: token.into(),
            answer: format!("{token}.thumb"),
            digest: vec![1; 32],
        };
        let proofs = [proof("sip.example.org", "one"), proof("other.example", "two")];
        let text = write_proofs(&proofs).into_bytes();
        memory.values.lock().unwrap()[SharedItem::Challenges as usize] = text;
        b.follow().await;
        assert!(get(http, "one").await.unwrap().ends_with("one.thumb"));
        assert!(get(http, "two").await.unwrap().starts_with("HTTP/1.1 404"), "another name");
        b.follow().await;
        assert!(get(http, "one").await.is_some());
        memory.values.lock().unwrap()[SharedItem::Challenges as usize].clear();
        b.follow().await;
        tokio::task::yield_now().await;
        assert_eq!(get(http, "one").await, None, "the port is closed");
    });
}

/// Answer to a GET for a token; `None`: nobody listens.
async fn get(address: SocketAddr, token: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request =
        format!("GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nHost: sip.example.org\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}
