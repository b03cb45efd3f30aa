//! Settings of a server with no operating system: from a file that it fetched, and from words of its command line.

use crate::listeners::{default_domains, default_listeners, read_ports};
use crate::network::{host, read_network};
use crate::words::{COMMAND_LINE, PortWord, Words, file_name};
use crate::{
    Addressing, ConfigError, Connections, Limits, Listener, NumberLookups, Reader, Section, read_auth,
    read_document, read_domains, read_registrar, read_routing,
};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use ringway_sansio::Transport;
use ringway_server::Config;

/// All settings of a machine without an operating system; those that need a disk, threads or an operating system are
/// left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSettings {
    /// Source of the address.
    pub addressing: Addressing,
    /// The file with more settings; `None`: there is none. Only a command line says it.
    pub config_file: Option<String>,
    /// The list of users; `None`: there is none.
    pub users_file: Option<String>,
    /// TFTP server with the files; `None`: the one that DHCP names.
    pub tftp: Option<Ipv4Addr>,
    /// Listeners; at least one. Their addresses are unspecified: the machine has one address, and gets it later.
    pub listen: Vec<Listener>,
    /// Domains, `[auth]`, `[registrar]`, `[routing]` and the limit of a message; without listeners and secret.
    pub server: Config,
    /// `[limits]`, except that of a message.
    pub limits: Limits,
    /// Words of the command line that are not recognised: the boot loader's, or misspelt.
    pub passed_over: Vec<String>,
}

impl Default for MachineSettings {
    fn default() -> Self {
        Self {
            addressing: Addressing::Dhcp,
            config_file: None,
            users_file: None,
            tftp: None,
            listen: default_listeners(Ipv4Addr::UNSPECIFIED),
            server: Config::for_domains(default_domains()),
            limits: Limits::with(&CONNECTIONS),
            passed_over: Vec::new(),
        }
    }
}

impl MachineSettings {
    /// Reads a command line and, if there is one, a file (its name and its text). The command line overrides the file:
    /// `ip=` all of `[network]`, each other word its key.
    ///
    /// # Errors
    /// All faults: first those of the command line, then those of the file by line.
    pub fn read(command_line: &str, file: Option<(&str, &str)>) -> Result<Self, Vec<ConfigError>> {
        let (words, mut errors) = Words::read(command_line);
        let (name, text) = file.unzip();
        let text = text.unwrap_or_default();
        if text.len() > FILE_BYTES_MAX {
            let message = format!(
                "it has {} bytes, and settings have at most {FILE_BYTES_MAX}; name another file",
                text.len()
            );
            let file = name.unwrap_or_default().to_owned();
            errors.push(ConfigError { file, line: 1, key: String::new(), message });
            return Err(errors);
        }
        let read = read_document(text, name, |reader, top| read_file(reader, top, &words));
        match read {
            Ok(settings) => match settings.with(words) {
                Ok(settings) if errors.is_empty() => return Ok(settings),
                Ok(_) => {}
                Err(error) => errors.push(error),
            },
            Err(of_file) => errors.extend(of_file),
        }
        Err(errors)
    }

    /// The domain of users whose row names none: the first.
    pub fn domain(&self) -> &str {
        self.server.domains.first().map_or("", String::as_str)
    }

    /// The server machine's settings, for listeners that have their addresses. It keeps its bindings in memory only.
    pub fn server_config(
        &self,
        listeners: Vec<ringway_server::Listener>,
        machine_addresses: Vec<IpAddr>,
        secret: [u8; 32],
    ) -> Config {
        Config { listeners, machine_addresses, keeps_bindings: false, secret, ..self.server.clone() }
    }

    /// Overrides the settings of the file with those of the command line.
    fn with(mut self, words: Words) -> Result<Self, ConfigError> {
        set(&mut self.addressing, words.addressing);
        let server = &mut self.server;
        set(&mut server.domains, words.domains);
        set(&mut server.mode, words.mode);
        set(&mut server.stateful, words.stateful);
        set(&mut server.record_route, words.record_route);
        set(&mut server.auth.enabled, words.auth);
        set(&mut server.auth.realms, words.realm.map(Into::into));
        set(&mut server.auth.algorithms, words.algorithms);
        if let Some(word) = words.users {
            self.users_file = word.name();
        }
        self.config_file = words.config.and_then(|word| word.name());
        self.tftp = words.tftp.or(self.tftp);
        self.passed_over = words.passed_over;
        let ports = [(Transport::Udp, words.udp), (Transport::Tcp, words.tcp), (Transport::Tls, words.tls)];
        for (transport, word) in ports {
            let Some(word) = word else { continue };
            self.listen.retain(|listener| listener.transport != transport);
            if let PortWord::Number(port) = word {
                let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
                self.listen.push(Listener { transport, address });
            }
        }
        if self.listen.is_empty() {
            let message = "nothing is left to listen on; give udp=5060, tcp=5060 or tls=5061".to_owned();
            return Err(ConfigError {
                file: COMMAND_LINE.to_owned(),
                line: 0,
                key: "udp, tcp, tls".to_owned(),
                message,
            });
        }
        Ok(self)
    }
}

fn set<T>(place: &mut T, word: Option<T>) {
    if let Some(word) = word {
        *place = word;
    }
}

fn read_file(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, words: &Words) -> MachineSettings {
    let domains = read_domains(reader, top);
    // The default realm is the first domain, of the file or of the command line.
    let realm = words.domains.as_ref().unwrap_or(&domains).first().cloned().unwrap_or_default();
    let (tftp, users_file) = read_users(reader, top);
    let addressing = read_network(reader, top);
    let listen = read_ports(reader, top);
    let mut server = Config {
        auth: read_auth(reader, top, realm, words.domains.as_ref().unwrap_or(&domains)),
        registrar: read_registrar(reader, top),
        ..Config::for_domains(domains)
    };
    read_routing(reader, top, NumberLookups::Absent, &mut server);
    let limits = Limits::read(reader, top, CONNECTIONS, &mut server, |_, _, _| {});
    for (key, why) in REFUSED {
        top.refuse(reader, key, why);
    }
    MachineSettings {
        addressing,
        config_file: None,
        users_file,
        tftp,
        listen,
        server,
        limits,
        passed_over: Vec::new(),
    }
}

/// Reads `[users]`: the server and the file name of the list.
fn read_users(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> (Option<Ipv4Addr>, Option<String>) {
    let mut section = top.section(reader, "users");
    let mut tftp = None;
    if let Some((text, at)) = section.text(reader, "tftp").filter(|(text, _)| !text.is_empty()) {
        match host(text) {
            Ok(address) => tftp = Some(address),
            Err(why) => {
                reader.error(
                    at,
                    section.path("tftp"),
                    format!("{why}, or \"\" for the machine that DHCP names"),
                );
            }
        }
    }
    let file = section.text(reader, "file").filter(|(text, _)| !text.is_empty());
    if let Some((Err(why), at)) = file.map(|(text, at)| (file_name(text), at)) {
        reader.error(at, section.path("file"), format!("{why}; give one as \"users.csv\", or \"\" for none"));
    }
    section.finish(reader);
    (tftp, file.map(|(text, _)| text.to_owned()))
}

/// As many as the network below can have at once.
const CONNECTIONS: Connections = Connections { default: 256, range: 1..=256, per_source: None };
/// A larger file cannot be settings; it came over a network.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Keys of `ringway.toml` that need an operating system.
const REFUSED: [(&str, &str); 15] = [
    ("store", "this machine has no disk, its users come as [users] says"),
    ("location", "this machine keeps in its memory where users are"),
    ("cluster", "this machine shares nothing with others"),
    ("workers", "this machine runs on one core, without threads"),
    (
        "tls",
        "this machine has certificate and key on its boot medium; its port is tls=5061 on the command line",
    ),
    ("media", "this machine does not control media relays"),
    ("overload", "this machine does not measure how long messages wait"),
    ("presence", "this machine does not serve presence"),
    ("neighbour", "this machine does not dial neighbours"),
    ("trunk", "this machine has no trunks"),
    ("route", "this machine has no trunks"),
    ("dialing", "this machine has no trunks"),
    ("destination", "this machine has no trunks"),
    ("admin", "this machine has no pages over HTTP, they are on its screen"),
    ("log", "this machine shows its log on its screen only"),
];
