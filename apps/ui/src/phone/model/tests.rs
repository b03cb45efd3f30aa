//! Stories at the phone.
//!
//! Tested: login, dialling, quick dial, calls in and out, call waiting, hold, mute, transfer, keys, the SAS, the call
//! list, contacts, the ladder, leaving, and texts from strangers.

use super::*;
use crate::phone::scene::{LADDER, Scene};
use PhoneCommand as Do;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ringway_phone::{
    CryptoSuite, Hold, MessageDirection, PhoneCommand, PhoneEvent, Protection, SasStatus, Side, Signalling,
    SipMessage, TransferStep,
};
use ringway_sansio::Transport;

fn zrtp(status: SasStatus) -> Protection {
    Protection::Zrtp { suite: CryptoSuite::AesCm128HmacSha1_80, sas: "jf4k".to_owned(), status }
}

#[test]
fn a_call_goes_out_and_the_other_side_hangs_up() {
    let mut scene = Scene::new();
    scene.types("bob");
    scene.press(Key::Enter);
    assert_eq!(scene.commands(), [Do::Call { to: "sip:bob@example.org".to_owned() }]);
    let call = CallNumber(1);
    scene.phone(PhoneEvent::Calling { call, to: "sip:bob@example.org".to_owned() });
    assert_eq!(scene.model.screen, Screen::Call);
    scene.phone(PhoneEvent::Early { call });
    scene.phone(PhoneEvent::Ringing { call });
    assert_eq!(scene.model.call(call).unwrap().phase, Phase::Early, "a late 180 takes nothing back");
    scene.phone(PhoneEvent::Answered { call, codec: "PCMA".to_owned() });
    scene.wait_ms(61_000);
    scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 0, reason: String::new() });
    let past = scene.model.history.front().unwrap();
    assert_eq!((&past.outcome, past.talked), (&Outcome::Talked, Some(Duration::from_secs(61))));
    assert!(
        scene.model.calls.is_empty()
            && scene.model.notice.as_ref().unwrap().text.as_str() == "Bob has hung up"
    );
    scene.press(Key::Enter);
    assert_eq!(scene.commands(), [Do::Call { to: "sip:bob@example.org".to_owned() }], "Enter calls again");
}

#[test]
fn a_call_that_is_not_taken_says_why() {
    let mut scene = Scene::new();
    let call = CallNumber(1);
    scene.phone(PhoneEvent::Calling { call, to: "sip:bob@example.org".to_owned() });
    scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 486, reason: "Busy Here".to_owned() });
    let Outcome::Failed { status: 486, reason } = &scene.model.history.front().unwrap().outcome else {
        panic!()
    };
    assert_eq!(reason.as_str(), "Busy Here");
}

#[test]
fn who_calls_is_rejected_missed_or_answered() {
    let mut scene = Scene::new();
    let first = scene.bob_calls(1);
    assert_eq!(scene.effects(), [Effect::Bell]);
    for bells in [0, 0, 1, 0] {
        scene.wait_ms(2000);
        scene.event(Event::Tick);
        assert_eq!(scene.effects().len(), bells, "it rings every five seconds");
    }
    assert_eq!(
        scene.model.call(first).unwrap().party.name.as_str(),
        "Bob",
        "the contact's name, not its own"
    );
    // What is being typed stays typed: only control keys answer here.
    scene.types("ar");
    assert_eq!((scene.model.address.text().as_str(), scene.commands()), ("ar", vec![]));
    scene.press(Key::Ctrl('r'));
    assert_eq!(scene.commands(), [Do::Reject { call: first }]);
    scene.press(Key::Ctrl('a'));
    assert_eq!(scene.commands(), [], "it is rejected already");
    scene.phone(PhoneEvent::Ended { call: first, by: Side::Us, status: 486, reason: String::new() });
    assert!(matches!(scene.effects().as_slice(), [Effect::KeepCalls]));
    scene.wait_ms(9000);
    scene.event(Event::Tick);
    assert_eq!(scene.effects(), [], "nobody calls any more");
    let second = scene.bob_calls(2);
    scene.phone(PhoneEvent::Ended { call: second, by: Side::Peer, status: 487, reason: String::new() });
    let third = scene.bob_calls(3);
    scene.press(Key::Function(5));
    scene.press(Key::Char('a'));
    assert_eq!(scene.commands(), [Do::Answer { call: third }]);
    scene.phone(PhoneEvent::Answered { call: third, codec: "PCMU".to_owned() });
    assert!(scene.model.call(third).unwrap().is_talking());
    let outcomes: Vec<_> = scene.model.history.iter().map(|past| past.outcome.clone()).collect();
    assert_eq!(outcomes, [Outcome::Missed, Outcome::Rejected]);
}

#[test]
fn a_second_call_waits_and_the_first_is_held_before_it_is_answered() {
    let mut scene = Scene::new();
    let carol = scene.talk_to(1, "sip:carol@example.org");
    scene.commands();
    let bob = scene.bob_calls(2);
    assert_eq!(scene.model.shown_call().unwrap().number, carol, "who calls takes nothing from the screen");
    scene.press(Key::Ctrl('a'));
    assert_eq!(scene.commands(), [Do::Hold { call: carol }, Do::Answer { call: bob }]);
    scene.phone(PhoneEvent::Held { call: carol, hold: Hold::Ours });
    scene.phone(PhoneEvent::Answered { call: bob, codec: "PCMU".to_owned() });
    // n shows carol, h takes her back and holds bob.
    scene.press(Key::Char('n'));
    assert_eq!(scene.model.shown_call().unwrap().number, carol);
    scene.press(Key::Char('h'));
    assert_eq!(scene.commands(), [Do::Hold { call: bob }, Do::Resume { call: carol }]);
    scene.press(Key::Char('h'));
    assert_eq!(scene.commands(), [], "asked already");
    scene.phone(PhoneEvent::Ended { call: carol, by: Side::Peer, status: 0, reason: String::new() });
    assert_eq!(scene.model.shown_call().unwrap().number, bob);
}

#[test]
fn a_call_without_sound_says_so_until_sound_comes() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    scene.phone(PhoneEvent::Silent { call, is_silent: true });
    assert!(scene.shows("talking, NO SOUND from them"), "{:#?}", scene.lines());
    assert!(scene.shows("no sound comes from Bob"), "{:#?}", scene.lines());
    scene.phone(PhoneEvent::Silent { call, is_silent: false });
    assert!(!scene.shows("NO SOUND"), "{:#?}", scene.lines());
}

#[test]
fn dialling_while_talking_holds_first() {
    let mut scene = Scene::new();
    let bob = scene.talk_to(1, "sip:bob@example.org");
    scene.press(Key::Alt('4'));
    let carol = "sip:carol@example.org".to_owned();
    assert_eq!(scene.commands(), [Do::Hold { call: bob }, Do::Call { to: carol }]);
    scene.press(Key::Alt('9'));
    assert!(
        scene.commands().is_empty() && scene.model.notice.as_ref().unwrap().text.as_str().contains("nobody")
    );
}

#[test]
fn hold_mute_keys_and_transfer() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    scene.types("hmm1#DzE");
    let digit = |face| Do::Dtmf { call, digit: ringway_phone::Digit::new(face).unwrap() };
    let wanted =
        [Do::Hold { call }, Do::Mute { call }, Do::Unmute { call }, digit('1'), digit('#'), digit('D')];
    assert_eq!(scene.commands(), wanted);
    assert_eq!(scene.model.call(call).unwrap().digits_sent, "1#D");
    scene.phone(PhoneEvent::Held { call, hold: Hold::Both });
    assert!(scene.model.notice.as_ref().unwrap().text.as_str().contains("Bob has put you on hold"));
    scene.press(Key::Char('t'));
    scene.types("h m");
    scene.press(Key::Enter);
    assert!(
        matches!(&scene.model.overlay, Some(Overlay::Transfer { error: Some(_), .. })),
        "no such address"
    );
    scene.press(Key::Ctrl('u'));
    scene.event(Event::Paste("carol\n".to_owned()));
    scene.press(Key::Enter);
    assert_eq!(scene.commands(), [Do::Transfer { call, to: "sip:carol@example.org".to_owned() }]);
    scene.phone(PhoneEvent::Transfer {
        call,
        step: TransferStep::Failed { status: 603, reason: "Decline".to_owned() },
    });
    assert_eq!(scene.model.call(call).unwrap().transfer.as_str(), "failed: 603 Decline");
    scene.press(Key::Char('t'));
    scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 0, reason: String::new() });
    assert_eq!(scene.model.overlay, None, "there is nobody left to transfer");
}

#[test]
fn the_other_side_may_ask_for_a_transfer_and_no_more() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    let ask = PhoneEvent::TransferAsked { call, to: "sip:carol@example.org".to_owned() };
    scene.phone(ask.clone());
    assert_eq!(scene.commands(), [], "nobody is called silently");
    scene.press(Key::Ctrl('r'));
    scene.press(Key::Ctrl('a'));
    scene.phone(ask.clone());
    scene.phone(ask);
    scene.press(Key::Ctrl('a'));
    assert_eq!(scene.commands(), [Do::RejectTransfer { call }, Do::AcceptTransfer { call }]);
    scene.phone(PhoneEvent::OfferRefused { call, status: 488, reason: "without protection".to_owned() });
    assert_eq!(scene.model.notice.as_ref().unwrap().weight, Weight::Careful);
}

#[test]
fn a_refused_command_can_be_given_again() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    scene.press(Key::Char('h'));
    scene.phone(PhoneEvent::Refused { what: "hold: 488 Not Acceptable Here".to_owned() });
    scene.press(Key::Char('h'));
    assert_eq!(scene.commands(), [Do::Hold { call }, Do::Hold { call }]);
}

#[test]
fn the_sas_is_marked_once_and_only_where_there_is_one() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    scene.press(Key::Char('v'));
    let (suite, signalling) = (CryptoSuite::AesCm128HmacSha1_80, Signalling::Open);
    scene.secured(call, Protection::Sdes { suite, signalling });
    scene.press(Key::Char('v'));
    assert_eq!(scene.commands(), []);
    scene.secured(call, zrtp(SasStatus::FirstCall));
    scene.press(Key::Char('v'));
    assert_eq!(scene.commands(), [Do::MarkSasVerified { call }]);
    assert_eq!(
        scene.model.call(call).unwrap().lock,
        zrtp(SasStatus::FirstCall),
        "the phone says when it is so"
    );
    scene.secured(call, zrtp(SasStatus::Compared));
    scene.press(Key::Char('v'));
    assert_eq!(scene.commands(), []);
    scene.secured(call, zrtp(SasStatus::Broken));
    assert!(scene.model.notice.as_ref().unwrap().text.as_str().contains("compare the SAS"));
    scene.press(Key::Char('v'));
    assert_eq!(scene.commands(), [Do::MarkSasVerified { call }]);
}

#[test]
fn the_last_comparison_of_the_sas_is_what_the_page_and_the_notice_say() {
    let notice = |scene: &Scene| scene.model.notice.as_ref().unwrap().text.as_str().to_owned();
    let (equal, differs) = (('v', SasStatus::Compared), ('V', SasStatus::Different));
    for order in [[equal, differs], [differs, equal], [differs, differs]] {
        let mut scene = Scene::new();
        let call = scene.talk_to(1, "sip:bob@example.org");
        scene.secured(call, zrtp(SasStatus::FirstCall));
        for (key, status) in order {
            scene.press(Key::Char(key));
            if !scene.commands().is_empty() {
                scene.secured(call, zrtp(status));
            }
        }
        let (line, notice) = (scene.line("SAS jf4k"), notice(&scene));
        if order[1] == equal {
            assert!(line.contains("compared: nobody sits between you"), "{line}");
            assert!(notice.contains("the SAS is equal"), "{notice}");
        } else {
            assert!(line.ends_with("DIFFERS: somebody sits between you; v: it is equal"), "{line}");
            assert!(notice.contains("the SAS differs"), "{notice}");
        }
    }
}

#[test]
fn enter_answers_where_it_has_no_other_function_and_f9_everywhere() {
    for page in 2..=8 {
        let mut scene = Scene::new();
        let call = scene.bob_calls(1);
        scene.press(Key::Function(page));
        let answer = [Do::Answer { call }];
        // On the contacts, the ladder and the account page Enter has a function.
        let enter_answers = !matches!(page, 3 | 7 | 8);
        assert_eq!(scene.line(">>").contains("Enter answer"), enter_answers, "F{page}");
        assert_eq!(scene.line(">>").contains("F9 answer"), !enter_answers, "F{page}");
        scene.press(Key::Enter);
        assert_eq!(scene.commands() == answer, enter_answers, "F{page}");
        if !enter_answers {
            scene.press(Key::Function(9));
            assert_eq!(scene.commands(), answer, "F{page}");
        }
        scene.press(Key::Enter);
        assert_eq!(scene.commands(), [], "it is answered once");
    }
    let mut scene = Scene::new();
    scene.types("carol");
    scene.bob_calls(1);
    assert!(scene.line(">>").contains("F9 answer"));
    scene.press(Key::Enter);
    assert_eq!(
        scene.commands(),
        [Do::Call { to: "sip:carol@example.org".to_owned() }],
        "a typed text is sent"
    );
}

#[test]
fn a_digit_in_the_contact_box_chooses_the_quick_dial_key() {
    let mut scene = Scene::new();
    scene.press(Key::Function(3));
    scene.press(Key::Char('n'));
    scene.types("Dan 2");
    scene.press(Key::Down);
    scene.types("dan2");
    scene.press(Key::Down);
    scene.types("7x");
    scene.press(Key::Enter);
    let dan = scene.model.settings.contacts.last().unwrap();
    assert_eq!((dan.name.as_str(), dan.uri.as_str(), dan.quick), ("Dan 2", "sip:dan2@example.org", Some(7)));
}

#[test]
fn a_successful_transfer_is_shown_as_one_to_the_end() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    scene.press(Key::Char('t'));
    scene.types("carol");
    scene.press(Key::Enter);
    let to = "sip:carol@example.org".to_owned();
    assert_eq!(scene.commands(), [Do::Transfer { call, to }]);
    scene.phone(PhoneEvent::Transfer { call, step: TransferStep::Trying { status: 100 } });
    scene.phone(PhoneEvent::Transfer { call, step: TransferStep::Done });
    assert!(scene.shows("transfer done: Bob talks to sip:carol@example.org now"), "{:#?}", scene.lines());
    scene.phone(PhoneEvent::Ended { call, by: Side::Us, status: 200, reason: String::new() });
    assert!(scene.shows("over: transferred to sip:carol@example.org"), "{:#?}", scene.lines());
    assert!(scene.shows("transfer done: Bob talks to sip:carol@example.org now; this call is over"));
    scene.press(Key::Function(4));
    assert!(scene.line("Bob").contains("transferred to sip:carol@example.org"));
}

#[test]
fn a_lock_that_gets_weaker_is_never_silent() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    scene.secured(call, zrtp(SasStatus::Compared));
    assert_eq!(scene.model.notice, None);
    scene.secured(call, Protection::None);
    let notice = scene.model.notice.clone().unwrap();
    assert_eq!(
        (notice.weight, notice.text.as_str()),
        (Weight::Careful, "the call with Bob is no longer protected")
    );
}

#[test]
fn the_registration_is_reported_and_a_refresh_is_not() {
    let mut scene = Scene::new();
    scene.phone(PhoneEvent::Registering);
    assert_eq!(scene.model.registered, Registered::Trying);
    scene.phone(PhoneEvent::Registered { expires_s: 60 });
    scene.phone(PhoneEvent::Registering);
    assert_eq!(scene.model.registered, Registered::Yes { until: Duration::from_secs(70) });
    scene.phone(PhoneEvent::RegistrationFailed {
        status: 403,
        reason: "Forbidden".to_owned(),
        retry_s: None,
    });
    assert!(matches!(&scene.model.registered, Registered::Failed { retry_at: None, .. }));
    scene.wait_ms(13_000);
    scene.event(Event::Tick);
    assert_eq!(scene.model.notice, None, "a notice goes");
}

#[test]
fn the_chosen_call_stays_chosen_while_calls_come_and_go() {
    let mut scene = Scene::new();
    for number in 1..=3 {
        let to = format!("sip:n{number}@example.org");
        let call = scene.talk_to(number, &to);
        scene.phone(PhoneEvent::Ended { call, by: Side::Us, status: 0, reason: String::new() });
    }
    scene.press(Key::Function(4));
    scene.press(Key::Down);
    let chosen = |scene: &Scene| {
        let model = &scene.model;
        let at = model.chosen.checked_sub(model.calls.len()).unwrap();
        model.history[at].party.address.clone()
    };
    assert_eq!(chosen(&scene), "sip:n2@example.org");
    let bob = scene.bob_calls(9);
    assert_eq!(chosen(&scene), "sip:n2@example.org");
    scene.phone(PhoneEvent::Ended { call: bob, by: Side::Peer, status: 487, reason: String::new() });
    assert_eq!(chosen(&scene), "sip:n2@example.org");
    scene.commands();
    scene.press(Key::Enter);
    assert_eq!(scene.commands(), [Do::Call { to: "sip:n2@example.org".to_owned() }]);
    // A chosen live call is followed into the history.
    let bob = scene.bob_calls(10);
    scene.press(Key::Function(4));
    scene.press(Key::Home);
    scene.phone(PhoneEvent::Ended { call: bob, by: Side::Peer, status: 487, reason: String::new() });
    assert_eq!(chosen(&scene), "sip:bob@example.org");
}

#[test]
fn contacts_are_made_changed_and_taken_out() {
    let mut scene = Scene::new();
    scene.press(Key::Function(3));
    scene.press(Key::Char('n'));
    scene.types("Dan");
    scene.press(Key::Tab);
    scene.types("tel:123");
    scene.press(Key::Enter);
    assert!(matches!(&scene.model.overlay, Some(Overlay::Contact { form, .. }) if form.focus == 1));
    scene.press(Key::Ctrl('u'));
    scene.types("+49 30-123");
    scene.press(Key::Enter);
    let saved = scene.effects();
    let Some(Effect::Save(settings)) = saved.first() else { panic!("{saved:?}") };
    assert_eq!(settings.contacts[3].uri, "sip:+4930123@example.org");
    // The door gets key 1; bob had it.
    scene.press(Key::Down);
    scene.press(Key::Down);
    scene.press(Key::Char('1'));
    let keys: Vec<_> = scene.model.settings.contacts.iter().map(|contact| contact.quick).collect();
    assert_eq!(keys, [None, Some(4), Some(1), None]);
    scene.press(Key::Char('d'));
    scene.press(Key::Char('n'));
    assert_eq!(scene.model.settings.contacts.len(), 4, "asked first");
    scene.press(Key::Char('d'));
    scene.press(Key::Char('y'));
    assert_eq!(scene.model.settings.contacts.len(), 3);
}

#[test]
fn dialled_addresses_come_back_and_a_lone_digit_is_quick_dial() {
    let mut scene = Scene::new();
    scene.types("one@example.org");
    scene.press(Key::Enter);
    scene.press(Key::Function(2));
    scene.types("4");
    scene.press(Key::Enter);
    let carol = "sip:carol@example.org";
    let wanted = ["sip:one@example.org", carol].map(|to| Do::Call { to: to.to_owned() });
    assert_eq!(scene.commands(), wanted);
    for (key, text) in [
        (Key::Up, carol),
        (Key::Up, "sip:one@example.org"),
        (Key::Up, "sip:one@example.org"),
        (Key::Down, carol),
    ] {
        scene.press(key);
        assert_eq!(scene.model.address.text(), text);
    }
    scene.press(Key::Down);
    assert!(scene.model.address.is_empty());
    scene.types("sips:bob@example.org");
    scene.press(Key::Enter);
    assert_eq!(scene.commands(), [Do::Call { to: "sips:bob@example.org".to_owned() }]);
}

#[test]
fn leaving_while_a_call_is_live_is_asked() {
    let mut scene = Scene::new();
    scene.talk_to(1, "sip:bob@example.org");
    scene.press(Key::Char('q'));
    scene.press(Key::Escape);
    assert_eq!(scene.effects(), []);
    scene.press(Key::Ctrl('c'));
    scene.press(Key::Char('y'));
    assert_eq!(scene.effects(), [Effect::KeepCalls, Effect::Phone(Do::Quit), Effect::Leave]);
    assert!(scene.model.past_calls().contains("sip:bob@example.org"), "{}", scene.model.past_calls());
    let mut idle = Scene::new();
    idle.press(Key::Ctrl('q'));
    assert_eq!(idle.effects(), [Effect::Phone(Do::Quit), Effect::Leave]);
}

#[test]
fn the_ladder_follows_filters_and_forgets() {
    let mut scene = Scene::new();
    for (way, text) in LADDER {
        scene.message(way, text);
    }
    scene.message(MessageDirection::Received, "OPTIONS sip:alice@192.0.2.7 SIP/2.0\r\ni: other\r\n\r\n");
    let ladder = &scene.model.ladder;
    assert_eq!((ladder.len(), ladder.selected), (7, 6), "the newest is chosen");
    let titles: Vec<_> = ladder.visible().map(|rung| rung.title.as_str()).collect();
    assert_eq!(titles[1], "407 Proxy Authentication Required (INVITE)");
    assert_eq!(titles[2], "ACK sip:bob@example.org");
    scene.press(Key::Function(7));
    scene.press(Key::Char('f'));
    assert_eq!((scene.model.ladder.len(), scene.model.ladder.selected), (1, 0));
    scene.press(Key::Char('f'));
    assert_eq!(scene.model.ladder.selected, 6);
    for number in 0..3000 {
        scene.message(MessageDirection::Sent, &format!("BYE sip:n{number}@example.org SIP/2.0\r\n\r\n"));
    }
    let ladder = &scene.model.ladder;
    assert_eq!((ladder.len(), ladder.dropped, ladder.selected), (2000, 1007, 1999));
    let large = SipMessage {
        direction: MessageDirection::Received,
        transport: Transport::Tcp,
        peer: "192.0.2.10:5060".parse().unwrap(),
        line: String::new(),
        cseq: String::new(),
        length: 9 << 20,
        bytes: vec![b'x'; 9 << 20],
    };
    scene.phone(PhoneEvent::Message(large));
    assert_eq!(scene.model.ladder.len(), 1, "bytes are bounded too");
}

#[test]
fn a_stranger_cannot_fill_the_history_or_speak_of_calls_that_are_not() {
    let mut scene = Scene::new();
    for number in 0..1000 {
        let call = scene.bob_calls(number);
        scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 487, reason: String::new() });
    }
    assert_eq!(scene.model.history.len(), 500);
    let call = CallNumber(4711);
    for event in [
        PhoneEvent::Answered { call, codec: String::new() },
        PhoneEvent::Held { call, hold: Hold::Both },
        PhoneEvent::Digit { call, digit: '1' },
        PhoneEvent::Ended { call, by: Side::Peer, status: 0, reason: String::new() },
    ] {
        scene.phone(event);
    }
    assert!(scene.model.calls.is_empty() && scene.model.history.len() == 500);
    for number in 2000..3000 {
        scene.bob_calls(number);
    }
    assert_eq!(scene.model.calls.len(), 64);
}
