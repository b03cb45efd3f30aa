//! Stories of the load generator against the real server.

use ringway_load::{
    Arrivals, Classic, Config, CryptoSuite, Length, MediaEvent, MediaStart, MediaUse, Outcome, Report,
    Spacing,
};
use ringway_sdp::Protection;
use ringway_server::Mode;
use ringway_sim::Faults;
use ringway_tests::{Load, Story, World};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const TALK: Length = Length::Exponential(Duration::from_secs(3));

/// Outcomes with their number.
fn outcomes(reports: &[Report]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for report in reports {
        *counts.entry(format!("{:?}", report.outcome)).or_default() += 1;
    }
    counts
}

fn all(outcome: Outcome, reports: &[Report]) -> bool {
    !reports.is_empty() && reports.iter().all(|report| report.outcome == outcome)
}

/// Registers users `callee0` to `callee9` at the generator 9 and lets it answer their calls.
fn callees(world: &mut World) -> Load {
    let config = world.load_config(9, "callee", Classic::Register);
    let registered = world.run_load(config, 1.0, 30, 10);
    assert_eq!(world.services.stored().len(), 10);
    assert!(all(Outcome::Success, &registered), "{:?}", outcomes(&registered));
    let ring = Length::Uniform(Duration::ZERO, Duration::from_secs(1));
    let config = world.load_config(9, "callee", Classic::Answer { ring });
    world.load(config)
}

#[test]
fn users_register_again_and_again_and_log_out() {
    Story::new("load: register").run(|world| {
        let config = world.load_config(1, "user", Classic::Register);
        let reports = world.run_load(config, 20.0, 5, 10);
        assert!(reports.len() > 60 && all(Outcome::Success, &reports), "{:?}", outcomes(&reports));
        assert_eq!(world.services.stored().len(), 10);
        let config = world.load_config(1, "user", Classic::Logout);
        assert!(all(Outcome::Success, &world.run_load(config, 10.0, 4, 10)));
        assert!(world.services.stored().is_empty());
    });
}

#[test]
fn calls_go_through_a_network_that_loses_messages() {
    let faults = Faults { loss_per_mille: 50, ..Faults::default() };
    Story::new("load: calls").faults(faults).run(|world| {
        let callees = callees(world);
        let config = world.load_config(1, "caller", Classic::Call { talk: TALK });
        let reports = world.run_load(config, 5.0, 10, 120);
        let successful = reports.iter().filter(|report| report.outcome == Outcome::Success).count();
        assert!(successful * 100 >= reports.len() * 98, "{:?}", outcomes(&reports));
        assert!(reports.iter().all(|report| report.first_response <= report.final_response));
        assert!(world.load_counters(&callees).retransmissions > 0);
        world.end_load(callees);
    });
}

/// Started streams of a side by their SSRC, of which each is confirmed and ended once.
fn streams(events: &[MediaEvent]) -> BTreeMap<u32, MediaStart> {
    let mut started = BTreeMap::new();
    let (mut confirmed, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        match event {
            MediaEvent::Started(start) => {
                assert!(started.insert(start.ssrc, (**start).clone()).is_none(), "two streams with one SSRC");
                assert!(!start.is_confirmed || confirmed.insert(start.call));
            }
            MediaEvent::Confirmed(call) => assert!(confirmed.insert(*call) && !ended.contains(call)),
            MediaEvent::Ended(call) => assert!(ended.insert(*call)),
            MediaEvent::Play(play) => panic!("{play:?}"),
            MediaEvent::Refused(refusal) => panic!("refused: {}", refusal.name()),
        }
    }
    let calls: BTreeSet<u64> = started.values().map(|start| start.call).collect();
    assert_eq!((calls.len(), &calls), (started.len(), &ended));
    assert!(confirmed.is_subset(&calls));
    started
}

#[test]
fn both_sides_of_a_call_have_the_same_keys_and_addresses() {
    let faults = Faults { loss_per_mille: 50, ..Faults::default() };
    Story::new("load: media").faults(faults).run(|world| {
        let registered = world.load_config(9, "callee", Classic::Register);
        assert!(all(Outcome::Success, &world.run_load(registered, 1.0, 30, 10)));
        let media_use = MediaUse::Srtp(CryptoSuite::AesCm128HmacSha1_80);
        let mut with_media = |number, name, classic: Classic| {
            let mut config = world.load_config(number, name, classic);
            config.scenario = Arc::new(classic.scenario_with(media_use).unwrap());
            config.media_use = media_use;
            config
        };
        let ring = Length::Uniform(Duration::ZERO, Duration::from_secs(1));
        let callees = with_media(9, "callee", Classic::Answer { ring });
        let mut callers = with_media(1, "caller", Classic::Call { talk: TALK });
        let addresses = (callers.media, callees.media);
        let callees = world.load(callees);
        // Generators that start at the same time have the same seed.
        world.wait_ms(1);
        callers.arrivals =
            Some(Arrivals::new(5.0, Spacing::Poisson, world.sim.now(), Duration::from_secs(10)));
        let callers = world.load(callers);
        world.wait(130);
        let successes = callers.reports().iter().filter(|report| report.outcome == Outcome::Success).count();
        let (calling, called) = (streams(&callers.media()), streams(&callees.media()));
        assert!(calling.len() >= successes && successes > 25, "{successes}");
        for start in calling.values() {
            let answer = &called[&start.remote_ssrc.unwrap()];
            assert_eq!((start.remote, answer.remote), (addresses.1, addresses.0));
            assert_eq!(answer.remote_ssrc, Some(start.ssrc));
            let Protection::Sdes { send, receive, .. } = &start.protection else { panic!("no keys") };
            let Protection::Sdes { send: sent, receive: received, .. } = &answer.protection else {
                panic!("no keys")
            };
            assert!(send == received && receive == sent && send != receive);
        }
        world.end_load(callers);
        world.end_load(callees);
    });
}

#[test]
fn calls_succeed_without_record_routes_and_with_a_stateless_proxy() {
    for configure in [(|config| config.record_route = false) as fn(&mut ringway_server::Config), |config| {
        config.stateful = false
    }] {
        Story::new("load: direct").configure(configure).run(|world| {
            let callees = callees(world);
            let config = world.load_config(1, "caller", Classic::Call { talk: TALK });
            let reports = world.run_load(config, 5.0, 5, 60);
            assert!(all(Outcome::Success, &reports), "{:?}", outcomes(&reports));
            assert!(reports.iter().all(|report| report.disconnect.is_some()));
            let answered = callees.reports();
            assert!(all(Outcome::Success, &answered) && answered.len() == reports.len());
            world.end_load(callees);
        });
    }
}

#[test]
fn an_outbound_proxy_gets_the_requests_inside_a_dialog() {
    for is_outbound_proxy in [false, true] {
        Story::new("load: outbound proxy").configure(|config| config.record_route = false).run(|world| {
            let callees = callees(world);
            let config = world.load_config(1, "caller", Classic::Call { talk: TALK });
            let reports = world.run_load(Config { is_outbound_proxy, ..config }, 5.0, 5, 60);
            assert!(reports.iter().all(|report| report.final_response.is_some()), "{:?}", outcomes(&reports));
            let least = if is_outbound_proxy { reports.len() } else { 0 };
            let byes = world.requests("BYE");
            assert!(byes >= least && (byes > 0) == is_outbound_proxy, "{byes} of {}", reports.len());
            world.end_load(callees);
        });
    }
}

#[test]
fn a_redirect_is_followed() {
    Story::new("load: redirect").configure(|config| config.mode = Mode::Redirect).run(|world| {
        let callees = callees(world);
        let config = world.load_config(1, "caller", Classic::Redirect { talk: TALK });
        let reports = world.run_load(config, 5.0, 5, 60);
        assert!(all(Outcome::Success, &reports), "{:?}", outcomes(&reports));
        world.end_load(callees);
    });
}

#[test]
fn an_unknown_user_is_a_success_of_that_scenario_and_a_failure_of_a_call() {
    Story::new("load: not found").run(|world| {
        let config = world.load_config(1, "caller", Classic::CallNotFound);
        let reports = world.run_load(config, 5.0, 5, 60);
        assert!(all(Outcome::Success, &reports), "{:?}", outcomes(&reports));
        let config = world.load_config(1, "caller", Classic::Call { talk: TALK });
        let reports = world.run_load(config, 5.0, 5, 60);
        assert!(all(Outcome::Status(404), &reports), "{:?}", outcomes(&reports));
    });
}

#[test]
fn attempts_start_on_time_though_nobody_answers() {
    Story::new("load: silence").run(|world| {
        world.sim.vanish(world.server);
        let config = world.load_config(1, "user", Classic::Options);
        let reports = world.run_load(config, 20.0, 5, 40);
        assert!((60..140).contains(&reports.len()), "the rate does not depend on responses");
        assert!(all(Outcome::TimedOut, &reports), "{:?}", outcomes(&reports));
        for report in &reports {
            assert!(report.lag() < Duration::from_millis(2), "{report:?}");
            let length = report.ended.since(report.started);
            assert!((31.9..32.2).contains(&length.as_secs_f64()), "timer F is 64·T1: {length:?}");
        }
        world.restart_server();
    });
}

#[test]
fn starts_above_the_limit_are_counted() {
    Story::new("load: limit").run(|world| {
        world.sim.vanish(world.server);
        let mut config = world.load_config(1, "user", Classic::Options);
        config.attempts_max = 10;
        config.arrivals = Some(ringway_load::Arrivals::new(
            100.0,
            ringway_load::Spacing::Fixed,
            world.sim.now(),
            Duration::from_secs(1),
        ));
        let load = world.load(config);
        world.wait(40);
        let counters = world.load_counters(&load);
        assert_eq!((counters.started, counters.dropped), (10, 90));
        world.end_load(load);
        world.restart_server();
    });
}

#[test]
fn registrations_without_a_free_user_fail() {
    Story::new("load: busy users").run(|world| {
        world.sim.vanish(world.server);
        let config = world.load_config(1, "user", Classic::Register);
        let reports = world.run_load(config, 50.0, 2, 40);
        let with = |outcome| reports.iter().filter(|report| report.outcome == outcome).count();
        // A REGISTER waits for the last one of its user, and there are ten users.
        assert_eq!(with(Outcome::TimedOut), 10, "{:?}", outcomes(&reports));
        assert!(with(Outcome::UserBusy) > 50 && with(Outcome::UserBusy) + 10 == reports.len());
        world.restart_server();
    });
}

#[test]
fn an_aborted_run_leaves_nothing_behind() {
    Story::new("load: abort").run(|world| {
        let callees = callees(world);
        let mut config = world.load_config(1, "caller", Classic::Call { talk: TALK });
        config.arrivals = Some(ringway_load::Arrivals::new(
            20.0,
            ringway_load::Spacing::Fixed,
            world.sim.now(),
            Duration::from_secs(60),
        ));
        let load = world.load(config);
        world.wait_ms(1_200);
        world.load_do(&load, |generator, cx| generator.abort(cx));
        world.wait(1);
        let reports = load.reports();
        assert_eq!(world.load_counters(&load).started, reports.len() as u64);
        assert!(reports.iter().any(|report| report.outcome == Outcome::Stopped));
        world.wait(200);
        world.end_load(load);
        world.end_load(callees);
    });
}
