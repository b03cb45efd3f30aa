//! The load generator in the network.

use crate::World;
use crate::world::{REALM, SERVER, password};
use ringway_load::{
    Action, Arrivals, Classic, Config, ConnectionUse, Counters, Generator, MediaEvent, Report, Spacing, User,
    Users,
};
use ringway_sansio::{Instant, Seed, Transport};
use ringway_sim::{Effects, HostId, Hosted};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type Host = Hosted<Generator>;

/// Load generator in a world.
pub struct Load {
    host: HostId,
    reports: Rc<RefCell<Vec<Report>>>,
    media: Rc<RefCell<Vec<MediaEvent>>>,
}

impl World {
    /// Configuration of a generator at `10.0.3.number` for users `name0` to `name9` of the server, who are subscribed.
    pub fn load_config(&mut self, number: u8, name: &str, classic: Classic) -> Config {
        let list: Vec<User> = (0..10)
            .map(|index| {
                let name = format!("{name}{index}");
                self.services.subscribe(&name, REALM, REALM, &password(&name));
                User { password: password(&name).into(), name: name.into() }
            })
            .collect();
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 3, number)), 5060);
        Config {
            scenario: Arc::new(classic.scenario().expect("a built-in scenario is valid")),
            users: Users::from_list(list).expect("the names are good"),
            peers: Users::by_rule("callee", 1, 0, 10, "").expect("the names are good"),
            domain: REALM.into(),
            remote: SERVER,
            transport: Transport::Udp,
            connections: ConnectionUse::Shared,
            is_outbound_proxy: false,
            locals: vec![local],
            media: SocketAddr::new(local.ip(), 40_000),
            media_use: Default::default(),
            arrivals: None,
            timers: Default::default(),
            attempts_max: Config::ATTEMPTS_MAX,
            honours_retry_after: false,
            silence_max: Config::SILENCE_MAX,
        }
    }

    /// Adds a generator.
    pub fn load(&mut self, config: Config) -> Load {
        // A generator that follows another one needs other Call-IDs.
        let seed = Seed::from_number(self.seed()).part(self.sim.now().as_millis());
        let listeners: Vec<_> = config.locals.iter().map(|&local| (config.transport, local)).collect();
        for &(_, local) in &listeners {
            self.allow_address(local);
        }
        let reports = Rc::new(RefCell::new(Vec::new()));
        let media = Rc::new(RefCell::new(Vec::new()));
        let (log, media_log) = (Rc::clone(&reports), Rc::clone(&media));
        let generator = Generator::new(config, &seed, self.sim.now());
        let node = Hosted::new(vec![generator], move |_, action, _: &mut Effects| match action {
            Action::Ended(report) => log.borrow_mut().push(report),
            // The load of these stories goes over UDP.
            Action::Release(_) | Action::Log { .. } => {}
            Action::Media(event) => media_log.borrow_mut().push(event),
        });
        let host = self.sim.add("load", &listeners, Box::new(node)).expect("the address is free");
        Load { host, reports, media }
    }

    /// Runs the generator of `config` at `rate` a second for `seconds`, and `seconds_after` more; returns its reports.
    pub fn run_load(
        &mut self,
        mut config: Config,
        rate: f64,
        seconds: u64,
        seconds_after: u64,
    ) -> Vec<Report> {
        config.arrivals =
            Some(Arrivals::new(rate, Spacing::Poisson, self.sim.now(), Duration::from_secs(seconds)));
        let load = self.load(config);
        self.wait(seconds + seconds_after);
        assert_eq!(self.generator(&load).open(), 0, "attempts are open");
        let reports = load.reports();
        assert_eq!(reports.len() as u64, self.load_counters(&load).started);
        self.end_load(load);
        reports
    }

    /// Removes a generator, whose addresses are free then. All its transactions must have ended.
    pub fn end_load(&mut self, load: Load) {
        self.wait(70);
        assert_eq!(
            self.generator(&load).transactions_len(),
            (0, 0),
            "transactions of the generator are left"
        );
        self.sim.remove(load.host);
    }

    /// Counters of a generator.
    pub fn load_counters(&self, load: &Load) -> Counters {
        self.generator(load).counters()
    }

    /// Calls a generator.
    pub fn load_do(&mut self, load: &Load, run: impl FnOnce(&mut Generator, &mut LoadContext<'_>)) {
        let run = |node: &mut Host, now: Instant, effects: &mut Effects| node.call(0, now, effects, run);
        self.sim.call::<Host, _>(load.host, 0, run).flatten().expect("the host is a generator");
    }

    fn generator(&self, load: &Load) -> &Generator {
        let shards = self.sim.node::<Host>(load.host).map(Hosted::shards);
        shards.and_then(|shards| shards.first()).expect("the host is a generator")
    }
}

/// Context of a call into a generator.
type LoadContext<'a> = ringway_sansio::Context<'a, Action>;

impl Load {
    /// Reports so far.
    pub fn reports(&self) -> Vec<Report> {
        self.reports.borrow().clone()
    }

    /// Starts and ends of media so far.
    pub fn media(&self) -> Vec<MediaEvent> {
        self.media.borrow().clone()
    }
}
