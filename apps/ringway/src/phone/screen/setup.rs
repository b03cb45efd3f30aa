//! Settings of `ringway phone`: from `phone.toml` and the login to those of a telephone.

use super::settings;
use crate::failure::Failure;
use crate::phone::args::{AccountArgs, PhoneArgs};
use crate::phone::settings::{Recording, Settings};
use crate::phone::telephone;
use ringway_agent::Trace;
use ringway_ui::phone::{Account, Registration, Secret};
use std::path::{Path, PathBuf};

/// Reads `phone.toml` as the options of `ringway answer`: what they refuse is refused here.
pub(super) fn phone_settings(
    file: &Path,
    of: &settings::Settings,
    account: &Account,
    password: &Secret,
) -> Result<Settings, Failure> {
    // Every path in the file is relative to its folder.
    let beside = |path: &PathBuf| file.parent().unwrap_or(Path::new("")).join(path);
    let args = PhoneArgs {
        account: AccountArgs {
            username: account.auth_user.clone(),
            realm: account.realm.clone(),
            instance: of.instance.clone(),
            server: account.server.clone(),
            transport: Some(account.transport),
            bind: of.bind,
            ca: of.ca.as_ref().map(beside),
            certificate: of.certificate.as_ref().map(beside),
            private_key: of.private_key.as_ref().map(beside),
            ..AccountArgs::default()
        },
        register: account.registration == Registration::Wanted,
        replay_window: of.replay_window,
        audio: of.audio.is_some(),
        audio_in: of.audio.as_ref().and_then(|names| names.microphone.clone()),
        audio_out: of.audio.as_ref().and_then(|names| names.loudspeaker.clone()),
        // Without a sound card nothing is sent.
        play: Some(of.play.clone()).filter(|play| play != settings::MICROPHONE),
        stun: of.pages.stun.clone(),
        port_row: of.port_row,
        ..PhoneArgs::default()
    };
    let mut settings = Settings::for_answer(&args, &account.uri).map_err(|failure| named(file, &failure))?;
    settings.account.display_name.clone_from(&account.name);
    if *password != Secret::default() {
        settings.account.secret = ringway_agent::Secret::Password(password.0.clone());
    }
    settings.trace = Trace::Whole;
    settings.media.srtp = of.pages.srtp;
    if let Some(folder) = &of.record {
        settings.media.record = Recording::Folder(beside(folder));
    }
    Ok(settings)
}

/// Checks that the phone can listen, before the screen is taken over. The address towards a server is not checked: the
/// network may come later.
pub(super) fn check_address(file: &Path, of: &settings::Settings) -> Result<(), Failure> {
    let bind = match (of.bind, &of.pages.account) {
        (Some(bind), _) => bind,
        (None, Some(account))
            if account.server.is_none() && account.registration == Registration::Unwanted =>
        {
            let pages = ringway_ui::phone::Settings { stun: None, ..of.pages.clone() };
            let of = settings::Settings { pages, ..of.clone() };
            match phone_settings(file, &of, account, &Secret::default()) {
                Ok(settings) => settings.bind,
                Err(_) => return Ok(()),
            }
        }
        (None, Some(_) | None) => return Ok(()),
    };
    telephone::check_address(bind).map_err(|failure| {
        let why = failure.lines().join("; ");
        Failure::usage(format!("{}: [network] bind: {why}", file.display()))
    })
}

/// A refusal of an option, told as one of the file.
fn named(file: &Path, failure: &Failure) -> Failure {
    let lines =
        failure.lines().iter().map(|line| format!("{}: {}", file.display(), line.trim_start_matches("--")));
    Failure::usage(lines.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_folder_for_recordings_is_beside_the_file() {
        let file = Path::new("/etc/alice/phone.toml");
        for (record, folder) in [("calls", "/etc/alice/calls"), ("/var/calls", "/var/calls")] {
            let text = format!("[account]\nuri = \"sip:alice@127.0.0.1\"\n[call]\nrecord = \"{record}\"\n");
            let of = settings::Settings::parse(&text, file).unwrap();
            let account = of.pages.account.clone().unwrap();
            let made = phone_settings(file, &of, &account, &Secret::default()).unwrap();
            assert_eq!(made.media.record, Recording::Folder(folder.into()));
        }
    }
}
