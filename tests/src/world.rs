//! Network with the server in it, and a story that runs in one for each seed.

use crate::phone::Scheme;
use crate::registrar::{self, Rules};
use crate::relay::Relay;
use crate::signers;
use crate::softphone::Softphone;
use crate::tls::{Authority, HostLayers, TLS_SERVER};
use crate::{Account, Behaviour, Phone, PhoneEvent, Violation, branches, check, seeds};
use ringway_linux::Hosts;
use ringway_sansio::{Event, Flow, Instant, ListenerId, Seed, Token, Transport};
use ringway_server::{Action, Algorithm, AuthConfig, Config, Forwards, Listener, Server};
use ringway_sim::{Effects, Faults, HostId, Hosted, Sim, TracedPacket};
use ringway_test_support::host::{HostLimits, TestHost};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Domain of the server and of its subscribers, and realm of their passwords.
pub const REALM: &str = "example.org";

/// Server for [`REALM`] at 10.0.0.1:5060 and the phones of a story, from 10.0.1.1 on.
pub struct World {
    /// Simulated network.
    pub sim: Sim,
    /// Subscribers and store of the server.
    pub services: Arc<TestHost>,
    /// Host of the server.
    pub server: HostId,
    seed: u64,
    /// Number of starts of the server after the first one.
    restarts: u64,
    config: Arc<Config>,
    relay: Relay,
    phones: Vec<HostId>,
    pub(crate) softphones: Vec<Softphone>,
    /// Addresses that occur in a message or a configuration, or have a host.
    named: BTreeSet<SocketAddr>,
    pub(crate) authority: Authority,
    /// Hosts with TLS.
    pub(crate) tls: Vec<(HostId, HostLayers)>,
}

/// Server as a host.
type RealServer = Server;

impl World {
    /// Creates a world. The number of shards is a function of the seed: 1 to 4.
    pub(crate) fn new(seed: u64, faults: Faults, configure: fn(&mut Config)) -> Self {
        let root = Seed::from_number(seed);
        let services = Arc::new(TestHost::new(LIMITS, &root.part(1), BEGIN));
        let mut config = default_config();
        configure(&mut config);
        let mut sim = Sim::new(&root.part(2), BEGIN);
        sim.set_faults(faults);
        let config = Arc::new(config);
        let authority = Authority::new(root.part(4));
        let relay = Relay::new(&root.part(5));
        let server = add_server(&mut sim, seed, &config, (&services, &authority.hosts, &relay));
        let named = BTreeSet::from([SERVER]);
        let (phones, softphones, tls) = (Vec::new(), Vec::new(), Vec::new());
        let mut world = Self {
            sim,
            services,
            server,
            seed,
            restarts: 0,
            config,
            relay,
            phones,
            softphones,
            named,
            authority,
            tls,
        };
        if world.has_tls() {
            world.certify_server();
        }
        world
    }

    /// True if the server has a TLS listener.
    pub(crate) fn has_tls(&self) -> bool {
        self.config.listeners.iter().any(|listener| listener.transport == Transport::Tls)
    }

    /// Adds an unregistered phone of a new subscriber with a password.
    pub fn phone(&mut self, user: &str) -> HostId {
        self.phone_with(user, Transport::Udp, None)
    }

    /// Adds a phone that uses TCP.
    pub fn tcp_phone(&mut self, user: &str) -> HostId {
        self.phone_with(user, Transport::Tcp, None)
    }

    /// Adds a phone that uses TLS; with [`Scheme::Sips`] also `sips:` URIs.
    pub fn tls_phone(&mut self, user: &str, scheme: Scheme) -> HostId {
        let phone = self.phone_with(user, Transport::Tls, None);
        self.phone_do(phone, |phone, _, _| phone.set_scheme(scheme));
        phone
    }

    /// Adds a phone with `contact` as the address of its Contact.
    pub fn phone_with(&mut self, user: &str, transport: Transport, contact: Option<SocketAddr>) -> HostId {
        self.services.subscribe(user, REALM, REALM, &password(user));
        let number = u8::try_from(self.phones.len() + 1).expect("a story has few phones");
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 1, number)), 5060);
        let account = Account { user: user.into(), domain: REALM.into(), password: password(user) };
        let seed = Seed::from_number(self.seed).part(100 + u64::from(number));
        let server = (SERVER.ip(), self.authority.hosts.id_of(REALM));
        let phone = Phone::new(account, address, transport, contact, server, &seed, self.sim.now());
        let tls = SocketAddr::new(address.ip(), TLS_SERVER.port());
        let listeners = [(Transport::Udp, address), (Transport::Tcp, address), (Transport::Tls, tls)];
        let name = format!("{user}{number}");
        let host = self.sim.add(&name, &listeners, Box::new(phone)).expect("the address is free");
        self.phones.push(host);
        if self.has_tls() {
            self.let_dial(host);
        }
        self.named.insert(address);
        self.named.extend(contact);
        host
    }

    /// Adds a caller of another domain, without a password.
    pub fn caller_from_elsewhere(&mut self, user: &str) -> HostId {
        let host = self.phone(user);
        self.phone_do(host, |phone, _, _| phone.set_domain("elsewhere.example"));
        host
    }

    /// Moves a phone with its calls to another address; its old one is closed.
    pub fn moved(&mut self, phone: HostId, address: SocketAddr) -> HostId {
        let number = u64::from(u16::try_from(self.named.len()).expect("a story has few addresses"));
        let seed = Seed::from_number(self.seed).part(10_000 + number);
        let moved = self.phone_do(phone, |phone, now, _| phone.moved_to(address, &seed, now));
        self.crash(phone);
        let listeners = [(Transport::Udp, address), (Transport::Tcp, address)];
        let name = format!("{}-moved-{number}", moved.user());
        let host = self.sim.add(&name, &listeners, Box::new(moved)).expect("the address is free");
        self.phones.push(host);
        self.named.insert(address);
        host
    }

    /// Adds a registered phone.
    pub fn registered(&mut self, user: &str) -> HostId {
        let phone = self.phone(user);
        self.register(phone);
        phone
    }

    /// Registers a phone for an hour and waits for the result.
    pub fn register(&mut self, phone: HostId) {
        self.phone_do(phone, |phone, now, effects| phone.register(now, 3600, effects));
        let registered = |sim: &Sim| {
            sim.node::<Phone>(phone).is_some_and(|phone| {
                phone.events().iter().any(|event| matches!(event, PhoneEvent::Registered { .. }))
            })
        };
        assert!(self.sim.run_until_holds(Duration::from_secs(60), registered), "it does not get registered");
    }

    /// Calls a phone.
    pub fn phone_do<R>(
        &mut self,
        phone: HostId,
        run: impl FnOnce(&mut Phone, Instant, &mut Effects) -> R,
    ) -> R {
        self.sim.call::<Phone, R>(phone, 0, run).expect("the host is a phone")
    }

    /// Sets the behaviour of a phone for further calls.
    pub fn behave(&mut self, phone: HostId, behaviour: Behaviour) {
        self.phone_do(phone, |phone, _, _| phone.behave(behaviour));
    }

    /// Starts a call of a phone to `user` of the domain.
    pub fn call(&mut self, phone: HostId, user: &str) {
        self.phone_do(phone, |phone, now, effects| {
            let uri = format!("{}:{user}@{REALM}", phone.scheme());
            phone.call(now, &uri, effects);
        });
    }

    /// Ends the last call of a phone.
    pub fn hang_up(&mut self, phone: HostId) {
        self.phone_do(phone, |phone, now, effects| phone.hang_up(now, effects));
    }

    /// Cancels the pending call of a phone.
    pub fn cancel(&mut self, phone: HostId) {
        self.phone_do(phone, |phone, now, effects| phone.cancel(now, effects));
    }

    /// Advances the clock by seconds.
    pub fn wait(&mut self, seconds: u64) {
        self.sim.run_for(Duration::from_secs(seconds));
    }

    /// Advances the clock by milliseconds.
    pub fn wait_ms(&mut self, milliseconds: u64) {
        self.sim.run_for(Duration::from_millis(milliseconds));
    }

    /// All events of a phone, in order.
    pub fn events(&self, phone: HostId) -> Vec<PhoneEvent> {
        self.sim.node::<Phone>(phone).map(Phone::events).expect("the host is a phone")
    }

    /// Events of a phone that concern calls.
    pub fn call_events(&self, phone: HostId) -> Vec<PhoneEvent> {
        let mut events = self.events(phone);
        events.retain(|event| !matches!(event, PhoneEvent::Registered { .. }));
        events
    }

    /// Number of the phone's events that are `wanted`.
    pub fn count(&self, phone: HostId, wanted: &PhoneEvent) -> usize {
        self.events(phone).iter().filter(|event| *event == wanted).count()
    }

    /// Number of calls of each of these phones.
    pub fn calls_up(&self, phones: &[HostId]) -> Vec<usize> {
        let calls = |&phone| self.sim.node::<Phone>(phone).map(Phone::calls_len);
        phones.iter().map(|phone| calls(phone).expect("the host is a phone")).collect()
    }

    /// Address of a phone.
    pub fn address(&self, phone: HostId) -> SocketAddr {
        self.sim.node::<Phone>(phone).map(Phone::address).expect("the host is a phone")
    }

    /// Number of requests with this method that the server forwarded, without retransmissions.
    pub fn forwarded(&self, method: &str) -> usize {
        check::forwarded(self.sim.trace(), SERVER, method)
    }

    /// Number of requests of this method that arrived at the server.
    pub fn requests(&self, method: &str) -> usize {
        let lines = check::arrived(self.sim.trace(), SERVER);
        lines.iter().filter(|line| line.split(' ').next() == Some(method)).count()
    }

    /// Status codes that arrived at a phone, in the order of sending.
    pub fn statuses(&self, phone: HostId) -> Vec<u16> {
        let lines = check::arrived(self.sim.trace(), self.address(phone));
        lines.iter().filter_map(|line| line.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()).collect()
    }

    /// Kills a scripted phone: its port is closed, its bindings stay.
    pub fn crash(&mut self, phone: HostId) {
        self.sim.remove(phone);
        self.phones.retain(|&other| other != phone);
    }

    /// Kills the server and starts another with the stored bindings.
    pub fn restart_server(&mut self) {
        self.sim.remove(self.server);
        self.services.stop_calls(self.sim.now());
        self.services.restart(self.sim.now());
        self.restarts += 1;
        let seed = self.seed.wrapping_add(1000 * self.restarts);
        let shared = (&self.services, &self.authority.hosts, &self.relay);
        self.server = add_server(&mut self.sim, seed, &self.config, shared);
        if self.has_tls() {
            self.certify_server();
        }
    }

    /// Changes the configuration of the running server.
    pub fn reload(&mut self, change: impl FnOnce(&mut Config)) {
        let mut config = Config::clone(&self.config);
        change(&mut config);
        self.config = Arc::new(config);
        let config = Arc::clone(&self.config);
        self.each_shard(|server| server.reconfigure(Arc::clone(&config)));
    }

    /// Makes the server refuse new requests, and end its pending ones at once.
    pub fn stop_server(&mut self) {
        let now = self.sim.now();
        self.each_shard(|server| server.stop_new_work(now));
    }

    /// Gives a user of the domain this contact without a REGISTER.
    pub fn set_permanent_contact(&mut self, user: &str, contact: &str) {
        let count = u16::try_from(self.shards().len()).expect("there are few shards");
        let of_user = ringway_server::shard_of_user(&ringway_sim::shard_key(), user.as_bytes(), count);
        let (aor, mut shard) = (format!("{user}@{REALM}"), 0);
        self.each_shard(|server| {
            if shard == of_user {
                server.set_permanent_contacts(aor.as_bytes(), &[contact.as_bytes()]);
            }
            shard += 1;
        });
    }

    /// Replaces the forwards of a user of the domain.
    pub fn set_forwards(&mut self, user: &str, forwards: &Forwards) {
        let count = u16::try_from(self.shards().len()).expect("there are few shards");
        let of_user = ringway_server::shard_of_user(&ringway_sim::shard_key(), user.as_bytes(), count);
        let (aor, mut shard) = (format!("{user}@{REALM}"), 0);
        self.each_shard(|server| {
            if shard == of_user {
                server.set_forwards(aor.as_bytes(), forwards.clone());
            }
            shard += 1;
        });
    }

    fn each_shard(&mut self, mut run: impl FnMut(&mut RealServer)) {
        for shard in 0..self.shards().len() {
            let shard = u16::try_from(shard).expect("there are few shards");
            let result = self.sim.call(self.server, shard, |host: &mut Hosted<RealServer>, now, effects| {
                host.call(shard, now, effects, |server, _| run(server))
            });
            assert_eq!(result, Some(Some(())), "the server is there");
        }
    }

    /// Pending work of the server over all shards: contexts, server and client transactions.
    pub fn pending(&self) -> (usize, usize, usize) {
        let shards = self.shards().iter().map(|shard| (shard.contexts_len(), shard.transactions_len()));
        shards.fold((0, 0, 0), |sum, (contexts, (servers, clients))| {
            (sum.0 + contexts, sum.1 + servers, sum.2 + clients)
        })
    }

    /// Shards of the server.
    pub fn shards(&self) -> &[RealServer] {
        self.sim.node::<Hosted<RealServer>>(self.server).map(Hosted::shards).expect("the server is there")
    }

    /// Sum of a counter over all shards.
    pub fn counts(&self, of: fn(&ringway_server::Counters) -> u64) -> u64 {
        self.shards().iter().map(|shard| of(shard.counters())).sum()
    }

    /// Number of calls that were begun at the media relay.
    pub fn relayed(&self) -> usize {
        self.relay.calls().1
    }

    /// Permits packets to an address without a host.
    pub fn allow_address(&mut self, address: SocketAddr) {
        self.named.insert(address);
    }

    /// Seed of this world.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Advances the clock past every timer of a transaction, then checks the conditions for the end of any story.
    pub(crate) fn settle(&mut self) {
        self.sim.set_faults(Faults::default());
        self.wait(100);
        assert_eq!(self.pending(), (0, 0, 0), "contexts, server and client transactions are left");
        assert_eq!(self.services.tables().reserved_bytes(), 0, "memory is still reserved");
        assert_eq!(
            self.services.tables().change_dialog_states((0, 0), |states| states.open()).1,
            0,
            "a lamp of a call without an answer is lit"
        );
        assert_eq!(self.relay.calls().0, 0, "calls are left at the media relay");
        for &phone in &self.phones {
            let phone = self.sim.node::<Phone>(phone).expect("phones stay");
            assert_eq!(phone.transactions_len(), (0, 0), "{} has transactions left", phone.user());
            assert!(
                !phone.events().contains(&PhoneEvent::Unreadable),
                "{} got an invalid message",
                phone.user()
            );
        }
        if self.config.stateful {
            check::calls(&self.services, SERVER);
        }
        self.check_softphones();
        self.check_handshakes();
        check::wire(self.sim.trace(), SERVER, &self.named, &self.config);
    }

    /// Checks the registrar and who was reached, and the branches of all calls.
    pub(crate) fn check_random(&self, forwards: bool) {
        let rules = Rules { only_bindings: !forwards, contacts_max: self.config.registrar.max_contacts };
        registrar::check(self.sim.trace(), SERVER, rules);
        if self.config.stateful {
            branches::check(self.sim.trace(), SERVER, &self.config, forwards);
        }
    }

    /// Sends a request of a phone again, over UDP and with its credentials, as another request.
    pub(crate) fn replay(&mut self, phone: HostId) {
        let (address, number) = (self.address(phone), self.sim.trace().packets().len());
        let is_signed = |seen: &&TracedPacket| {
            let text = String::from_utf8_lossy(&seen.bytes);
            seen.from == address && seen.transport == Transport::Udp && text.contains("uthorization: Digest ")
        };
        let Some(seen) = self.sim.trace().packets().filter(is_signed).last() else { return };
        let text = String::from_utf8_lossy(&seen.bytes).into_owned();
        let text = text.replace("Call-ID: ", &format!("Call-ID: replay{number}-"));
        let text = text.replace("branch=z9hG4bK", &format!("branch=z9hG4bKreplay{number}"));
        let flow = Flow::udp(ListenerId(0), SERVER);
        self.phone_do(phone, |_, _, effects| effects.out.send(flow, Token::NONE, text.as_bytes()));
    }

    /// Sent packets and events of the phones, for an error message.
    pub(crate) fn report(&self) -> String {
        let mut text = self.sim.trace().to_string();
        for &host in &self.phones {
            if let Some(phone) = self.sim.node::<Phone>(host) {
                text.push_str(&format!("{}: events {:?}\n", phone.user(), phone.events()));
            }
        }
        for softphone in &self.softphones {
            text.push_str(&softphone.report());
        }
        text
    }
}

fn add_server(
    sim: &mut Sim,
    seed: u64,
    config: &Arc<Config>,
    (services, hosts, relay): (&Arc<TestHost>, &Arc<Hosts>, &Relay),
) -> HostId {
    let count = u16::try_from(1 + seed % 4).expect("it is small");
    let now = sim.now();
    let mut shards: Vec<RealServer> = (0..count)
        .map(|shard| {
            let seed = Seed::from_number(seed).part(3);
            Server::new(Arc::clone(config), Arc::clone(services) as _, services.tables(), shard, seed, now)
        })
        .collect();
    for (aor, record) in services.stored() {
        let user = aor.split(|&byte| byte == b'@').next().unwrap_or_default();
        let shard = usize::from(ringway_server::shard_of_user(&ringway_sim::shard_key(), user, count));
        shards[shard].restore(&aor, &record, now).expect("what was stored can be read");
    }
    let listeners: Vec<_> =
        config.listeners.iter().map(|listener| (listener.transport, listener.bound)).collect();
    let (hosts, relay) = (Arc::clone(hosts), relay.clone());
    // DNS lookups fail at once, except for the name of a phone.
    let host = Hosted::new(shards, move |_, action, effects: &mut Effects| match action {
        Action::Resolve { query, target } => {
            let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
            let is_known = &*target.host == "phone.example.net";
            let server = is_known.then(|| target.server_at(ip, hosts.id_of(&target.host)));
            let servers = server.into_iter().collect();
            effects.events.push((Duration::from_millis(20), Event::Resolved { query, servers }));
        }
        Action::ResolveNumber { query, .. } => {
            effects
                .events
                .push((Duration::from_millis(20), Event::NumberResolved { query, uris: Box::default() }));
        }
        Action::FindSigner { query, url } => {
            let (after, result) = signers::find(&url);
            effects.events.push((after, Event::SignerFound { query, result }));
        }
        Action::Relay { query, request } => effects.events.extend(relay.execute(query, &request)),
        Action::Locate { .. } => unreachable!("this world has no cluster"),
        Action::CallsChanged { user } => {
            let shard = ringway_server::shard_of_user(&ringway_sim::shard_key(), user.user(), count);
            let event = Event::StateChanged { name: user.as_bytes().into() };
            effects.events_elsewhere.push((shard, Duration::ZERO, event));
        }
    });
    sim.add("server", &listeners, Box::new(host)).expect("the address is free")
}

pub(crate) fn default_config() -> Config {
    let listener = |transport| Listener { transport, bound: SERVER, advertised: SERVER };
    Config {
        listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
        // The phones of stories call each other by addresses too.
        inner_networks: vec![PHONES.parse().expect("a network")],
        auth: AuthConfig {
            algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
            ..AuthConfig::for_realm(REALM)
        },
        timer_c: Duration::from_secs(190),
        secret: [7; 32],
        ..Config::for_domains(vec![REALM.into()])
    }
}

pub(crate) fn password(user: &str) -> String {
    format!("secret of {user}")
}

/// Story: a test with a name and the differences of its world from the default.
///
/// `RINGWAY_SEED` is the first seed (default 1), `RINGWAY_SEEDS` their number (default [`Story::SEEDS`]). A story that
/// fails prints its seed and the sent packets.
pub struct Story {
    name: &'static str,
    faults: Faults,
    configure: fn(&mut Config),
}

impl Story {
    /// Default number of seeds.
    pub const SEEDS: u64 = 20;

    /// Creates a story with a good network and the default configuration.
    pub fn new(name: &'static str) -> Self {
        Self { name, faults: Faults::default(), configure: |_| {} }
    }

    /// Sets the faults of the network.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Sets the change of the server's configuration.
    pub fn configure(mut self, configure: fn(&mut Config)) -> Self {
        self.configure = configure;
        self
    }

    /// Runs it once for each seed. Afterwards the world settles and is checked.
    pub fn run(self, notify: impl Fn(&mut World)) {
        seeds::run(self.name, Self::SEEDS, |seed| self.play(seed, &notify));
    }

    /// Runs it for one seed.
    ///
    /// # Errors
    /// A check failed.
    pub fn play(&self, seed: u64, notify: impl Fn(&mut World)) -> Result<(), Violation> {
        let story = |world: &mut World| {
            notify(world);
            world.settle();
        };
        let make = || World::new(seed, self.faults.clone(), self.configure);
        seeds::play(seed, make, story, World::report)
    }
}

/// Network of the server and the phones.
const PHONES: &str = "10.0.0.0/8";

/// Address of the server's listeners, for UDP and TCP.
pub(crate) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 5060);
pub(crate) const BEGIN: Instant = Instant::from_secs(1_700_000_000);
pub(crate) const LIMITS: HostLimits = HostLimits {
    nonce_lifetime: Duration::from_secs(300),
    nonces_max: 10_000,
    proofs_max: 10_000,
    per_second: 0,
    record_bytes_max: usize::MAX,
};
