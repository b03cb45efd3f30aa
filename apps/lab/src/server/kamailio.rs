//! Kamailio's configuration for a measurement.

use super::{Algorithm, Carrier, DOMAIN, Database, NonceUse, PASSWORD, Routing, Settings, Store};
use anyhow::{Result, bail};
use std::net::SocketAddr;

impl Database {
    /// Lines of Kamailio's configuration that read hashes of an algorithm from the table of users.
    fn kamailio_modules(&self, algorithm: Algorithm) -> String {
        let url = &self.url;
        let module = if url.starts_with("mysql:") { "db_mysql" } else { "db_postgres" };
        let column = match algorithm {
            Algorithm::Md5 => "ha1_md5",
            Algorithm::Sha256 => "ha1_sha256",
        };
        format!(
            r#"loadmodule "{module}.so"
loadmodule "auth_db.so"
modparam("auth_db", "db_url", "{url}")
modparam("auth_db", "version_table", 0)
modparam("auth_db", "user_column", "name")
modparam("auth_db", "domain_column", "domain")
modparam("auth_db", "password_column", "{column}")
modparam("auth_db", "use_domain", 1)
modparam("auth_db", "calculate_ha1", 0)
modparam("auth_db", "load_credentials", "")
"#
        )
    }
}

pub(super) fn kamailio_configuration(port: u16, settings: &Settings, carrier: Carrier) -> Result<String> {
    let streams = "tcp_children=1\ntcp_max_connections=60000\ntcp_connection_lifetime=7200";
    let at = |port: u16| SocketAddr::new(settings.host, port);
    let sip = at(port);
    let (transports, tls) = match (carrier, &settings.secure) {
        (Carrier::Udp, _) => ("disable_tcp=yes".to_owned(), ""),
        (Carrier::Tcp, _) => (format!("{streams}\nlisten=tcp:{sip}"), ""),
        (Carrier::Tls, Some(listener)) => {
            (format!("{streams}\nenable_tls=yes\nlisten=tls:{}", at(listener.port)), TLS_MODULE)
        }
        (Carrier::Tls | Carrier::Ws | Carrier::Wss, _) => {
            bail!("not available: the lab configures Kamailio for UDP, TCP and TLS only")
        }
    };
    if settings.presence {
        bail!("not available: the lab configures Kamailio without presence");
    }
    let tls = tls.replace("PORT", &port.to_string());
    let touch = if settings.touches_memory { "yes" } else { "no" };
    let forward = match settings.routing {
        Routing::Stateless => "forward();",
        Routing::Stateful | Routing::Redirect => "t_relay();",
    };
    let end = match settings.routing {
        Routing::Redirect => "if (t_newtran()) { t_reply(\"302\", \"Moved Temporarily\"); }",
        Routing::Stateful | Routing::Stateless => forward,
    };
    let record = match settings.routing {
        Routing::Redirect => "",
        Routing::Stateful | Routing::Stateless => "if (method == \"INVITE\") { record_route(); }",
    };
    let (auth, [register, invite]) = kamailio_authentication(settings);
    Ok(format!(
        r#"#!KAMAILIO
debug=-1
log_stderror=yes
fork=yes
children=1
shm_force_alloc={touch}
auto_aliases=no
{transports}
listen=udp:{sip}
alias="{DOMAIN}"
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "siputils.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
{tls}{auth}modparam("usrloc", "db_mode", 0)
modparam("usrloc", "hash_size", 16)
modparam("registrar", "max_expires", 7200)
request_route {{
    if (!mf_process_maxfwd_header("10")) {{ sl_send_reply("483", "Too Many Hops"); exit; }}
    if (method == "REGISTER") {{ {register} save("location"); exit; }}
    if (method == "OPTIONS" && uri==myself) {{ sl_send_reply("200", "OK"); exit; }}
    if (has_totag()) {{
        if (loose_route()) {{ {forward} exit; }}
        if (method == "ACK") {{ if (t_check_trans()) {{ t_relay(); }} exit; }}
        sl_send_reply("404", "Not here");
        exit;
    }}
    {invite}
    {record}
    if (!lookup("location")) {{ sl_send_reply("404", "Not Found"); exit; }}
    {end}
}}
"#
    ))
}

/// Module, and the checks of REGISTERs and INVITEs.
fn kamailio_authentication(settings: &Settings) -> (String, [String; 2]) {
    let Some(algorithm) = settings.challenge else { return (String::new(), [String::new(), String::new()]) };
    let (modules, prefix, source) = match &settings.store {
        Store::Database(database) => {
            (database.kamailio_modules(algorithm), "", "\"ringway_subscriber\"".to_owned())
        }
        Store::Memory | Store::Sqlite(_) => (String::new(), "pv_", format!("\"{PASSWORD}\", \"0\"")),
    };
    let check = |name: &str, challenge: &str| {
        format!("if (!{prefix}{name}(\"{DOMAIN}\", {source})) {{ {challenge}(\"{DOMAIN}\", \"1\"); exit; }}")
    };
    let parameter = match algorithm {
        Algorithm::Md5 => String::new(),
        Algorithm::Sha256 => format!("modparam(\"auth\", \"algorithm\", \"{}\")\n", algorithm.name()),
    };
    let nonces = match settings.nonces {
        NonceUse::Count => "",
        // Each nonce has a slot among those that are not used yet; a newer one takes the slot of the oldest.
        NonceUse::Once => "modparam(\"auth\", \"one_time_nonce\", 1)\n",
    };
    let register = check("www_authenticate", "www_challenge");
    let invite = check("proxy_authenticate", "proxy_challenge");
    let invite = format!("if (method == \"INVITE\") {{ {invite} consume_credentials(); }}");
    (format!("loadmodule \"auth.so\"\n{parameter}{nonces}{modules}"), [register, invite])
}

/// Module of TLS; sessions are kept for clients without tickets too.
const TLS_MODULE: &str = r#"loadmodule "tls.so"
modparam("tls", "config", "kamailio-PORT-tls.cfg")
modparam("tls", "session_cache", 1)
modparam("tls", "session_id", "lab")
"#;
