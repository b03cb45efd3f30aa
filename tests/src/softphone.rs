//! The real user agent in the network; the story takes the part of its program.

use crate::World;
use crate::tls::TLS_SERVER;
use crate::world::{REALM, SERVER, password};
use ringway_agent::{
    Account, AccountId, Action, AgentEvent, CallError, CallId, Config, Listener, ServerAddress, UserAgent,
};
use ringway_sansio::{Context, Event, Instant, Seed, Transport};
use ringway_sdp::{Codec, CryptoSuite, LocalMedia, MediaParams, SecurityPolicy};
use ringway_sim::{Effects, HostId, Hosted};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// User agent as a host.
type Host = Hosted<UserAgent>;

/// Softphone in a world.
pub(crate) struct Softphone {
    pub(crate) host: HostId,
    user: String,
    address: SocketAddr,
    events: Rc<RefCell<Vec<AgentEvent>>>,
}

impl Softphone {
    /// Received events as text.
    pub(crate) fn report(&self) -> String {
        format!("{}: events {:?}\n", self.user, self.events.borrow())
    }
}

impl World {
    /// Adds an unregistered softphone of a subscriber, with the server as its registrar.
    pub fn softphone(&mut self, user: &str) -> HostId {
        self.softphone_with(user, Transport::Udp, |_| {})
    }

    /// Adds a softphone with another transport and configuration. `sip.example.org` is the server's name.
    pub fn softphone_with(
        &mut self,
        user: &str,
        transport: Transport,
        configure: impl FnOnce(&mut Config),
    ) -> HostId {
        self.services.subscribe(user, REALM, REALM, &password(user));
        let number = u8::try_from(self.softphones.len() + 1).expect("a story has few softphones");
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 2, number)), 5060);
        let host = "sip.example.org".into();
        let server = ServerAddress { host, port: None, transport };
        let account = Account::at_server(&format!("sip:{user}@{REALM}"), &password(user), server);
        let tls = SocketAddr::new(address.ip(), TLS_SERVER.port());
        let listeners = [(Transport::Udp, address), (Transport::Tcp, address), (Transport::Tls, tls)];
        let listener = |(transport, address)| Listener { transport, address };
        let mut config = Config::new(vec![account], listeners.into_iter().map(listener).collect());
        configure(&mut config);
        let seed = Seed::from_number(self.seed()).part(500 + u64::from(number));
        let agent = UserAgent::new(config, seed, self.sim.now()).expect("the account is valid");
        let events = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&events);
        let hosts = Arc::clone(&self.authority.hosts);
        let node = Hosted::new(vec![agent], move |_, action, effects: &mut Effects| match action {
            Action::Event(event) => log.borrow_mut().push(event),
            Action::Resolve { query, target } => {
                let is_known = &*target.host == "sip.example.org";
                let server = is_known.then(|| target.server_at(SERVER.ip(), hosts.id_of(&target.host)));
                let servers = server.into_iter().collect();
                effects.events.push((Duration::from_millis(20), Event::Resolved { query, servers }));
            }
        });
        let name = format!("{user}-soft{number}");
        let host = self.sim.add(&name, &listeners, Box::new(node)).expect("the address is free");
        if self.has_tls() {
            self.let_dial(host);
        }
        self.softphones.push(Softphone { host, user: user.into(), address, events });
        self.allow_address(address);
        host
    }

    /// Adds a registered softphone.
    pub fn registered_softphone(&mut self, user: &str) -> HostId {
        let host = self.softphone(user);
        self.start(host);
        host
    }

    /// Registers a softphone and waits for the result.
    pub fn start(&mut self, host: HostId) {
        self.agent_do(host, |agent, cx| agent.start(cx));
        let is_registered = |sim: &ringway_sim::Sim| {
            let agent = sim.node::<Host>(host).and_then(|node| node.shards().first());
            agent.is_some_and(|agent| agent.is_registered(AccountId(0)))
        };
        assert!(
            self.sim.run_until_holds(Duration::from_secs(300), is_registered),
            "it does not get registered"
        );
    }

    /// Calls the agent of a softphone.
    pub fn agent_do<R>(
        &mut self,
        host: HostId,
        run: impl FnOnce(&mut UserAgent, &mut Context<'_, Action>) -> R,
    ) -> R {
        let run = |node: &mut Host, now: Instant, effects: &mut Effects| node.call(0, now, effects, run);
        self.sim.call::<Host, _>(host, 0, run).flatten().expect("the host is a softphone")
    }

    /// Agent of a softphone, for inspection.
    pub fn agent(&self, host: HostId) -> &UserAgent {
        self.sim.node::<Host>(host).and_then(|node| node.shards().first()).expect("the host is a softphone")
    }

    /// Starts a call of a softphone, with SRTP if the other side supports it.
    pub fn dial(&mut self, host: HostId, target: &str) -> CallId {
        let media = self.local_media(host);
        self.agent_do(host, |agent, cx| agent.call(cx, AccountId(0), target, media)).expect("it can call")
    }

    /// Answers the ringing call of a softphone.
    pub fn pick_up(&mut self, host: HostId) -> Result<CallId, CallError> {
        let media = self.local_media(host);
        let call = self.incoming(host).ok_or(CallError::NoCall)?;
        self.agent_do(host, |agent, cx| agent.answer(cx, call, media))?;
        Ok(call)
    }

    /// Last call that a softphone received.
    pub fn incoming(&self, host: HostId) -> Option<CallId> {
        self.agent_events(host).iter().rev().find_map(|event| match event {
            AgentEvent::Incoming { call, .. } => Some(*call),
            _ => None,
        })
    }

    /// All events of a softphone's agent.
    pub fn agent_events(&self, host: HostId) -> Vec<AgentEvent> {
        self.softphone_at(host).events.borrow().clone()
    }

    /// Last negotiated media of a softphone's call.
    pub fn agreed(&self, host: HostId, of: CallId) -> Option<MediaParams> {
        self.agent_events(host).into_iter().rev().find_map(|event| match event {
            AgentEvent::Answered { call, params } | AgentEvent::MediaChanged { call, params }
                if call == of =>
            {
                Some(params)
            }
            _ => None,
        })
    }

    /// Status with which a call of a softphone ended.
    pub fn ended(&self, host: HostId, of: CallId) -> Option<u16> {
        let ends: Vec<u16> = self
            .agent_events(host)
            .into_iter()
            .filter_map(|event| match event {
                AgentEvent::Ended { call, cause } if call == of => Some(cause.status),
                _ => None,
            })
            .collect();
        assert!(ends.len() <= 1, "a call ends once");
        ends.first().copied()
    }

    /// Local media of a softphone.
    pub fn local_media(&self, host: HostId) -> LocalMedia {
        let suites = vec![CryptoSuite::AeadAes256Gcm, CryptoSuite::AesCm128HmacSha1_80];
        LocalMedia {
            rtp: SocketAddr::new(self.softphone_at(host).address.ip(), 4000),
            rtcp_port: 4001,
            codecs: vec![Codec::Pcmu, Codec::Pcma],
            ptime_ms: 20,
            telephone_event: true,
            policy: SecurityPolicy::Opportunistic { suites, hello_hash: None, fingerprint: None },
            rtcp_mux: false,
        }
    }

    /// Address of a softphone.
    pub fn softphone_address(&self, host: HostId) -> SocketAddr {
        self.softphone_at(host).address
    }

    /// Status codes that arrived at a softphone, in the order of sending.
    pub fn statuses_at(&self, host: HostId) -> Vec<u16> {
        let lines = crate::check::arrived(self.sim.trace(), self.softphone_address(host));
        lines.iter().filter_map(|line| line.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()).collect()
    }

    /// Asserts that no softphone has state left at the end of a story, except its registration.
    pub(crate) fn check_softphones(&self) {
        for softphone in &self.softphones {
            let agent = self.agent(softphone.host);
            assert!(agent.calls().next().is_none(), "{} has calls left", softphone.user);
            assert_eq!(agent.transactions().len(), (0, 0), "{} has transactions left", softphone.user);
            assert_eq!(agent.len(), (0, 0), "{} has requests left", softphone.user);
            assert_eq!(agent.counters().unreadable, 0, "{} got nonsense", softphone.user);
        }
    }

    fn softphone_at(&self, host: HostId) -> &Softphone {
        self.softphones.iter().find(|softphone| softphone.host == host).expect("the host is a softphone")
    }
}
