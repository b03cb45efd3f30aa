//! Forwards of a user between their forms: JSON of the admin API, and the checked values of the store.

use ringway_admin::{Forwards as Shown, NoAnswer as ShownNoAnswer};
use ringway_store::{ForwardUri, Forwards, NoAnswer, UnusableForward};

/// Forwards as JSON shows them.
pub(crate) fn shown(forwards: &Forwards) -> Shown {
    let text = |target: &Option<ForwardUri>| target.as_ref().map(ForwardUri::to_string);
    let no_answer = forwards.no_answer.as_ref().map(|no_answer| ShownNoAnswer {
        after_s: u64::from(no_answer.after_s()),
        to: no_answer.to().to_string(),
    });
    Shown {
        always: text(&forwards.always),
        busy: text(&forwards.busy),
        no_answer,
        unregistered: text(&forwards.unregistered),
    }
}

/// Checks forwards that JSON has.
pub(crate) fn checked(forwards: &Shown) -> Result<Forwards, UnusableForward> {
    let target = |text: &Option<String>| text.as_deref().map(ForwardUri::new).transpose();
    let no_answer = forwards.no_answer.as_ref();
    let no_answer = no_answer.map(|wanted| NoAnswer::new(wanted.after_s, ForwardUri::new(&wanted.to)?));
    Ok(Forwards {
        always: target(&forwards.always)?,
        busy: target(&forwards.busy)?,
        no_answer: no_answer.transpose()?,
        unregistered: target(&forwards.unregistered)?,
    })
}
