//! Addresses of this phone, and how others see them.

use super::{Canvas, Machine, registered};
use crate::network;
use crate::phone::Now;
use crate::phone::model::{Host, Mapping, Model};
use crate::phone::settings::Registration;
use crate::style::Style;
use crate::text::{Shown, pad, split};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

const VALUE_X: usize = 12;
/// Lines of the reason of a failed registration.
const REASON_LINES_MAX: usize = 4;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, now: Now, machine: Option<&Machine<'_>>) {
    let mut row = 0;
    for (label, values) in facts(model, now, canvas.columns() - VALUE_X) {
        canvas.put(0, row, label, Style::Strong);
        for value in values {
            canvas.put_cut(VALUE_X, row, &value, Style::Plain);
            row += 1;
        }
    }
    if let Some(machine) = machine {
        let (cells, y) = canvas.whole_rows();
        network::draw(cells, y + row + 1, &machine.network);
    }
}

fn facts(model: &Model, now: Now, columns: usize) -> Vec<(&'static str, Vec<String>)> {
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
                Registration::Wanted => registered(model, now, usize::MAX),
                Registration::Unwanted => "not wanted: only direct calls".to_owned(),
            };
            let mut rest = state.trim_start_matches("registered, ");
            let mut lines = Vec::new();
            while !rest.is_empty() && lines.len() < REASON_LINES_MAX {
                let (line, more) = split(rest, columns);
                lines.push(line.to_owned());
                rest = more;
            }
            facts.push(("Registered", lines));
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
    let stun = match (&model.mapping, &model.settings.stun) {
        (Mapping::At { local, mapped }, _) if local == mapped => format!("{local} is seen as it is: no NAT"),
        (Mapping::At { local, mapped }, _) => format!("{local} is seen as {mapped}"),
        (Mapping::Failed(reason), _) => format!("no answer that helps: {reason}"),
        (Mapping::Unknown, Some(server)) => format!("{}: not asked yet", Shown::new(server, 256)),
        (Mapping::Unknown, None) => match model.host {
            Host::System { .. } => "no server is given; F8 takes one".to_owned(),
            Host::Machine => "no server is given".to_owned(),
        },
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
