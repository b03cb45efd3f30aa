//! Where this phone is, and how others see it.

use super::canvas::{Canvas, style};
use super::registered;
use crate::phone::screen::event::Now;
use crate::phone::screen::model::{Mapping, Model};
use crate::phone::screen::settings::Registration;
use crate::phone::screen::text::{Shown, pad};
use ratatui::layout::Position;

const VALUE_X: u16 = 12;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, now: Now) -> Option<Position> {
    let mut row = 0;
    for (label, values) in facts(model, now) {
        canvas.put(0, row, label, style::STRONG);
        for value in values {
            canvas.put_cut(VALUE_X, row, &value, style::PLAIN);
            row += 1;
        }
    }
    None
}

fn facts(model: &Model, now: Now) -> Vec<(&'static str, Vec<String>)> {
    let mut facts = Vec::new();
    match &model.settings.account {
        None => facts.push(("Account", vec!["none; F8 makes one".to_owned()])),
        Some(account) => {
            let via = match &account.server {
                Some(server) => format!("through {}", Shown::new(server, 256)),
                None => "to the host of each address".to_owned(),
            };
            let uri = Shown::new(&account.uri, 256);
            facts.push(("Account", vec![format!("{uri}, {} {via}", account.transport.name())]));
            let state = match account.registration {
                Registration::Wanted => registered(model, now),
                Registration::Unwanted => "not wanted: only direct calls".to_owned(),
            };
            facts.push(("Registered", vec![state]));
        }
    }
    let name = |name: &str| pad(Shown::new(name, 64).as_str(), 10);
    let addresses = model.network.addresses.iter();
    facts.push((
        "Addresses",
        or_unknown(addresses.map(|(interface, ip)| format!("{} {ip}", name(interface)))),
    ));
    let listening = model.network.listening.iter();
    facts.push((
        "Listening",
        or_unknown(listening.map(|(what, address)| format!("{} {address}", name(what)))),
    ));
    let stun = match (&model.mapping, &model.settings.network.stun) {
        (Mapping::At { local, mapped }, _) if local == mapped => format!("{local} is seen as it is: no NAT"),
        (Mapping::At { local, mapped }, _) => format!("{local} is seen as {mapped}"),
        (Mapping::Failed(reason), _) => format!("no answer that helps: {reason}"),
        (Mapping::Unknown, Some(server)) => format!("{}: not asked yet", Shown::new(server, 256)),
        (Mapping::Unknown, None) => "no server is given; F8 takes one".to_owned(),
    };
    facts.push(("STUN", vec![stun]));
    if !model.network.timing.is_empty() {
        facts.push(("Sending", vec![Shown::new(&model.network.timing, 256).to_string()]));
    }
    facts
}

fn or_unknown(values: impl Iterator<Item = String>) -> Vec<String> {
    let values: Vec<_> = values.collect();
    if values.is_empty() { vec!["not known yet".to_owned()] } else { values }
}
