//! The phone's settings: words of the command line, each `key=value`.

use super::source::Source;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::ops::RangeInclusive;
use core::str::FromStr;
use ringway_media::session::PortRow;
use ringway_phone::SrtpPolicy;
use ringway_sansio::Transport;
use ringway_settings::{Addressing, HostPort, NoHost, split_words};
use ringway_sip::{Scheme, Uri};
use ringway_srtp::SrtpSettings;
use ringway_transaction::DEFAULT_PORT;

/// A checked command line.
#[derive(Clone)]
pub(crate) struct PhoneSettings {
    pub(crate) addressing: Addressing,
    /// `sip:alice@example.org`; `None`: `sip:phone@` and our own address, for direct calls.
    pub(crate) account: Option<String>,
    pub(crate) name: String,
    /// The user name for digest; `None`: the account's.
    pub(crate) auth_user: Option<String>,
    /// The one realm whose challenges are answered; `None`: the one that the server asks for at the registration.
    pub(crate) realm: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) server: Option<HostPort>,
    /// `None`: UDP, and TCP for what does not fit a datagram.
    pub(crate) transport: Option<Transport>,
    /// `None`: where there is a server or a password.
    pub(crate) register: Option<bool>,
    pub(crate) srtp: SrtpPolicy,
    /// `None`: the microphone where there is one and a person answers, else the recorded voice.
    pub(crate) source: Option<Source>,
    pub(crate) answer: Answer,
    pub(crate) stun: Option<HostPort>,
    /// By which address others reach us, where a router leads our ports there. Its port is SIP's.
    pub(crate) outside: Option<SocketAddrV4>,
    /// Port of SIP.
    pub(crate) sip_port: u16,
    /// Port of RTP; RTCP uses the next one.
    pub(crate) rtp_port: u16,
    /// Consecutive ports of the other side that are tried while nobody is heard.
    pub(crate) port_row: u8,
    /// Size of the replay window of SRTP, in packets.
    pub(crate) replay_window: usize,
    /// URIs of the quick dial keys `1` to `9`; empty: none.
    pub(crate) quick: Vec<String>,
}

/// Answering of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The machine, at once.
    Auto,
    /// Somebody with a key.
    Ask,
}

/// A word that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongWord {
    word: String,
    why: String,
}

impl fmt::Display for WrongWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command line: {}: {}", self.word, self.why)
    }
}

impl Default for PhoneSettings {
    fn default() -> Self {
        Self {
            addressing: Addressing::Dhcp,
            account: None,
            name: String::new(),
            auth_user: None,
            realm: None,
            password: None,
            server: None,
            transport: None,
            register: None,
            srtp: SrtpPolicy::Best,
            source: None,
            answer: Answer::Ask,
            stun: None,
            outside: None,
            sip_port: DEFAULT_PORT,
            rtp_port: RTP_PORT,
            port_row: 0,
            replay_window: SrtpSettings::WINDOW_PACKETS_MIN,
            quick: Vec::new(),
        }
    }
}

impl PhoneSettings {
    /// Reads the words but those that the image takes itself. All that are wrong are given.
    pub(crate) fn read(command_line: &str, not_ours: &[&str]) -> Result<Self, Vec<WrongWord>> {
        let mut settings = Self::default();
        let mut network = NetworkWords::default();
        let mut wrong = Vec::new();
        for word in split_words(command_line) {
            let (key, value) = word.split_once('=').unwrap_or((&word, ""));
            if not_ours.contains(&key) {
                continue;
            }
            let taken = match settings.take(key, value) {
                Ok(()) => Ok(true),
                Err(Refused::Unknown) => network.take(key, value),
                Err(Refused::Wrong(why)) => Err(why.to_string()),
            };
            let why = match taken {
                Ok(true) => continue,
                Ok(false) => UNKNOWN.to_string(),
                Err(why) => why,
            };
            // A password is not repeated.
            let word = if key == "password" { "password=...".to_string() } else { word };
            wrong.push(WrongWord { word, why });
        }
        match network.addressing() {
            Ok(addressing) => settings.addressing = addressing,
            Err(why) => wrong.push(WrongWord { word: "gateway or dns".to_string(), why }),
        }
        if wrong.is_empty() { Ok(settings) } else { Err(wrong) }
    }

    /// True when the server is to know where we are.
    pub(crate) fn registers(&self) -> bool {
        let is_possible = self.account.is_some() && (self.server.is_some() || self.password.is_some());
        self.register.unwrap_or(is_possible)
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), Refused> {
        match key {
            "account" => self.account = Some(account(value)?),
            "name" => self.name = value.to_string(),
            "user" => self.auth_user = Some(value.to_string()),
            "realm" => {
                if value.is_empty() {
                    return Err(Refused::Wrong("is empty; give the realm that the server asks for"));
                }
                self.realm = Some(value.to_string());
            }
            "password" => {
                if value.is_empty() {
                    return Err(Refused::Wrong("is empty; leave it out where there is none"));
                }
                self.password = Some(value.to_string());
            }
            "server" => self.server = Some(host_port(value)?),
            "stun" => self.stun = Some(host_port(value)?),
            "transport" => {
                let words =
                    [Transport::Udp, Transport::Tcp].map(|transport| (transport.name(), Some(transport)));
                self.transport = one_of(value, &words, "give udp or tcp; there is no TLS")?;
            }
            "register" => {
                let words = [("on", Some(true)), ("off", Some(false))];
                self.register = one_of(value, &words, "give on or off")?;
            }
            "srtp" => {
                let words = SrtpPolicy::ALL.map(|srtp| (srtp.name(), srtp));
                let srtp = one_of(value, &words, "give best, sdes, zrtp or none")?;
                if srtp == SrtpPolicy::Dtls {
                    let why = "needs DTLS, which this image does not have; give best, sdes, zrtp or none";
                    return Err(Refused::Wrong(why));
                }
                self.srtp = srtp;
            }
            "answer" => {
                let words = [("auto", Answer::Auto), ("ask", Answer::Ask)];
                self.answer = one_of(value, &words, "give auto or ask")?;
            }
            "source" => self.source = Some(source(value)?),
            "outside" => self.outside = Some(outside(value)?),
            "sip" => self.sip_port = port(value)?,
            "rtp" => {
                self.rtp_port = port(value)?;
                if !self.rtp_port.is_multiple_of(2) {
                    return Err(Refused::Wrong("RTP has an even port and RTCP the next one (RFC 3550 §11)"));
                }
            }
            "port-row" => self.port_row = within(value, &(0..=PortRow::PORTS_MAX), "give 0 to 64 ports")?,
            "replay-window" => {
                let range = SrtpSettings::WINDOW_PACKETS_MIN..=SrtpSettings::WINDOW_PACKETS_MAX;
                self.replay_window = within(value, &range, "give 64 to 32768 packets")?;
            }
            _ => return self.take_quick(key, value),
        }
        Ok(())
    }

    fn take_quick(&mut self, key: &str, value: &str) -> Result<(), Refused> {
        let digit = key.strip_prefix("dial").and_then(|digit| digit.parse::<usize>().ok());
        let Some(digit @ 1..=QUICK_MAX) = digit else { return Err(Refused::Unknown) };
        let uri = sip_uri(value)?;
        if self.quick.len() < digit {
            self.quick.resize(digit, String::new());
        }
        if let Some(place) = self.quick.get_mut(digit - 1) {
            *place = uri;
        }
        Ok(())
    }
}

/// Words about the address.
#[derive(Debug, Default)]
struct NetworkWords {
    ip: Option<Addressing>,
    gateway: Option<Ipv4Addr>,
    name_servers: Option<Vec<Ipv4Addr>>,
}

impl NetworkWords {
    /// Takes a word. False: it is none of these.
    fn take(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "ip" => self.ip = Some(ringway_settings::addressing(value)?),
            "gateway" => self.gateway = Some(ringway_settings::host(value)?),
            "dns" => {
                let servers = value.split(',').map(ringway_settings::host);
                self.name_servers = Some(servers.collect::<Result<_, _>>()?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn addressing(self) -> Result<Addressing, String> {
        let mut addressing = self.ip.unwrap_or(Addressing::Dhcp);
        self.gateway.map_or(Ok(()), |gateway| addressing.set_gateway(gateway))?;
        self.name_servers.map_or(Ok(()), |servers| addressing.set_name_servers(servers))?;
        Ok(addressing)
    }
}

/// Reason for which a word was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is none of ours.
    Unknown,
    Wrong(&'static str),
}

fn one_of<T: Copy>(value: &str, words: &[(&str, T)], why: &'static str) -> Result<T, Refused> {
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or(Refused::Wrong(why))
}

fn sip_uri(text: &str) -> Result<String, Refused> {
    match Uri::parse(text.as_bytes()) {
        Ok(uri) if uri.scheme() == Scheme::Sip && uri.headers().is_empty() => Ok(text.to_string()),
        Ok(_) | Err(_) => Err(Refused::Wrong("is no SIP address; give it as sip:bob@example.org")),
    }
}

fn account(text: &str) -> Result<String, Refused> {
    let uri = sip_uri(text)?;
    if !text.contains('@') {
        return Err(Refused::Wrong("has no user; give it as sip:alice@example.org"));
    }
    Ok(uri)
}

fn source(text: &str) -> Result<Source, Refused> {
    let wrong = Refused::Wrong("give microphone, tone:HZ (1 to 3999), echo or voice");
    match text {
        "microphone" => Ok(Source::Microphone),
        "echo" => Ok(Source::Echo),
        "voice" => Ok(Source::voice()),
        _ => {
            let frequency = text.strip_prefix("tone:").and_then(|hertz| hertz.parse().ok());
            frequency.and_then(Source::tone).ok_or(wrong)
        }
    }
}

fn outside(text: &str) -> Result<SocketAddrV4, Refused> {
    let with_port = text.parse().or_else(|_| text.parse().map(|ip| SocketAddrV4::new(ip, DEFAULT_PORT)));
    let usable = |at: &SocketAddrV4| at.port() != 0 && !at.ip().is_unspecified();
    with_port
        .ok()
        .filter(usable)
        .ok_or(Refused::Wrong("give the ADDRESS or ADDRESS:PORT by which others reach this phone"))
}

fn host_port(text: &str) -> Result<HostPort, Refused> {
    text.parse().map_err(|NoHost| Refused::Wrong("is no host; write HOST or HOST:PORT"))
}

fn port(text: &str) -> Result<u16, Refused> {
    let number = text.parse().ok().filter(|port| *port > 0 && *port < u16::MAX);
    number.ok_or(Refused::Wrong("give a port, 1 to 65534"))
}

fn within<T: FromStr + PartialOrd>(
    text: &str,
    range: &RangeInclusive<T>,
    why: &'static str,
) -> Result<T, Refused> {
    text.parse().ok().filter(|number| range.contains(number)).ok_or(Refused::Wrong(why))
}

const UNKNOWN: &str =
    "is unknown; docs/reference/phone.md names the words of the phone with no operating system";

/// The first of those that the phone on Linux takes its ports from.
const RTP_PORT: u16 = 16_384;

const QUICK_MAX: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn wrong(words: &str) -> Vec<String> {
        PhoneSettings::read(words, &["fault"])
            .err()
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn every_word_is_read() {
        let settings = PhoneSettings::read(
            "account=sip:alice@example.org realm=asterisk password=secret=1 server=192.0.2.9:5070 transport=tcp srtp=zrtp \
             source=tone:440 answer=auto stun=stun.example.org dial1=sip:bob@example.org dial3=sip:carol@192.0.2.3 \
             rtp=20000 sip=5070 outside=198.51.100.1:15060 name=\"Alice A\" ip=192.0.2.7/24 gateway=192.0.2.1 \
             dns=192.0.2.1,192.0.2.2 port-row=8 replay-window=256 fault=stop",
            &["fault"],
        )
        .unwrap_or_else(|wrong| panic!("{wrong:?}"));
        assert_eq!(settings.account.as_deref(), Some("sip:alice@example.org"));
        assert_eq!((settings.password.as_deref(), settings.name.as_str()), (Some("secret=1"), "Alice A"));
        assert_eq!(settings.realm.as_deref(), Some("asterisk"));
        let server = HostPort { host: "192.0.2.9".to_string(), port: Some(5070) };
        assert_eq!((settings.server.clone(), settings.transport), (Some(server), Some(Transport::Tcp)));
        assert_eq!((settings.srtp, settings.answer), (SrtpPolicy::Zrtp, Answer::Auto));
        assert_eq!(settings.source, Source::tone(440));
        assert_eq!(settings.quick, ["sip:bob@example.org", "", "sip:carol@192.0.2.3"]);
        assert_eq!((settings.rtp_port, settings.sip_port), (20_000, 5070));
        assert_eq!((settings.port_row, settings.replay_window), (8, 256));
        assert_eq!(settings.outside, Some("198.51.100.1:15060".parse().unwrap()));
        assert!(matches!(&settings.addressing, Addressing::Fixed { prefix_bits: 24, name_servers, .. }
            if name_servers.len() == 2));
        assert!(settings.registers());
        let plain = PhoneSettings::read("", &[]).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        assert!(!plain.registers() && plain.answer == Answer::Ask && plain.source.is_none());
    }

    #[test]
    fn what_is_wrong_is_named_with_what_to_do_and_passwords_are_not_repeated() {
        for (word, says) in [
            ("srtp=dtls", "needs DTLS, which this image does not have"),
            ("srtp=tls", "best, sdes, zrtp or none"),
            ("source=loudspeaker", "microphone, tone:HZ"),
            ("source=tone:4000", "1 to 3999"),
            ("account=alice", "no SIP address"),
            ("account=sip:example.org", "no user"),
            ("realm=", "that the server asks for"),
            ("dial1=tel:110", "sip:bob@example.org"),
            ("dial0=sip:bob@example.org", "unknown"),
            ("rtp=16385", "even"),
            ("sip=0", "1 to 65534"),
            ("port-row=65", "0 to 64"),
            ("replay-window=63", "64 to 32768"),
            ("server=a:b:c", "HOST:PORT"),
            ("transport=tls", "udp or tcp"),
            ("ip=192.0.2.1", "no address with a prefix"),
            ("gateway=192.0.2.1", "fixed address"),
            ("outside=here", "ADDRESS"),
            ("colour=red", "unknown"),
            ("hello", "unknown"),
        ] {
            let wrong = wrong(word);
            assert!(wrong.len() == 1 && wrong[0].contains(says), "{word}: {wrong:?}");
        }
        assert_eq!(wrong("password= x srtp=y").len(), 3);
        assert_eq!(
            wrong("password="),
            vec!["command line: password=...: is empty; leave it out where there is none"]
        );
    }
}
