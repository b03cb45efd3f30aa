//! From `phone.toml` to what the telephone needs, and from what it tells to what the screen shows.

use super::settings;
use crate::failure::Failure;
use crate::phone::args::{PhoneArgs, SrtpArg, TransportArg};
use crate::phone::audio::Audio;
use crate::phone::known_phones::KnownPhones;
use crate::phone::settings::{MediaSettings, Recording, Settings};
use clap::ValueEnum;
use ringway_agent::Trace;
use ringway_linux::Listen;
use ringway_linux::media::PortRange;
use ringway_media::session::Report;
use ringway_phone::{MediaReport, NetworkFacts, PhoneEvent, SrtpPolicy};
use ringway_sansio::Transport;
use ringway_ui::phone::{Account, Registration, Secret};
use std::path::{Path, PathBuf};

/// A phone's settings with what `ringway phone` adds.
pub(super) struct Wired {
    pub(super) settings: Settings,
    /// The folder for recordings.
    recordings: Option<PathBuf>,
    transport: Transport,
}

impl Wired {
    /// Reads what `phone.toml` says as the options of `ringway answer`: what they refuse is refused here.
    pub(super) fn new(
        file: &Path,
        of: &settings::Settings,
        account: &Account,
        password: &Secret,
    ) -> Result<Self, Failure> {
        let args = PhoneArgs {
            password_stdin: false,
            username: account.auth_user.clone(),
            realm: account.realm.clone(),
            server: account.server.clone(),
            register: account.registration == Registration::Wanted,
            transport: TransportArg::from_str(account.transport.name(), false).ok(),
            bind: of.bind,
            srtp: match of.pages.srtp {
                SrtpPolicy::Best => None,
                SrtpPolicy::None => Some(SrtpArg::None),
                SrtpPolicy::Sdes => Some(SrtpArg::Sdes),
                SrtpPolicy::Zrtp => Some(SrtpArg::Zrtp),
            },
            suite: Vec::new(),
            // It keeps its memory itself, over several accounts.
            zrtp_cache: None,
            allow_downgrade: false,
            codec: Vec::new(),
            audio: of.audio.is_some(),
            audio_in: of.audio.as_ref().and_then(|names| names.microphone.clone()),
            audio_out: of.audio.as_ref().and_then(|names| names.loudspeaker.clone()),
            // Without a sound card nothing is sent.
            play: Some(of.play.clone()).filter(|play| play != settings::MICROPHONE),
            record: None,
            duration: None,
            dtmf: None,
            hold_at: Vec::new(),
            hold_s: 0.0,
            rtp_ports: PortRange::default(),
            stun: of.pages.stun.clone(),
            trace: false,
            meter: false,
            json: false,
        };
        let mut settings =
            Settings::for_answer(&args, &account.uri).map_err(|failure| named(file, &failure))?;
        settings.account.display_name.clone_from(&account.name);
        if *password != Secret::default() {
            settings.account.secret = ringway_agent::Secret::Password(password.0.clone());
        }
        settings.trace = Trace::Whole;
        Ok(Self { settings, recordings: of.record.clone(), transport: account.transport })
    }
}

impl Wired {
    /// What the next call's sound is like; each call has a recording of its own.
    /// Without a sound server the call has no sound of ours, which `tell` says.
    pub(super) fn media(
        &self,
        known: &KnownPhones,
        recorded: &mut u32,
        tell: impl Fn(PhoneEvent) -> bool,
    ) -> Result<MediaSettings, Failure> {
        let mut media = self.settings.media.clone();
        match self.audio() {
            Some(Ok(audio)) => media.audio = Some(audio),
            Some(Err(failure)) => {
                tell(PhoneEvent::Sound { what: failure.lines().join("; ") });
            }
            None => {}
        }
        media.zrtp = Some(known.settings());
        if let Some(folder) = &self.recordings {
            std::fs::create_dir_all(folder).map_err(|error| {
                let folder = folder.display();
                Failure::failed(format!(
                    "{folder}: cannot make this folder for recordings: {error}; give another"
                ))
            })?;
            *recorded += 1;
            // A name of the other side's would let it choose a file.
            let when = jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string();
            media.record = Recording::File(folder.join(format!("{when}-{recorded}.wav")));
        }
        Ok(media)
    }

    /// The sound server with the devices of `phone.toml`, as they are now; `None`: no sound card is to be used.
    pub(super) fn audio(&self) -> Option<Result<Audio, Failure>> {
        self.settings.devices.as_ref().map(Audio::find)
    }

    /// The URI with the account's transport; a server understands it without.
    pub(super) fn target(&self, uri: &str) -> String {
        let says_so = uri.to_ascii_lowercase().contains(";transport=");
        if self.settings.account.server.is_some() || says_so {
            return uri.to_owned();
        }
        format!("{uri}{}", self.transport.uri_parameter())
    }
}

/// What a report before the present one counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    received: u64,
    lost: u64,
    deltas_ms: f64,
}

/// The figures of a call's sound; `before` tells the last second from what was before it.
pub(super) fn media_report(report: &Report, before: &mut Counted) -> MediaReport {
    let heard = &report.received;
    let (received, lost) = (heard.counts.received, heard.counts.lost());
    let now = Counted { received, lost, deltas_ms: heard.delta_mean_ms * received as f64 };
    let came = received.saturating_sub(before.received);
    let missed = lost.saturating_sub(before.lost);
    let delta_ms = if came == 0 { 0.0 } else { (now.deltas_ms - before.deltas_ms) / came as f64 };
    let loss = if came + missed == 0 { 0.0 } else { missed as f64 / (came + missed) as f64 };
    *before = now;
    MediaReport {
        sent_packets: report.sent.packets,
        received_packets: received,
        lost_packets: lost,
        delta_ms: delta_ms.max(0.0) as f32,
        delta_ms_max: heard.delta_max_ms as f32,
        jitter_ms: heard.jitter_last_ms as f32,
        jitter_ms_max: heard.jitter_max_ms as f32,
        loss_percent: (100.0 * loss) as f32,
        mos: report.mos.map(|mos| mos as f32),
        auth_failures: report.refused.auth_failures,
        replays: report.refused.replays,
    }
}

/// Where the phone is.
pub(super) fn network_facts(listening: &[Listen]) -> NetworkFacts {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default().into_iter();
    NetworkFacts {
        addresses: interfaces.map(|interface| (interface.name.clone(), interface.ip())).collect(),
        listening: listening
            .iter()
            .map(|listen| (format!("SIP {}", listen.transport.name()), listen.address))
            .collect(),
        timing: String::new(),
    }
}

/// A refusal of an option, told as one of the file.
fn named(file: &Path, failure: &Failure) -> Failure {
    let lines =
        failure.lines().iter().map(|line| format!("{}: {}", file.display(), line.trim_start_matches("--")));
    Failure::usage(lines.collect::<Vec<_>>().join("; "))
}
