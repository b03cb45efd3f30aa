//! The measured servers, and their certificates.

use super::super::environment;
use crate::interop::certificates::{Authority, Certificate, Key};
use anyhow::{Context, Result, bail, ensure};
use ringway_lab::load::Transport;
use ringway_lab::process::Process;
use ringway_lab::server::DOMAIN;
use ringway_lab::server::{Environment, Under, free_port};
use ringway_tls::{ClientAuth, DomainFiles, Offer, PeerCa, TlsFiles, TlsVersion};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

/// Name for which the servers have a certificate with an RSA key.
pub(super) const RSA_NAME: &str = "rsa.example.org";
/// Longest start of Kamailio.
const START_MAX: Duration = Duration::from_secs(10);

/// One of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Ringway,
    /// Ringway with thousands of idle connections.
    Crowded,
    /// Ringway that requires certificates of clients.
    Mutual,
    Kamailio,
}

/// A running server with its ports.
pub(super) struct Server {
    pub(super) process: Process,
    /// Of UDP and TCP.
    port: u16,
    tls: u16,
    ws: u16,
}

impl Server {
    pub(super) fn address(&self, transport: Transport) -> SocketAddr {
        let port = match transport {
            Transport::Udp | Transport::Tcp => self.port,
            Transport::Tls | Transport::Wss | Transport::Dtls => self.tls,
            Transport::Ws => self.ws,
        };
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }
}

/// All servers.
pub(super) struct Servers {
    pub(super) files: Files,
    ringway: Server,
    crowded: Server,
    mutual: Server,
    kamailio: Result<Server>,
}

impl Servers {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let environment = environment(folder);
        let files = Files::make(folder)?;
        Ok(Self {
            ringway: start_ringway(&environment, "ringway", ClientAuth::None)?,
            crowded: start_ringway(&environment, "crowded", ClientAuth::None)?,
            mutual: start_ringway(&environment, "mutual", ClientAuth::Required)?,
            kamailio: start_kamailio(&environment),
            files,
        })
    }

    pub(super) fn get(&self, which: Which) -> Result<&Server> {
        match (which, &self.kamailio) {
            (Which::Ringway, _) => Ok(&self.ringway),
            (Which::Crowded, _) => Ok(&self.crowded),
            (Which::Mutual, _) => Ok(&self.mutual),
            (Which::Kamailio, Ok(server)) => Ok(server),
            (Which::Kamailio, Err(error)) => bail!("{error:#}"),
        }
    }
}

/// Settings of TLS of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    /// `None`: the newest version that both sides have.
    pub(super) version: Option<TlsVersion>,
    pub(super) is_rsa: bool,
    pub(super) is_mutual: bool,
    pub(super) is_resumed: bool,
}

impl Handshake {
    /// TLS 1.3 with P-256, resumed.
    pub(super) const USUAL: Self = Self { version: None, is_rsa: false, is_mutual: false, is_resumed: true };

    /// Name of the server's certificate; `None`: its address.
    pub(super) fn name(self) -> Option<&'static str> {
        self.is_rsa.then_some(RSA_NAME)
    }
}

/// Files of certificates.
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    fn make(folder: &Path) -> Result<Self> {
        let authority = Authority::create(folder)?;
        authority.issue(Certificate::SERVER)?;
        authority.issue(Certificate { name: "client", ..Certificate::SERVER })?;
        let rsa =
            Certificate { name: "rsa", alternative_names: "DNS:rsa.example.org", ..Certificate::SERVER };
        authority.issue(Certificate { key: Key::Rsa2048, ..rsa })?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn pair(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.folder.join(format!("{name}.pem")), self.folder.join(format!("{name}-key.pem")))
    }

    fn both(&self, handshake: Handshake) -> Result<TlsFiles> {
        let ca = self.folder.join("ca.pem");
        let offer = Offer::new(Default::default(), Vec::new(), handshake.version, false);
        let defaults = TlsFiles::default();
        Ok(TlsFiles {
            peer_ca: PeerCa::File(ca.clone()),
            client_ca: Some(ca),
            session_timeout: defaults.session_timeout.filter(|_| handshake.is_resumed),
            offer: offer.map_err(|error| anyhow::anyhow!("{error:?}"))?,
            ..defaults
        })
    }

    /// Files of a client.
    pub(super) fn client(&self, handshake: Handshake) -> Result<TlsFiles> {
        let certificate = handshake.is_mutual.then(|| self.pair("client"));
        Ok(TlsFiles { certificate, ..self.both(handshake)? })
    }

    /// Files of a server like the running ones.
    pub(super) fn server(&self, handshake: Handshake) -> Result<TlsFiles> {
        let (certificate, private_key) = self.pair("rsa");
        let client_auth = if handshake.is_mutual { ClientAuth::Required } else { ClientAuth::None };
        Ok(TlsFiles {
            certificate: Some(self.pair("server")),
            domains: vec![DomainFiles { name: RSA_NAME.to_owned(), certificate, private_key }],
            client_auth,
            ..self.both(handshake)?
        })
    }
}

fn start_ringway(environment: &Environment, name: &str, client_auth: ClientAuth) -> Result<Server> {
    let (port, tls, ws, admin) = (free_port()?, free_port()?, free_port()?, free_port()?);
    let path = environment.folder.join(format!("{name}.toml"));
    let client_auth = match client_auth {
        ClientAuth::Required => "client_auth = \"required\"\nclient_ca = \"ca.pem\"\n",
        ClientAuth::Optional | ClientAuth::None => "",
    };
    let text = format!(
        "domains = [\"{DOMAIN}\"]\nworkers = 1\n\
         listen = [\"udp:127.0.0.1:{port}\", \"tcp:127.0.0.1:{port}\", \"tls:127.0.0.1:{tls}\", \"ws:127.0.0.1:{ws}\"]\n\
         [store]\nurl = \"memory:\"\n[auth]\nenabled = false\n[limits]\nper_source_rate = 0\n\
         [admin]\nlisten = \"127.0.0.1:{admin}\"\n[log]\nlevel = \"warn\"\n\
         [tls]\ncertificate = \"server.pem\"\nprivate_key = \"server-key.pem\"\n{client_auth}\
         [[tls.domain]]\nname = \"{RSA_NAME}\"\ncertificate = \"rsa.pem\"\nprivate_key = \"rsa-key.pem\"\n"
    );
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(Server { process: environment.serve(&path, Under::Itself)?, port, tls, ws })
}

fn start_kamailio(environment: &Environment) -> Result<Server> {
    let program = environment.kamailio.as_ref().context("kamailio is not installed")?;
    let (port, tls) = (free_port()?, free_port()?);
    let path = environment.folder.join("kamailio-tls.cfg");
    let folder = environment.folder.display();
    let text = format!(
        "#!KAMAILIO\ndebug=-1\nlog_stderror=yes\nfork=yes\nchildren=1\ntcp_children=1\nauto_aliases=no\nenable_tls=yes\n\
         tcp_connection_lifetime=7200\nlisten=udp:127.0.0.1:{port}\nlisten=tls:127.0.0.1:{tls}\nalias=\"{DOMAIN}\"\n\
         loadmodule \"tls.so\"\nloadmodule \"tm.so\"\nloadmodule \"sl.so\"\nloadmodule \"rr.so\"\nloadmodule \"pv.so\"\n\
         loadmodule \"usrloc.so\"\nloadmodule \"registrar.so\"\nmodparam(\"usrloc\", \"db_mode\", 0)\n\
         modparam(\"tls\", \"certificate\", \"{folder}/server.pem\")\nmodparam(\"tls\", \"private_key\", \"{folder}/server-key.pem\")\n\
         modparam(\"tls\", \"session_cache\", 1)\nmodparam(\"tls\", \"tls_method\", \"TLSv1.2+\")\n\
         request_route {{ if (method == \"REGISTER\") {{ save(\"location\"); }} else {{ sl_send_reply(\"404\", \"Not Found\"); }} }}\n"
    );
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    let mut command = Command::new(program);
    command.arg("-f").arg(&path).args(["-DD", "-E", "-x", "tlsf", "-m", "256", "-M", "16", "-w"]);
    command.arg(&environment.folder);
    let log = path.with_extension("log");
    let mut process = Process::start("kamailio", &mut command, &log)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, tls));
    let begun = std::time::Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        let is_gone = !process.fate().is_empty();
        ensure!(
            !is_gone && begun.elapsed() < START_MAX,
            "kamailio did not start (kamailio-tls-modules installed?)"
        );
        thread::sleep(Duration::from_millis(50));
    }
    Ok(Server { process, port, tls, ws: port })
}
