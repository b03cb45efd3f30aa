//! The address line, the keys of a telephone, and quick dial.

use super::Canvas;
use crate::phone::model::Model;
use crate::phone::settings::complete_uri;
use crate::style::Style;
use crate::text::{Shown, pad};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use ringway_phone::SrtpPolicy;

const KEYS: [&str; 13] = [
    "┌───────┬───────┬───────┐",
    "│   1   │   2   │   3   │",
    "│       │  abc  │  def  │",
    "├───────┼───────┼───────┤",
    "│   4   │   5   │   6   │",
    "│  ghi  │  jkl  │  mno  │",
    "├───────┼───────┼───────┤",
    "│   7   │   8   │   9   │",
    "│ pqrs  │  tuv  │ wxyz  │",
    "├───────┼───────┼───────┤",
    "│   *   │   0   │   #   │",
    "│       │   +   │       │",
    "└───────┴───────┴───────┘",
];
/// Column of the list beside the keys.
const LIST_X: usize = 30;
const ADDRESS_X: usize = 9;

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model) {
    canvas.put(0, 1, "Address", Style::Strong);
    let room = canvas.columns().saturating_sub(ADDRESS_X);
    let (text, column) = model.address.window(room);
    canvas.put(ADDRESS_X, 1, &pad(&text, room), Style::Field);
    canvas.set_cursor(ADDRESS_X + column, 1);
    match &model.address_error {
        Some(error) => canvas.put_cut(ADDRESS_X, 2, &format!("! {error}"), Style::Warning),
        None => canvas.put_cut(ADDRESS_X, 2, &meaning(model), Style::Quiet),
    };
    for (row, line) in (4..).zip(KEYS) {
        canvas.put(1, row, line, Style::Plain);
    }
    canvas.put(LIST_X, 4, "Quick dial", Style::Strong);
    canvas.put(LIST_X + 12, 4, "digit and Enter, or Alt and digit", Style::Quiet);
    for key in 1..=9_u8 {
        let row = 5 + usize::from(key);
        match model.settings.contacts.iter().find(|contact| contact.quick == Some(key)) {
            Some(contact) => {
                let (name, uri) = (Shown::new(&contact.name, 128), Shown::new(&contact.uri, 256));
                canvas.put_cut(
                    LIST_X,
                    row,
                    &format!("{key}  {} {uri}", pad(name.as_str(), 16)),
                    Style::Plain,
                );
            }
            None => {
                canvas.put(LIST_X, row, &format!("{key}  -"), Style::Quiet);
            }
        }
    }
}

/// Function of Enter.
fn meaning(model: &Model) -> String {
    let text = model.address.text();
    if text.trim().is_empty() {
        return "bob, bob@example.org, sip:bob@192.0.2.7:5060 or a number".to_owned();
    }
    if let Some(contact) = model.quick_dial() {
        let name = Shown::new(&contact.name, 128);
        return format!("Enter calls quick dial {}: {name}", text.trim());
    }
    let srtp = match model.settings.srtp {
        SrtpPolicy::Best => "SRTP if they can",
        SrtpPolicy::None => "not protected",
        SrtpPolicy::Sdes => "SRTP with SDES or not at all",
        SrtpPolicy::Zrtp => "ZRTP or not at all",
        SrtpPolicy::Dtls => "DTLS-SRTP or not at all",
    };
    match complete_uri(&text, model.own_uri()) {
        Ok(uri) => format!("Enter calls {} ({srtp})", Shown::new(&uri, 256)),
        Err(why) => why.into_owned(),
    }
}
