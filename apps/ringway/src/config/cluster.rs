//! `[cluster]`: this server as one of several nodes.

use super::{Listener, Reader, Section, store};
use base16ct::mixed;
use ringway_location::NodeName;
use ringway_sansio::Transport;
use ringway_server::{ClusterSecret, Config};
use std::net::SocketAddr;
use std::path::Path;

/// `[cluster]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterConfig {
    /// Name of this node.
    pub(crate) node: NodeName,
    /// Address of the listener of links.
    pub(crate) listen: SocketAddr,
    /// Secret of all nodes, and the one that is accepted too.
    pub(crate) secrets: (ClusterSecret, Option<ClusterSecret>),
}

impl ClusterConfig {
    /// Listener of links.
    pub(crate) const fn listener(&self) -> Listener {
        Listener { transport: Transport::Tls, address: self.listen }
    }
}

/// Rest of the configuration that the section depends on.
pub(super) struct OtherSections<'c> {
    /// The configuration file.
    pub(super) file: Option<&'c Path>,
    pub(super) listen: &'c [Listener],
    pub(super) server: &'c Config,
    /// Nodes share their registrations.
    pub(super) is_shared: bool,
}

/// Reads the section; `None` without it, or with errors.
pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    rest: &OtherSections<'_>,
) -> Option<ClusterConfig> {
    let place = top.place("cluster");
    let mut section = top.section(reader, "cluster");
    let missing = KEYS.into_iter().filter(|key| section.place(key).is_none());
    let missing: Vec<&str> = missing.collect();
    let node = node(reader, &mut section);
    let listen = listen(reader, &mut section, rest.listen);
    let secrets = secrets(reader, &mut section, rest.file);
    if let Some(at) = place {
        for key in missing {
            reader.error(at, section.path(key), "is missing; give node, listen and secret");
        }
        check_rest(reader, at, rest);
    }
    section.finish(reader);
    Some(ClusterConfig { node: node?, listen: listen?, secrets: secrets? })
}

/// Adds an error for each other setting that the section needs.
fn check_rest(reader: &mut Reader<'_>, at: usize, rest: &OtherSections<'_>) {
    if !rest.is_shared {
        let message = "needs [location] url = \"redis://…\", where nodes share their registrations; give it, or remove the section";
        reader.error(at, "[cluster]", message);
    }
    if !rest.server.stateful {
        reader.error(at, "[cluster]", "needs [routing] stateful = true; set it, or remove the section");
    }
}

fn node(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Option<NodeName> {
    let (text, at) = section.text(reader, "node")?;
    let name = NodeName::read(text.as_bytes());
    if name.is_none() {
        let message = format!(
            "{text:?} is not a name of a node; give 1 to 32 lower-case letters, digits and inner hyphens, other than those of all \
             other nodes"
        );
        reader.error(at, section.path("node"), message);
    }
    name
}

fn listen(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, others: &[Listener]) -> Option<SocketAddr> {
    let (text, at) = section.text(reader, "listen")?;
    let address = text.parse::<SocketAddr>().ok();
    let address = address.filter(|address| !address.ip().is_unspecified() && address.port() != 0);
    let Some(address) = address else {
        let message =
            format!("{text:?} is not an address of this machine; write ADDRESS:PORT, as \"192.0.2.1:5070\"");
        reader.error(at, section.path("listen"), message);
        return None;
    };
    let is_used = |other: &&Listener| {
        let is_there = other.address.ip() == address.ip() || other.address.ip().is_unspecified();
        other.transport.is_stream() && is_there && other.address.port() == address.port()
    };
    if let Some(other) = others.iter().find(is_used) {
        let message = format!("{text} is used by \"{other}\" of listen; give another port");
        reader.error(at, section.path("listen"), message);
    }
    Some(address)
}

/// The secret and the one that is accepted too. The file is beside the configuration, unless it has an absolute path.
fn secrets(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    config: Option<&Path>,
) -> Option<(ClusterSecret, Option<ClusterSecret>)> {
    let (name, at) = section.text(reader, "secret")?;
    let file = config.and_then(Path::parent).unwrap_or_else(|| Path::new("")).join(name);
    let read = store::lines(&file.to_string_lossy()).and_then(|lines| {
        let mut lines = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        match (lines.next(), lines.next(), lines.next()) {
            (Some(current), accepted, None) => Ok((secret(current)?, accepted.map(secret).transpose()?)),
            _ => Err(BAD_SECRET.to_owned()),
        }
    });
    match read {
        Ok(secrets) => Some(secrets),
        Err(why) => {
            reader.error(at, section.path("secret"), format!("{} {why}", file.display()));
            None
        }
    }
}

fn secret(line: &str) -> Result<ClusterSecret, String> {
    let bytes = mixed::decode_vec(line).ok().filter(|bytes| bytes.len() >= SECRET_BYTES_MIN);
    // A line of one digit, as in an example, is no random number.
    let bytes = bytes.filter(|bytes| bytes.iter().any(|byte| Some(byte) != bytes.first()));
    bytes.map(|bytes| ClusterSecret::new(&bytes)).ok_or_else(|| BAD_SECRET.to_owned())
}

const KEYS: [&str; 3] = ["node", "listen", "secret"];
const SECRET_BYTES_MIN: usize = 32;
const BAD_SECRET: &str = "is not a secret of nodes: it has one line of at least 64 random hexadecimal digits, and at most one more; make it \
                          by `openssl rand -hex 32`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, NumberLookups, read_document};
    use std::os::unix::fs::PermissionsExt;

    /// Reads a document beside the file `secret` with these lines.
    fn parse(text: &str, secret: &str, mode: u32) -> Result<Option<ClusterConfig>, String> {
        let folder = tempfile::tempdir().unwrap();
        let (file, secret_file) = (folder.path().join("ringway.toml"), folder.path().join("secret"));
        std::fs::write(&secret_file, secret).unwrap();
        std::fs::set_permissions(&secret_file, std::fs::Permissions::from_mode(mode)).unwrap();
        let read = read_document(text, Some("a.toml"), |reader, top| {
            let listen = ringway_settings::read_listen(reader, top);
            let mut server = Config::for_domains(vec!["localhost".into()]);
            ringway_settings::read_routing(reader, top, NumberLookups::Supported, &mut server);
            let rest = OtherSections { file: Some(&file), listen: &listen, server: &server, is_shared: true };
            read(reader, top, &rest)
        });
        read.map_err(|errors: Vec<ConfigError>| {
            errors.iter().map(ConfigError::to_string).collect::<Vec<_>>().join("\n")
        })
    }

    const WHOLE: &str = "[cluster]\nnode = \"a-1\"\nlisten = \"192.0.2.1:5070\"\nsecret = \"secret\"\n";
    const ONE: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const OTHER: &str = "FF112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff";

    #[test]
    fn a_node_is_read_with_one_secret_or_two() {
        let one = parse(WHOLE, &format!("{ONE}\n"), 0o600).unwrap().unwrap();
        assert_eq!((one.node.as_str(), one.listener().to_string().as_str()), ("a-1", "tls:192.0.2.1:5070"));
        assert_eq!(one.secrets.1, None);
        let two = parse(WHOLE, &format!("{OTHER}\n\n{ONE}"), 0o640).unwrap().unwrap();
        assert_eq!(two.secrets.1, Some(one.secrets.0));
        assert_ne!(two.secrets.0, one.secrets.0);
        assert_eq!(parse("", ONE, 0o600), Ok(None));
        assert!(!format!("{one:?}").contains("0011"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_key() {
        for (from, to, start, part) in [
            ("a-1", "A", "a.toml:2: [cluster] node", "lower-case"),
            ("192.0.2.1:5070", "0.0.0.0:5070", "a.toml:3: [cluster] listen", "ADDRESS:PORT"),
            ("192.0.2.1:5070", "192.0.2.1", "a.toml:3: [cluster] listen", "ADDRESS:PORT"),
            ("192.0.2.1:5070", "192.0.2.1:0", "a.toml:3: [cluster] listen", "ADDRESS:PORT"),
            ("192.0.2.1:5070", "127.0.0.1:5060", "a.toml:3: [cluster] listen", "tcp:127.0.0.1:5060"),
            ("\"secret\"", "\"absent\"", "a.toml:4: [cluster] secret", "cannot be read"),
            ("node = \"a-1\"", "", "a.toml:1: [cluster] node", "is missing"),
            ("secret = \"secret\"", "", "a.toml:1: [cluster] secret", "is missing"),
            ("secret = ", "secert = ", "a.toml:1: [cluster] secret", "is missing"),
            ("\n[", "[routing]\nstateful = false\n[", "a.toml:3: [cluster]", "stateful"),
        ] {
            let text = format!("\n{WHOLE}").replacen(from, to, 1);
            let said = parse(text.strip_prefix('\n').unwrap_or(&text), ONE, 0o600).unwrap_err();
            assert!(said.starts_with(start) && said.contains(part), "{from} {to}: {said}");
        }
        for (secret, mode, part) in [
            (ONE, 0o644, "chmod"),
            ("", 0o600, "openssl rand -hex 32"),
            (&ONE[..62], 0o600, "openssl rand -hex 32"),
            (&"0".repeat(64), 0o600, "openssl rand -hex 32"),
            (&ONE.replace('a', "x"), 0o600, "openssl rand -hex 32"),
            (&format!("{ONE}\n{ONE}\n{OTHER}"), 0o600, "openssl rand -hex 32"),
        ] {
            let said = parse(WHOLE, secret, mode).unwrap_err();
            assert!(said.starts_with("a.toml:4: [cluster] secret") && said.contains(part), "{said}");
            assert!(!said.contains("0011"), "no part of it is shown: {said}");
        }
        let errors = crate::config::Config::parse(WHOLE, None).unwrap_err();
        assert!(errors.iter().any(|error| error.to_string().contains("redis://")), "{errors:?}");
    }
}
