//! Components of a server, and the rules by which samples belong to them.

use super::samples::Sample;
use anyhow::{Result, anyhow};
use ringway_settings::{Reader, Section, read_document};

/// Component of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The kernel.
    Kernel,
    /// The C library and the language's own.
    Libc,
    /// Parser, sockets, memory, scripts: what has no component of its own.
    Core,
    /// Transactions and their timers.
    Transactions,
    /// Registrar and location table.
    Location,
    /// Decisions where a request goes, record-routing.
    Routing,
    /// Challenges and digests.
    Authentication,
    /// Database, and the writing of bindings.
    Database,
    /// RSA and elliptic curves.
    TlsKeys,
    /// AES, 3DES, ChaCha20; with the MAC if one function computes both.
    TlsCipher,
    /// Hashes and MACs of TLS.
    TlsMac,
    /// The rest of TLS and of the cryptographic library.
    TlsOther,
    /// Functions without a name, and those that no rule has.
    Rest,
}

impl Component {
    /// All components with their keys in tables and records, and their titles, in the order of the charts.
    pub const ALL: [(Self, &'static str, &'static str); 13] = [
        (Self::Kernel, "kernel", "kernel"),
        (Self::Libc, "libc", "libc"),
        (Self::Core, "core", "parser, core"),
        (Self::Transactions, "transactions", "transactions"),
        (Self::Location, "location", "location"),
        (Self::Routing, "routing", "routing"),
        (Self::Authentication, "authentication", "authentication"),
        (Self::Database, "database", "database"),
        (Self::TlsKeys, "tls-keys", "TLS: RSA, EC"),
        (Self::TlsCipher, "tls-cipher", "TLS: cipher"),
        (Self::TlsMac, "tls-mac", "TLS: MAC"),
        (Self::TlsOther, "tls-other", "TLS: other crypto"),
        (Self::Rest, "rest", "rest"),
    ];

    /// Key in tables and records.
    pub fn key(self) -> &'static str {
        Self::ALL.iter().find(|(component, ..)| *component == self).map_or("", |(_, key, _)| key)
    }

    fn from_key(key: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name, _)| *name == key).map(|(component, ..)| *component)
    }
}

/// Rules of a server; the first one that applies decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    rules: Vec<Rule>,
}

/// A rule. It applies if of each list that is not empty one pattern does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    component: Component,
    /// Names of files without their folder.
    objects: Vec<String>,
    /// Names of functions.
    functions: Vec<String>,
    /// Names of threads.
    threads: Vec<String>,
}

impl Table {
    /// Table of Ringway.
    ///
    /// # Errors
    /// None that occur: a test reads it.
    pub fn ringway() -> Result<Self> {
        Self::parse("ringway.toml", include_str!("../../components/ringway.toml"))
    }

    /// Table of Kamailio.
    ///
    /// # Errors
    /// None that occur: a test reads it.
    pub fn kamailio() -> Result<Self> {
        Self::parse("kamailio.toml", include_str!("../../components/kamailio.toml"))
    }

    fn parse(file: &str, text: &str) -> Result<Self> {
        let read = read_document(text, Some(file), |reader, top| {
            let sections = top.sections(reader, "rule");
            let rules = sections.into_iter().map(|(section, at)| Rule::read(reader, section, at));
            Self { rules: rules.collect() }
        });
        read.map_err(|errors| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            anyhow!(lines.join("\n"))
        })
    }

    /// Component of a sample whose function has this name. `is_stripped`: its file has no symbol table, so the name is not used.
    pub fn component(&self, sample: &Sample, function: &str, is_stripped: bool) -> Component {
        if sample.is_kernel {
            return Component::Kernel;
        }
        let object = sample.object.rsplit('/').next().unwrap_or_default().trim_end_matches(" (deleted)");
        let applies = |rule: &&Rule| {
            let with = |patterns: &[String], text: &str| {
                patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, text))
            };
            let has_function = rule.functions.is_empty() || !is_stripped && with(&rule.functions, function);
            has_function && with(&rule.objects, object) && with(&rule.threads, &sample.thread)
        };
        self.rules.iter().find(applies).map_or(Component::Rest, |rule| rule.component)
    }
}

impl Rule {
    fn read(reader: &mut Reader<'_>, mut section: Section<'_, '_>, at: usize) -> Self {
        let key = section.text(reader, "component");
        let component = key.and_then(|(text, _)| Component::from_key(text)).unwrap_or_else(|| {
            let names = Component::ALL.map(|(_, key, _)| key).join(", ");
            reader.error(
                key.map_or(at, |(_, at)| at),
                section.path("component"),
                format!("give one of {names}"),
            );
            Component::Rest
        });
        let mut list = |name: &'static str| -> Vec<String> {
            let texts = section.texts(reader, name).unwrap_or_default();
            texts.into_iter().map(|(text, _)| text.to_owned()).collect()
        };
        let rule = Self {
            component,
            objects: list("objects"),
            functions: list("functions"),
            threads: list("threads"),
        };
        section.finish(reader);
        rule
    }
}

/// True if a pattern, in which `*` is any text, matches a whole name.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = left.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(object: &str) -> Sample {
        Sample { object: object.to_owned(), thread: "worker-0".to_owned(), ..Sample::default() }
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("tm.so", "tm.so", true),
            ("tm.so", "tmx.so", false),
            ("db_*.so", "db_mysql.so", true),
            ("db_*.so", "db_mysql.so.1", false),
            ("*", "", true),
            ("*AES*", "aws_lc_AES_encrypt", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("ab*bc", "abc", false),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn components_of_kamailio_are_its_modules() {
        let table = Table::kamailio().unwrap();
        for (object, function, component) in [
            ("/usr/lib/x86_64-linux-gnu/kamailio/modules/tm.so", "t_lookup", Component::Transactions),
            ("/usr/lib/x86_64-linux-gnu/kamailio/modules/usrloc.so", "get_urecord", Component::Location),
            ("/usr/lib/x86_64-linux-gnu/kamailio/modules/rr.so", "record_route", Component::Routing),
            ("/usr/lib/x86_64-linux-gnu/kamailio/modules/db_mysql.so", "x", Component::Database),
            ("/usr/lib/x86_64-linux-gnu/kamailio/modules/auth.so", "x", Component::Authentication),
            ("/usr/sbin/kamailio (deleted)", "parse_msg", Component::Core),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", "memcpy", Component::Libc),
            ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "aesni_cbc_encrypt", Component::TlsCipher),
            ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "rsaz_1024_mul_avx2", Component::TlsKeys),
            ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "EVP_DigestUpdate", Component::TlsOther),
            ("/usr/lib/libm.so.9", "x", Component::Rest),
        ] {
            assert_eq!(table.component(&sample(object), function, false), component, "{object} {function}");
        }
        let stripped = sample("/usr/lib/libcrypto.so.3");
        assert_eq!(table.component(&stripped, "aesni_cbc_encrypt", true), Component::TlsOther);
        let kernel = Sample { is_kernel: true, ..sample("[kernel.kallsyms]") };
        assert_eq!(table.component(&kernel, "udp_sendmsg", false), Component::Kernel);
    }

    #[test]
    fn components_of_ringway_are_its_modules() {
        let table = Table::ringway().unwrap();
        for (function, component) in [
            ("ringway_sip::message::Message::parse", Component::Core),
            ("<ringway_sip::edit::Edit as core::fmt::Display>::fmt", Component::Core),
            ("ringway_transaction::layer::Transactions::on_message", Component::Transactions),
            ("ringway_server::registrar::register::save", Component::Location),
            ("ringway_server::proxy::forward::forward", Component::Routing),
            ("ringway_auth::verify::verify", Component::Authentication),
            ("md5::block_api::compress", Component::Authentication),
            ("ringway_linux::worker::run", Component::Core),
            ("rustls::conn::ConnectionCommon<T>::process_new_packets", Component::TlsOther),
            ("aws_lc_0_38_0_RSA_sign", Component::TlsKeys),
            ("mulx4x_internal", Component::TlsKeys),
            ("aws_lc_0_47_0_SHA384_Final", Component::TlsMac),
            ("aes_gcm_enc_update_vaes_avx512", Component::TlsCipher),
            ("sqlite3VdbeExec", Component::Database),
            ("core::ptr::drop_in_place", Component::Libc),
            ("never_heard_of", Component::Rest),
        ] {
            let component_of = table.component(&sample("/usr/bin/ringway"), function, false);
            assert_eq!(component_of, component, "{function}");
        }
        let writer = Sample { thread: "journal".to_owned(), ..sample("/usr/bin/ringway") };
        assert_eq!(table.component(&writer, "core::ptr::drop_in_place", false), Component::Database);
        assert_eq!(table.component(&sample("/usr/bin/ringway"), "x::y", true), Component::Rest);
    }

    #[test]
    fn a_fault_in_a_table_is_named_with_its_line() {
        let error =
            Table::parse("x.toml", "[[rule]]\ncomponent = \"kernl\"\nobject = [\"a\"]\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("x.toml:2: ") && text.contains("give one of kernel, libc"), "{text}");
        assert!(text.contains("x.toml:3: ") && text.contains("object: unknown key"), "{text}");
    }
}
