//! The command line of `ringway call` and `ringway answer`.

use crate::tls_args::TlsArgs;
use clap::Args as ClapArgs;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ringway_audio::SAMPLE_RATE_HZ;
use ringway_audio::pulse::Names;
use ringway_linux::media::PortRange;
use ringway_media::session::PortRow;
use ringway_phone::SrtpPolicy;
use ringway_sansio::Transport;
use ringway_sdp::Codec;
use ringway_srtp::SrtpSettings;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

/// Arguments of `ringway call`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Without --server it calls the host in the URI itself; no server is needed.

Examples:
  ringway call sip:bob@192.0.2.7 --audio
  ringway call sip:bob@192.0.2.7 --play tone:440 --record heard.wav --duration 10
  echo \"$PASSWORD\" | ringway call sip:bob@example.org --server 127.0.0.1:5060 \\
      --from sip:alice@example.org --password-stdin --srtp sdes --duration 10 --json
  echo \"$PASSWORD\" | ringway call sip:600@192.0.2.5 --server 192.0.2.5 --realm asterisk \\
      --from sip:alice@192.0.2.5 --password-stdin --duration 10
  ringway call sip:bob@192.0.2.7 --peer-realm bob@192.0.2.7 --peer-password-file bob.password
  ringway call sip:bob@192.0.2.7 --stun stun.example.org --port-row 8 --replay-window 256

Exit status: 0 the call was answered, 1 it was not, or no sound came, 2 bad usage.")]
pub(crate) struct CallArgs {
    /// Whom to call: a SIP URI
    pub(crate) uri: String,
    /// SIP URI of the caller (default: sip:ringway@ and this machine's address)
    #[arg(long, value_name = "URI")]
    pub(crate) from: Option<String>,
    /// Give up after so many seconds without an answer
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) ring_s: u16,
    #[command(flatten)]
    pub(crate) phone: PhoneArgs,
}

/// Arguments of `ringway answer`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "It says `ready` and its addresses on standard error when it can be called.

Examples:
  ringway answer --as sip:bob@192.0.2.7 --audio --ring-s 5
  ringway answer --as sip:bob@192.0.2.7 --record heard.wav --count 1
  echo \"$PASSWORD\" | ringway answer --as sip:bob@example.org --register \\
      --server 127.0.0.1:5060 --password-stdin --play tone:600 --json
  echo \"$PASSWORD\" | ringway answer --as sip:alice@192.0.2.5 --register \\
      --server 192.0.2.5 --realm asterisk --password-stdin
  ringway answer --as sip:bob@192.0.2.7 --challenge callers.csv

Exit status: 0 done: each call was answered, rejected by --reject, or cancelled by its caller;
1 a call or the registration failed, or no sound came; 2 bad usage.")]
pub(crate) struct AnswerArgs {
    /// SIP URI of the callee
    #[arg(long = "as", value_name = "URI")]
    pub(crate) aor: String,
    /// Exit after so many calls (default: go on until SIGTERM)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    /// Let it ring so many seconds before answering
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) ring_s: u16,
    /// Challenge callers with 401. FILE lists the users who may call, as `ringway user import` takes it, with the header
    /// username,password; nobody else may read it (mode 600). The realm is USER@HOST of --as
    #[arg(long, value_name = "FILE")]
    pub(crate) challenge: Option<PathBuf>,
    /// Refuse calls with this status instead of answering
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(400..700))]
    pub(crate) reject: Option<u16>,
    #[command(flatten)]
    pub(crate) phone: PhoneArgs,
}

/// Arguments of `ringway options`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "It prints the status, Allow, Supported, Accept, User-Agent and the round-trip time.
Without --server the request goes to the host in the URI. Without a response it
fails after 32 s, or within a second if the port is closed.

Examples:
  ringway options sip:192.0.2.5
  ringway options sip:bob@192.0.2.7:5062 --transport tcp --json
  echo \"$PASSWORD\" | ringway options sip:bob@example.org --server 192.0.2.5 \\
      --from sip:alice@example.org --password-stdin

Exit status: 0 answered with 2xx, 1 refused or not answered, 2 bad usage.")]
pub(crate) struct OptionsArgs {
    /// SIP URI to send OPTIONS to
    pub(crate) uri: String,
    /// SIP URI of the sender (default: sip:anonymous@anonymous.invalid, which no server has as its user)
    #[arg(long, value_name = "URI")]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) account: AccountArgs,
}

/// Arguments of `ringway audio`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "The names are what --audio-in, --audio-out and [audio] in phone.toml take.

Examples:
  ringway audio
  ringway call sip:bob@192.0.2.7 --audio-in NAME --audio-out NAME

Exit status: 0 done, 1 there is no sound server.")]
pub(crate) struct AudioArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ringway demo`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "It needs no set-up: everything is in this process, on free ports of 127.0.0.1, and gone afterwards."
)]
pub(crate) struct DemoArgs {
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Account, transport and output of `call`, `answer` and `options`.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct AccountArgs {
    /// Read the password from the first line of standard input
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// The name for digest authentication (default: the user of the URI)
    #[arg(long, value_name = "NAME")]
    pub(crate) username: Option<String>,
    /// Answer only challenges of this realm (default: the realm that the server asks for at the registration; without
    /// a registration the account's domain or the server's host)
    #[arg(long, value_name = "REALM", value_parser = realm)]
    pub(crate) realm: Option<String>,
    /// Name of this phone, as urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF: its registration replaces the earlier one of the
    /// same name, and keeps its path through a NAT open (RFC 5626)
    #[arg(long, value_name = "URN", value_parser = instance)]
    pub(crate) instance: Option<String>,
    /// Send everything to this server first
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) server: Option<String>,
    /// Answer challenges of the called phone, which have this realm, with the password of --peer-password-file; without it
    /// no called phone gets an answer
    #[arg(long, value_name = "REALM", value_parser = realm, requires = "peer_password_file")]
    pub(crate) peer_realm: Option<String>,
    /// The password for --peer-realm: the first line of FILE, which nobody else may read (mode 600)
    #[arg(long, value_name = "FILE", requires = "peer_realm")]
    pub(crate) peer_password_file: Option<PathBuf>,
    /// The user name for --peer-realm (default: the user of the URI)
    #[arg(long, value_name = "NAME", requires = "peer_realm")]
    pub(crate) peer_username: Option<String>,
    /// Transport of SIP (default: udp, or the one of the URI; requests over 1,300 bytes by tcp where that is possible)
    #[arg(long, value_name = "TRANSPORT", value_parser = transport())]
    pub(crate) transport: Option<Transport>,
    /// Local address of SIP; port 0 takes a free one (default: the address towards the peer; answer: port 5060 without a
    /// server)
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) bind: Option<SocketAddr>,
    /// Certificate authorities of TLS and DTLS servers, PEM (default: those of the operating system)
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Certificate chain for TLS servers that ask for one, PEM
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Private key of --certificate, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) private_key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Print each SIP message's first line to standard error
    #[arg(long)]
    pub(crate) trace: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of both `call` and `answer`.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct PhoneArgs {
    #[command(flatten)]
    pub(crate) account: AccountArgs,
    /// Register at --server before anything else
    #[arg(long, requires = "server")]
    pub(crate) register: bool,
    /// Required protection of the sound (default: SRTP if the other side can; a phone that refuses that offer is called once
    /// more with SRTP alone)
    #[arg(long, value_name = "METHOD", value_parser = srtp())]
    pub(crate) srtp: Option<SrtpPolicy>,
    /// The SRTP suite; again for others, the one liked best first (default: offers the three
    /// best known, takes all)
    #[arg(long, value_name = "SUITE")]
    pub(crate) suite: Vec<String>,
    /// Remember other phones' ZRTP secrets in this file, made at the first call: somebody in between later is noticed
    /// (default: every call is the first one)
    #[arg(long, value_name = "FILE")]
    pub(crate) zrtp_cache: Option<PathBuf>,
    /// Let the other side take the protection away during the call
    #[arg(long)]
    pub(crate) allow_downgrade: bool,
    /// The codec; again for others, the one liked best first (default: PCMU, PCMA)
    #[arg(long, value_name = "CODEC", ignore_case = true, value_parser = codec())]
    pub(crate) codec: Vec<Codec>,
    /// Use the microphone and the loudspeaker of this session's sound server (PulseAudio or PipeWire), and ring there
    #[arg(long)]
    pub(crate) audio: bool,
    /// The microphone, as `ringway audio` lists it; means --audio
    #[arg(long, value_name = "NAME")]
    pub(crate) audio_in: Option<String>,
    /// The loudspeaker, as `ringway audio` lists it; means --audio
    #[arg(long, value_name = "NAME")]
    pub(crate) audio_out: Option<String>,
    /// Sound to send: FILE.wav (PCM, floating point, µ-law or A-law) once, tone:HZ, speech, silence, or microphone (default: microphone with --audio, else
    /// silence)
    #[arg(long, value_name = "WHAT")]
    pub(crate) play: Option<String>,
    /// Write what is received after the answer to a 16-bit WAV file; `answer` numbers those of further calls: heard.wav,
    /// heard-2.wav
    #[arg(long, value_name = "FILE.wav")]
    pub(crate) record: Option<PathBuf>,
    /// Hang up so many seconds after the answer (default: when the other side does, or on SIGTERM)
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<f64>,
    /// Send these digits after the answer: 0-9, *, #, A-D
    #[arg(long, value_name = "DIGITS")]
    pub(crate) dtmf: Option<String>,
    /// Put the call on hold so many seconds after the answer; several with commas
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', value_parser = seconds)]
    pub(crate) hold_at: Vec<f64>,
    /// Duration of each hold
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(crate) hold_s: f64,
    /// Ports for sound: a range with an even port and the next one in it
    #[arg(long, value_name = "A-B", default_value_t = PortRange::default())]
    pub(crate) rtp_ports: PortRange,
    /// Ask this STUN server for the address to be given for sound
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) stun: Option<String>,
    /// While nobody is heard, send sound also to the N ports after the one that the other side named: for a NAT on its side
    /// that counts its ports up
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = port_row)]
    pub(crate) port_row: u8,
    /// Packets behind the newest one that SRTP still takes, each once (RFC 3711)
    #[arg(long, value_name = "N", default_value_t = REPLAY_WINDOW_DEFAULT, value_parser = replay_window)]
    pub(crate) replay_window: u16,
    /// Say how the sound is, once a second, on standard error
    #[arg(long)]
    pub(crate) meter: bool,
}

impl PhoneArgs {
    /// The chosen devices; `None` where no sound card is to be used.
    pub(crate) fn devices(&self) -> Option<Names> {
        let devices = Names { microphone: self.audio_in.clone(), loudspeaker: self.audio_out.clone() };
        (self.audio || devices != Names::default()).then_some(devices)
    }
}

/// Transports of the phone.
pub(crate) const TRANSPORTS: [Transport; 4] =
    [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Dtls];

fn transport() -> impl TypedValueParser<Value = Transport> {
    let known = TRANSPORTS.map(|transport| PossibleValue::new(transport.name()));
    let of_phones = |name: &str| Transport::from_name(name).filter(|found| TRANSPORTS.contains(found));
    words(known, ["ws", "wss"], "use udp, tcp, tls or dtls", of_phones)
}

fn srtp() -> impl TypedValueParser<Value = SrtpPolicy> {
    let known = [
        PossibleValue::new("none").help("Nothing may"),
        PossibleValue::new("sdes").help("Keys carried by SIP: as secret as SIP itself is"),
        PossibleValue::new("zrtp").help("Keys agreed on by the two phones, with words to compare"),
        PossibleValue::new("dtls")
            .help("Keys agreed on by the two phones, with certificates that SIP vouches for"),
    ];
    words(known, [], "use sdes, zrtp or dtls", |word| word.parse().ok())
}

fn codec() -> impl TypedValueParser<Value = Codec> {
    let known = [Codec::Pcmu, Codec::Pcma].map(|codec| PossibleValue::new(codec.name()));
    words(known, ["G722", "opus"], "use PCMU or PCMA", |name| Codec::from_name(name, SAMPLE_RATE_HZ))
}

/// Parser of one of the `known` words. Those of later versions are recognized, but not in the help.
fn words<T: Clone + Send + Sync + 'static>(
    known: impl IntoIterator<Item = PossibleValue>,
    later: impl IntoIterator<Item = &'static str>,
    instead: &'static str,
    read: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    let later = later.into_iter().map(|word| PossibleValue::new(word).hide(true));
    PossibleValuesParser::new(known.into_iter().chain(later))
        .try_map(move |word| read(&word).ok_or_else(|| format!("it is not supported yet; {instead}")))
}

/// A realm as digest authentication writes it, without the quotes around it.
pub(crate) fn realm(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > REALM_BYTES_MAX || text.contains(char::is_control) {
        return Err(format!("give 1 to {REALM_BYTES_MAX} bytes without control characters"));
    }
    Ok(text.to_owned())
}

/// An instance as RFC 5626 §4.1 has it, without the brackets around it.
pub(crate) fn instance(text: &str) -> Result<String, String> {
    match ringway_agent::is_instance(text) {
        true => Ok(text.to_owned()),
        false => Err("give a URN, as urn:uuid: and what `uuidgen` prints".into()),
    }
}

/// Number of ports of a row.
fn port_row(text: &str) -> Result<u8, String> {
    number_within(text, PORT_ROW)
}

/// Number of packets of a replay window.
fn replay_window(text: &str) -> Result<u16, String> {
    number_within(text, REPLAY_WINDOW)
}

fn number_within<T: FromStr + PartialOrd + Display>(
    text: &str,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("give a number from {} to {}", range.start(), range.end()))
}

/// Lengths of a row of ports.
pub(crate) const PORT_ROW: RangeInclusive<u8> = 0..=PortRow::PORTS_MAX;
/// Sizes of a replay window in packets.
pub(crate) const REPLAY_WINDOW: RangeInclusive<u16> =
    REPLAY_WINDOW_DEFAULT..=SrtpSettings::WINDOW_PACKETS_MAX as u16;
/// Size of the replay window: the smallest that RFC 3711 §3.3.2 allows.
pub(crate) const REPLAY_WINDOW_DEFAULT: u16 = SrtpSettings::WINDOW_PACKETS_MIN as u16;

/// As many as `auth.realm` of the server may have.
const REALM_BYTES_MAX: usize = 255;

/// Seconds, 0 to a day; parts of a second too.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        Ok(_) | Err(_) => Err("give seconds from 0 to 86400, like 10 or 0.5".to_owned()),
    }
}
