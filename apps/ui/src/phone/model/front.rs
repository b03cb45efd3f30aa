//! A call that rings comes to the front: its page is shown over the one before, where Enter answers it.
//!
//! Its keys are Enter, Esc, and those that work everywhere. Any other key goes back to the page before and has its function
//! there, so that somebody who is about to type neither answers nor rejects.

use super::{Model, Overlay, Screen, login};
use crate::keys::Key;
use ringway_phone::CallNumber;

/// A call in front of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) call: CallNumber,
    /// The page before.
    pub(crate) behind: Screen,
}

/// Brings a call to the front, unless something is being typed, or another live call is shown.
pub(super) fn bring(model: &mut Model, call: CallNumber) {
    let is_free = match (&model.overlay, model.screen) {
        (Some(Overlay::Help { .. }), _) => true,
        (
            Some(
                Overlay::Leave | Overlay::Transfer { .. } | Overlay::Contact { .. } | Overlay::Forget { .. },
            ),
            _,
        )
        | (None, Screen::Call) => false,
        (None, Screen::Keypad) => model.address.is_empty(),
        (None, Screen::Account) => model.login.entries == login::form(&model.settings).entries,
        (None, Screen::Contacts | Screen::Calls | Screen::Network | Screen::Ladder | Screen::Log) => true,
    };
    if is_free && model.call(call).is_some() {
        model.overlay = None;
        if model.screen != Screen::Call {
            model.front = Some(Front { call, behind: model.screen });
            model.screen = Screen::Call;
        }
    }
}

/// Goes back to the page before.
pub(super) fn leave(model: &mut Model) {
    if let Some(front) = model.front.take() {
        model.screen = front.behind;
    }
}

/// The same if this call is in front.
pub(super) fn leave_if(model: &mut Model, call: CallNumber) {
    if model.front.is_some_and(|front| front.call == call) {
        leave(model);
    }
}

/// Handles a key while a call is in front; true: it has no further function.
pub(super) fn on_key(model: &mut Model, key: Key) -> bool {
    if model.front.is_none() || matches!(key, Key::Function(_) | Key::Tab | Key::BackTab | Key::Alt(_)) {
        return false;
    }
    leave(model);
    matches!(key, Key::Escape | Key::Enter)
}

#[cfg(test)]
mod tests {
    use crate::keys::Key;
    use crate::phone::model::{Event, Screen};
    use crate::phone::scene::Scene;
    use PhoneCommand as Do;
    use alloc::borrow::ToOwned;
    use alloc::string::String;
    use alloc::vec;
    use ringway_phone::{PhoneCommand, PhoneEvent, Side};

    #[test]
    fn a_call_comes_to_the_front_of_each_page_and_enter_answers_it() {
        for page in 2..=8 {
            for has_help in [false, true] {
                let mut scene = Scene::new();
                scene.press(Key::Function(page));
                if has_help {
                    scene.press(Key::Function(1));
                }
                let call = scene.bob_calls(1);
                assert!(scene.shows("rings here: Enter answers, "), "F{page}: {:#?}", scene.lines());
                assert!(scene.line(">>").contains("Enter answer"), "F{page}");
                scene.press(Key::Enter);
                assert_eq!(scene.commands(), [Do::Answer { call }], "F{page}");
                scene.phone(PhoneEvent::Answered { call, codec: "PCMU".to_owned() });
                scene.press(Key::Enter);
                assert_eq!((scene.model.screen, scene.commands()), (Screen::Call, vec![]), "answered once");
            }
        }
    }

    #[test]
    fn other_keys_go_back_to_the_page_before_and_have_their_function_there() {
        for page in [2, 3, 4, 6, 7, 8] {
            let mut scene = Scene::new();
            scene.press(Key::Function(page));
            let before = scene.model.screen;
            let call = scene.bob_calls(1);
            scene.press(Key::Escape);
            assert_eq!((scene.model.screen, scene.commands()), (before, vec![]), "F{page}");
            scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 487, reason: String::new() });
            // Its caller gives up, or it is rejected.
            let call = scene.bob_calls(2);
            assert_eq!(scene.model.screen, Screen::Call);
            scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 487, reason: String::new() });
            assert_eq!(scene.model.screen, before, "F{page}");
            let call = scene.bob_calls(3);
            scene.press(Key::Ctrl('r'));
            assert_eq!(
                (scene.model.screen, scene.commands()),
                (before, vec![Do::Reject { call }]),
                "F{page}"
            );
        }
        let mut scene = Scene::new();
        scene.bob_calls(1);
        assert!(scene.model.takes_text(), "letters are those of the keypad");
        scene.types("xar");
        assert_eq!((scene.model.address.text().as_str(), scene.commands()), ("xar", vec![]));
        let mut scene = Scene::new();
        scene.bob_calls(1);
        scene.event(Event::Paste("carol".to_owned()));
        assert_eq!(scene.model.address.text(), "carol");
    }

    #[test]
    fn a_call_does_not_come_to_the_front_of_what_is_typed_or_of_another_call() {
        let typing: [fn(&mut Scene); 4] = [
            |scene| scene.types("carol"),
            |scene| {
                scene.press(Key::Function(8));
                scene.types("x");
            },
            |scene| {
                scene.press(Key::Function(3));
                scene.press(Key::Char('n'));
            },
            |scene| {
                scene.talk_to(1, "sip:carol@example.org");
            },
        ];
        for prepare in typing {
            let mut scene = Scene::new();
            prepare(&mut scene);
            scene.commands();
            let before = (scene.model.screen, scene.model.overlay.clone(), scene.model.shown);
            scene.bob_calls(2);
            assert_eq!((scene.model.screen, scene.model.overlay.clone(), scene.model.shown), before);
            assert_eq!(scene.model.front, None);
        }
    }
}
