//! From the command line to what a phone needs; what is not there yet is refused by name.

use crate::address::{self, facing, facing_or};
use crate::failure::Failure;
use crate::password;
use crate::phone::args::{AccountArgs, PhoneArgs, REPLAY_WINDOW_DEFAULT, TRANSPORTS};
use crate::phone::audio::Audio;
use crate::phone::private_file;
use ringway_agent::{Account, CallerAuth, LargeRequests, Secret, ServerAddress, Trace};
use ringway_audio::pulse::Names;
use ringway_audio::{Input, Source, SourceError};
use ringway_linux::media::PortRange;
use ringway_media::stun;
use ringway_phone::{Digit, SrtpPolicy};
use ringway_sansio::Transport;
use ringway_sdp::{Codec, CryptoSuite};
use ringway_settings::HostPort;
use ringway_sip::{Scheme, Uri};
use ringway_tls::{PeerCa, TlsFiles};
use ringway_transaction::DEFAULT_PORT;
use ringway_ui::phone::escaped_user;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Settings of a phone without a screen.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Account.
    pub(crate) account: Account,
    /// Local address of SIP.
    pub(crate) bind: SocketAddr,
    /// Address that is sent to peers, of the family of `bind`.
    pub(crate) advertised: IpAddr,
    /// Transport of our own requests.
    pub(crate) transport: Transport,
    pub(crate) listening: Listening,
    /// Treatment of requests that do not fit a datagram.
    pub(crate) large_requests: LargeRequests,
    /// Sound of every call.
    pub(crate) media: MediaSettings,
    /// Microphone and loudspeaker to be used; `None`: none.
    pub(crate) devices: Option<Names>,
    /// Timed commands of a call.
    pub(crate) script: ScriptSettings,
    /// A STUN server.
    pub(crate) stun: Option<SocketAddr>,
    /// Passwords of callers; `None`: anybody may call.
    pub(crate) caller_auth: Option<CallerAuth>,
    /// File of the phones of earlier calls.
    pub(crate) zrtp_cache: Option<PathBuf>,
    /// Register first.
    pub(crate) register: bool,
    /// Trace of messages.
    pub(crate) trace: Trace,
    pub(crate) tls: TlsFiles,
}

/// Transports of the listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listening {
    /// UDP and TCP.
    Plain,
    /// UDP, TCP, and TLS or DTLS.
    With(Transport),
    /// TLS, for a `sips:` account: nothing is sent or received without.
    TlsOnly,
}

/// Sound of every call.
#[derive(Clone, Debug)]
pub(crate) struct MediaSettings {
    pub(crate) srtp: SrtpPolicy,
    /// Requested suites; empty: the common ones are offered, all accepted.
    pub(crate) suites: Vec<CryptoSuite>,
    pub(crate) codecs: Vec<Codec>,
    pub(crate) may_downgrade: bool,
    pub(crate) ports: PortRange,
    /// Consecutive ports of the other side that are tried while nobody is heard.
    pub(crate) port_row: u8,
    /// Size of the replay window of SRTP, in packets.
    pub(crate) replay_window: u16,
    pub(crate) input: Input,
    /// Microphone and loudspeaker.
    pub(crate) audio: Option<Audio>,
    pub(crate) record: Recording,
}

/// Recording of the received sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    Nowhere,
    File(PathBuf),
    /// A file for each call in this folder.
    Folder(PathBuf),
    /// So many samples are kept.
    Memory(usize),
}

/// Timed commands of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScriptSettings {
    pub(crate) duration: Option<Duration>,
    pub(crate) dtmf: String,
    pub(crate) hold_at: Vec<Duration>,
    pub(crate) hold: Duration,
    /// Say how the sound is, once a second.
    pub(crate) is_metered: bool,
}

impl Settings {
    /// Of a phone at a free UDP port of 127.0.0.1 that registers at a server there.
    pub(crate) fn at_local_server(account: Account, server: SocketAddr, media: MediaSettings) -> Self {
        let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (host, port) = (server.ip().to_string(), Some(server.port()));
        let server = ServerAddress { host, port, transport: Transport::Udp };
        Self {
            account: Account { server: Some(server), register: true, ..account },
            bind: SocketAddr::new(home, 0),
            advertised: home,
            transport: Transport::Udp,
            listening: Listening::Plain,
            large_requests: LargeRequests::StayOnUdp,
            media,
            devices: None,
            script: ScriptSettings::default(),
            stun: None,
            caller_auth: None,
            zrtp_cache: None,
            register: true,
            trace: Trace::FirstLines,
            tls: TlsFiles::default(),
        }
    }

    /// Of `ringway call`.
    pub(crate) fn for_call(args: &PhoneArgs, uri: &str, from: Option<&str>) -> Result<Self, Failure> {
        Self::for_target("the URI to call", args, uri, from)
    }

    fn for_target(what: &str, args: &PhoneArgs, uri: &str, from: Option<&str>) -> Result<Self, Failure> {
        let target = read_uri(what, uri)?;
        args.record.as_deref().map_or(Ok(()), check_recording)?;
        let peer = match &args.account.server {
            Some(server) => address::parse(server)?,
            None => HostPort { host: target.host.clone(), port: target.port },
        };
        let in_uri = target.transport;
        Self::new(args, from, &peer, in_uri, 0)
    }

    /// Of `ringway options`.
    pub(crate) fn for_options(args: AccountArgs, uri: &str, from: Option<&str>) -> Result<Self, Failure> {
        // With an address of this machine, a server of this domain would take the sender for one of its users.
        Self::for_target(
            "the URI to ask",
            &PhoneArgs { account: args, ..PhoneArgs::default() },
            uri,
            from.or(Some(ANONYMOUS)),
        )
    }

    /// Of `ringway answer`.
    pub(crate) fn for_answer(args: &PhoneArgs, aor: &str) -> Result<Self, Failure> {
        let own = read_uri("--as", aor)?;
        let (peer, port) = match &args.account.server {
            Some(server) => (address::parse(server)?, 0),
            None => {
                let default = if is_sips(aor) { Transport::Tls.default_port() } else { DEFAULT_PORT };
                (HostPort { host: own.host, port: own.port }, own.port.unwrap_or(default))
            }
        };
        Self::new(args, Some(aor), &peer, None, port)
    }

    fn new(
        args: &PhoneArgs,
        aor: Option<&str>,
        peer: &HostPort,
        transport_in_uri: Option<Transport>,
        port: u16,
    ) -> Result<Self, Failure> {
        let is_sips = aor.is_some_and(is_sips);
        let default = if is_sips { Transport::Tls } else { Transport::Udp };
        let transport = args.account.transport.or(transport_in_uri).unwrap_or(default);
        if is_sips && transport != Transport::Tls {
            return Err(Failure::usage(format!(
                "--transport {}: a sips: address needs TLS on every hop; leave it out, or use the sip: address",
                transport.name()
            )));
        }
        if !transport.is_secure() && (args.account.ca.is_some() || args.account.certificate.is_some()) {
            let option = if args.account.ca.is_some() { "--ca" } else { "--certificate" };
            return Err(Failure::usage(format!("{option} is for TLS; add --transport tls, or leave it out")));
        }
        let media = MediaSettings::new(args)?;
        let script = ScriptSettings::new(args)?;
        let towards = facing(peer);
        let (bind, advertised) = match args.account.bind {
            Some(bind) if bind.ip().is_unspecified() => (bind, towards?),
            Some(bind) => (bind, bind.ip()),
            None => {
                // A phone that waits for direct calls has no peer yet; its own name may be no address of this machine.
                let ip = match args.account.server {
                    Some(_) => towards?,
                    None => facing_or(towards, || facing(&address::outside()))?,
                };
                (SocketAddr::new(ip, port), ip)
            }
        };
        if bind.is_ipv4() != advertised.is_ipv4() {
            return Err(Failure::usage(format!(
                "--bind {bind} cannot reach {}: one is IPv4, the other IPv6; bind an address of the same family",
                peer.host
            )));
        }
        let stun = args.stun.as_deref().map(stun_address).transpose()?;
        Ok(Self {
            account: account(args, aor, advertised, transport)?,
            bind,
            advertised,
            transport,
            listening: match transport {
                _ if is_sips => Listening::TlsOnly,
                transport if transport.is_secure() => Listening::With(transport),
                _ => Listening::Plain,
            },
            large_requests: match args.account.transport {
                Some(Transport::Udp) => LargeRequests::StayOnUdp,
                Some(_) | None => LargeRequests::SwitchToTcp,
            },
            media,
            devices: args.devices(),
            script,
            stun,
            caller_auth: None,
            zrtp_cache: args.zrtp_cache.clone(),
            register: args.register,
            trace: if args.account.trace { Trace::FirstLines } else { Trace::Off },
            tls: tls_files(&args.account)?,
        })
    }
}

impl Default for MediaSettings {
    /// Settings of a call without options: silence is sent, nothing is recorded.
    fn default() -> Self {
        Self {
            srtp: SrtpPolicy::default(),
            suites: Vec::new(),
            codecs: vec![Codec::Pcmu, Codec::Pcma],
            may_downgrade: false,
            ports: PortRange::default(),
            port_row: 0,
            replay_window: REPLAY_WINDOW_DEFAULT,
            input: Input::Source(Source::silence()),
            audio: None,
            record: Recording::Nowhere,
        }
    }
}

impl MediaSettings {
    fn new(args: &PhoneArgs) -> Result<Self, Failure> {
        let srtp = args.srtp.unwrap_or_default();
        if args.zrtp_cache.is_some() && !srtp.uses_zrtp() {
            return Err(Failure::usage("--zrtp-cache is for ZRTP; leave it out, or use --srtp zrtp"));
        }
        Ok(Self {
            srtp,
            suites: suites(&args.suite, srtp)?,
            codecs: if args.codec.is_empty() { vec![Codec::Pcmu, Codec::Pcma] } else { args.codec.clone() },
            may_downgrade: args.allow_downgrade,
            ports: args.rtp_ports,
            port_row: args.port_row,
            replay_window: args.replay_window,
            input: input(args)?,
            audio: None,
            record: args.record.clone().map_or(Recording::Nowhere, Recording::File),
        })
    }
}

impl Settings {
    /// The URI with the account's transport; a server needs no such parameter.
    pub(crate) fn target(&self, uri: &str) -> String {
        if self.account.server.is_some() || is_sips(uri) {
            return uri.to_owned();
        }
        with_transport(uri, self.transport)
    }

    /// The same with the sound server and the devices looked up, where a sound card is to be used.
    pub(crate) fn with_audio(mut self) -> Result<Self, Failure> {
        self.media.audio = self.devices.as_ref().map(Audio::find).transpose()?;
        Ok(self)
    }
}

impl ScriptSettings {
    fn new(args: &PhoneArgs) -> Result<Self, Failure> {
        let given = args.dtmf.as_deref().unwrap_or_default();
        if let Some(wrong) = given.chars().find(|c| Digit::new(c.to_ascii_uppercase()).is_none()) {
            return Err(Failure::usage(format!("--dtmf {given}: {wrong:?} is no key; give 0-9, *, #, A-D")));
        }
        let dtmf = given.to_ascii_uppercase();
        if dtmf.len() > DIGITS_MAX {
            return Err(Failure::usage(format!("--dtmf: more than {DIGITS_MAX} digits; send fewer")));
        }
        let mut hold_at: Vec<Duration> = args.hold_at.iter().copied().map(Duration::from_secs_f64).collect();
        hold_at.sort_unstable();
        Ok(Self {
            duration: args.duration.map(Duration::from_secs_f64),
            dtmf,
            hold_at,
            hold: Duration::from_secs_f64(args.hold_s),
            is_metered: args.meter,
        })
    }
}

/// A URI's parts that a phone looks at before it calls.
struct Target {
    host: String,
    port: Option<u16>,
    transport: Option<Transport>,
}

/// Files of TLS that the arguments name.
fn tls_files(args: &AccountArgs) -> Result<TlsFiles, Failure> {
    Ok(TlsFiles {
        certificate: args.certificate.clone().zip(args.private_key.clone()),
        peer_ca: args.ca.clone().map_or(PeerCa::System, PeerCa::File),
        offer: args.tls.offer()?,
        ..TlsFiles::default()
    })
}

/// True for a `sips:` URI.
/// A URI with a transport, which is its own if it has one.
fn with_transport(uri: &str, transport: Transport) -> String {
    let Ok(parsed) = Uri::parse(uri.as_bytes()) else { return uri.to_owned() };
    if parsed.params().has(b"transport") {
        return uri.to_owned();
    }
    // A question mark and the headers follow the parameters.
    let headers = parsed.headers().len();
    let end = if headers > 0 { uri.len().saturating_sub(headers + 1) } else { uri.len() };
    let (bare, headers) = uri.split_at_checked(end).unwrap_or((uri, ""));
    format!("{bare}{}{headers}", transport.uri_parameter())
}

pub(crate) fn is_sips(uri: &str) -> bool {
    Uri::parse(uri.as_bytes()).is_ok_and(|uri| uri.scheme() == Scheme::Sips)
}

fn read_uri(what: &str, text: &str) -> Result<Target, Failure> {
    let wrong =
        |why: &str| Failure::usage(format!("{what}: {text:?} {why}; write for example sip:bob@example.org"));
    if let Some(escaped) = escaped_user(text) {
        return Err(Failure::usage(format!("{what}: {text:?}: a user part is ASCII; write {escaped}")));
    }
    let uri = Uri::parse(text.as_bytes()).map_err(|_| wrong("is no URI"))?;
    match uri.scheme() {
        Scheme::Sip | Scheme::Sips => {}
        Scheme::Tel | Scheme::Other => return Err(wrong("is no SIP URI")),
    }
    let is_sips = uri.scheme() == Scheme::Sips;
    let transport = match uri.params().value(b"transport") {
        None if !is_sips => None,
        parameter => match Transport::of_uri(is_sips, parameter) {
            Some(transport) if TRANSPORTS.contains(&transport) => Some(transport),
            Some(_) | None => return Err(wrong("names a transport that is not supported")),
        },
    };
    Ok(Target {
        host: String::from_utf8_lossy(uri.host().as_bytes()).into_owned(),
        port: uri.port(),
        transport,
    })
}

fn account(
    args: &PhoneArgs,
    aor: Option<&str>,
    advertised: IpAddr,
    transport: Transport,
) -> Result<Account, Failure> {
    let own = match aor {
        Some(aor) => {
            read_uri("the own URI", aor)?;
            aor.to_owned()
        }
        None => match advertised {
            IpAddr::V4(v4) => format!("sip:ringway@{v4}"),
            IpAddr::V6(v6) => format!("sip:ringway@[{v6}]"),
        },
    };
    let secret = if args.account.password_stdin {
        let password = password::from_stdin()?;
        if password.is_empty() {
            return Err(Failure::usage("the password on standard input is empty; write it there"));
        }
        Secret::Password(password)
    } else {
        Secret::None
    };
    let server = match &args.account.server {
        None => None,
        Some(server) => {
            let HostPort { host, port } = address::parse(server)?;
            Some(ServerAddress { host, port, transport })
        }
    };
    Ok(Account {
        peer_credentials: private_file::for_peer(&args.account, &own)?.into_iter().collect(),
        username: args.account.username.clone(),
        secret,
        realm: args.account.realm.clone(),
        instance: args.account.instance.clone(),
        server,
        register: args.register,
        ..Account::direct(&own)
    })
}

fn suites(names: &[String], srtp: SrtpPolicy) -> Result<Vec<CryptoSuite>, Failure> {
    let known = || CryptoSuite::ALL.map(CryptoSuite::name).join(", ");
    let one = |name: &String| {
        CryptoSuite::from_name(name)
            .ok_or_else(|| Failure::usage(format!("--suite {name}: no such suite; there are {}", known())))
    };
    if !names.is_empty() && matches!(srtp, SrtpPolicy::None | SrtpPolicy::Zrtp) {
        return Err(Failure::usage(
            "--suite is for SDES and DTLS; leave it out, or use --srtp sdes or --srtp dtls",
        ));
    }
    let suites: Vec<CryptoSuite> = names.iter().map(one).collect::<Result<_, _>>()?;
    if srtp == SrtpPolicy::Dtls
        && let Some(other) = suites.iter().find(|suite| !ringway_dtls::Identity::SUITES.contains(suite))
    {
        let known = ringway_dtls::Identity::SUITES.map(CryptoSuite::name).join(", ");
        let name = other.name();
        return Err(Failure::usage(format!("--suite {name}: DTLS-SRTP has no profile for it; give {known}")));
    }
    Ok(suites)
}

fn input(args: &PhoneArgs) -> Result<Input, Failure> {
    let has_microphone = args.devices().is_some();
    match (args.play.as_deref(), has_microphone) {
        (None | Some("microphone"), true) => Ok(Input::Microphone),
        (Some("microphone"), false) => Err(Failure::usage("--play microphone needs --audio; add it")),
        (None, false) => Ok(Input::Source(Source::silence())),
        (Some(text), _) => source(text).map(Input::Source),
    }
}

/// Checks that the folder of a recording exists.
fn check_recording(file: &Path) -> Result<(), Failure> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => Err(Failure::usage(format!(
            "--record {}: its folder does not exist; give a file that can be written",
            file.display()
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Sound that is sent, as `--play` and `play` name it.
pub(crate) fn source(text: &str) -> Result<Source, Failure> {
    let wrong = |error: SourceError| Failure::usage(format!("--play {error}"));
    match text {
        "silence" => Ok(Source::silence()),
        "speech" => Ok(Source::speech_like()),
        _ => match text.strip_prefix("tone:") {
            Some(frequency) => {
                let frequency = frequency.strip_suffix("Hz").unwrap_or(frequency).parse().map_err(|_| {
                    Failure::usage(format!("--play {text}: write the tone in hertz, like tone:440"))
                })?;
                Source::tone(frequency).map_err(wrong)
            }
            None => Source::wav(Path::new(text)).map_err(wrong),
        },
    }
}

fn stun_address(text: &str) -> Result<SocketAddr, Failure> {
    let HostPort { host, port } = address::parse(text)?;
    address::resolve(&HostPort { host, port: Some(port.unwrap_or(stun::DEFAULT_PORT)) })
}

/// Sender of OPTIONS without `--from` (RFC 3323 §4.1.1.3).
const ANONYMOUS: &str = "sip:anonymous@anonymous.invalid";

/// More than any service asks for.
const DIGITS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_is_added_before_the_headers_of_a_uri() {
        let tcp = |uri: &str| with_transport(uri, Transport::Tcp);
        assert_eq!(tcp("sip:b@h"), "sip:b@h;transport=tcp");
        assert_eq!(
            tcp("sip:b@h;lr?Subject=a;transport=udp"),
            "sip:b@h;lr;transport=tcp?Subject=a;transport=udp"
        );
        assert_eq!(tcp("sip:b@h;Transport=UDP?Subject=a"), "sip:b@h;Transport=UDP?Subject=a");
    }
}
