//! The real user agent in the network, with its program's part played by the story.

use crate::World;
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
use std::time::Duration;

/// The user agent as it runs in here.
type Host = Hosted<UserAgent>;

/// A softphone in a world.
pub(crate) struct Softphone {
    pub(crate) host: HostId,
    user: String,
    address: SocketAddr,
    told: Rc<RefCell<Vec<AgentEvent>>>,
}

impl Softphone {
    /// What it was told, for a person.
    pub(crate) fn report(&self) -> String {
        format!("{} was told {:?}\n", self.user, self.told.borrow())
    }
}

impl World {
    /// A softphone of a subscriber, at the server, that has not registered.
    pub fn softphone(&mut self, user: &str) -> HostId {
        self.softphone_with(user, Transport::Udp, |_| {})
    }

    /// The same by another transport and with a changed configuration. `sip.example.org` is the server's name.
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
        let server = ServerAddress { host, port: None, transport, first_hop: Default::default() };
        let account = Account::at_server(&format!("sip:{user}@{REALM}"), &password(user), server);
        let listener = |transport| Listener { transport, address };
        let mut config = Config::new(vec![account], vec![listener(Transport::Udp), listener(Transport::Tcp)]);
        configure(&mut config);
        let seed = Seed::from_number(self.seed()).part(500 + u64::from(number));
        let agent = UserAgent::new(config, seed, self.sim.now()).expect("the account is good");
        let told = Rc::new(RefCell::new(Vec::new()));
        let events = Rc::clone(&told);
        let node = Hosted::new(vec![agent], move |_, action, effects: &mut Effects| match action {
            Action::Event(event) => events.borrow_mut().push(event),
            Action::Resolve { query, host } => {
                let address = (&*host == "sip.example.org").then_some(SERVER.ip());
                effects.events.push((Duration::from_millis(20), Event::Resolved { query, address }));
            }
        });
        let listeners = [(Transport::Udp, address), (Transport::Tcp, address)];
        let name = format!("{user}-soft{number}");
        let host = self.sim.add(&name, &listeners, Box::new(node)).expect("the address is free");
        self.softphones.push(Softphone { host, user: user.into(), address, told });
        self.name_address(address);
        host
    }

    /// A softphone that is registered.
    pub fn registered_softphone(&mut self, user: &str) -> HostId {
        let host = self.softphone(user);
        self.start(host);
        host
    }

    /// Registers a softphone and waits until it is.
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

    /// Has a softphone do something now.
    pub fn agent_do<R>(
        &mut self,
        host: HostId,
        run: impl FnOnce(&mut UserAgent, &mut Context<'_, Action>) -> R,
    ) -> R {
        let run = |node: &mut Host, now: Instant, effects: &mut Effects| node.call(0, now, effects, run);
        self.sim.call::<Host, _>(host, 0, run).flatten().expect("the host is a softphone")
    }

    /// A softphone's agent, to look inside.
    pub fn agent(&self, host: HostId) -> &UserAgent {
        self.sim.node::<Host>(host).and_then(|node| node.shards().first()).expect("the host is a softphone")
    }

    /// Has a softphone call, with SRTP where the other side can.
    pub fn dial(&mut self, host: HostId, target: &str) -> CallId {
        let media = self.sound_of(host);
        self.agent_do(host, |agent, cx| agent.call(cx, AccountId(0), target, media)).expect("it can call")
    }

    /// Has a softphone answer what rings.
    pub fn pick_up(&mut self, host: HostId) -> Result<CallId, CallError> {
        let media = self.sound_of(host);
        let call = self.incoming(host).ok_or(CallError::NoCall)?;
        self.agent_do(host, |agent, cx| agent.answer(cx, call, media))?;
        Ok(call)
    }

    /// The last call that came to a softphone.
    pub fn incoming(&self, host: HostId) -> Option<CallId> {
        self.told(host).iter().rev().find_map(|event| match event {
            AgentEvent::Incoming { call, .. } => Some(*call),
            _ => None,
        })
    }

    /// Everything a softphone's program was told.
    pub fn told(&self, host: HostId) -> Vec<AgentEvent> {
        self.softphone_at(host).told.borrow().clone()
    }

    /// What a call of a softphone agreed on last.
    pub fn agreed(&self, host: HostId, of: CallId) -> Option<MediaParams> {
        self.told(host).into_iter().rev().find_map(|event| match event {
            AgentEvent::Answered { call, params } | AgentEvent::MediaChanged { call, params }
                if call == of =>
            {
                Some(params)
            }
            _ => None,
        })
    }

    /// The status by which a call of a softphone ended.
    pub fn ended(&self, host: HostId, of: CallId) -> Option<u16> {
        let ends: Vec<u16> = self
            .told(host)
            .into_iter()
            .filter_map(|event| match event {
                AgentEvent::Ended { call, cause } if call == of => Some(cause.status),
                _ => None,
            })
            .collect();
        assert!(ends.len() <= 1, "a call ends once");
        ends.first().copied()
    }

    /// Where a softphone's sound goes.
    pub fn sound_of(&self, host: HostId) -> LocalMedia {
        let suites = vec![CryptoSuite::AeadAes256Gcm, CryptoSuite::AesCm128HmacSha1_80];
        LocalMedia {
            rtp: SocketAddr::new(self.softphone_at(host).address.ip(), 4000),
            rtcp_port: 4001,
            codecs: vec![Codec::Pcmu, Codec::Pcma],
            ptime_ms: 20,
            telephone_event: true,
            policy: SecurityPolicy::Opportunistic { suites, hello_hash: None },
            rtcp_mux: false,
        }
    }

    /// The address of a softphone.
    pub fn softphone_address(&self, host: HostId) -> SocketAddr {
        self.softphone_at(host).address
    }

    /// The status codes that arrived at a softphone, in the order they were sent.
    pub fn statuses_at(&self, host: HostId) -> Vec<u16> {
        let lines = crate::check::arrived(self.sim.trace(), self.softphone_address(host));
        lines.iter().filter_map(|line| line.strip_prefix("SIP/2.0 ")?.get(..3)?.parse().ok()).collect()
    }

    /// At the end of a story nothing of a softphone's is left but its registration.
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
