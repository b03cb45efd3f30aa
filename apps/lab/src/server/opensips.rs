//! OpenSIPS' configuration for a measurement. It has not been run, since Debian has no package: it follows OpenSIPS' documentation, of
//! versions before 3.4 where that of 3.4 was not at hand.

use super::{Algorithm, Carrier, DOMAIN, NonceUse, PASSWORD, Routing, Settings, Store};
use anyhow::{Result, bail};
use std::net::SocketAddr;

/// Configuration for a server on this port.
///
/// # Errors
/// `not available: …` for all that the lab does not configure for OpenSIPS.
pub(super) fn opensips_configuration(port: u16, settings: &Settings, carrier: Carrier) -> Result<String> {
    let sip = SocketAddr::new(settings.host, port);
    let transports = match carrier {
        Carrier::Udp => String::new(),
        Carrier::Tcp => format!(
            "tcp_workers=1\ntcp_max_connections=60000\ntcp_connection_lifetime=7200\nsocket=tcp:{sip}\n\
             loadmodule \"proto_tcp.so\"\n"
        ),
        Carrier::Tls | Carrier::Ws | Carrier::Wss => {
            bail!("not available: the lab configures OpenSIPS for UDP and TCP only")
        }
    };
    if settings.presence {
        bail!("not available: the lab configures OpenSIPS without presence");
    }
    let forward = match settings.routing {
        Routing::Stateless => "forward();",
        Routing::Stateful | Routing::Redirect => "t_relay();",
    };
    let end = match settings.routing {
        Routing::Redirect => "t_newtran(); t_reply(302, \"Moved Temporarily\");",
        Routing::Stateful | Routing::Stateless => forward,
    };
    let record = match settings.routing {
        Routing::Redirect => "",
        Routing::Stateful | Routing::Stateless => "if (is_method(\"INVITE\")) { record_route(); }",
    };
    let (auth, [register, invite]) = authentication(settings)?;
    Ok(format!(
        r#"log_level=-1
xlog_level=-1
stderror_enabled=yes
syslog_enabled=no
udp_workers=1
auto_aliases=no
socket=udp:{sip}
alias=udp:{DOMAIN}:{port}
alias=udp:{DOMAIN}
loadmodule "proto_udp.so"
{transports}loadmodule "signaling.so"
loadmodule "sl.so"
loadmodule "tm.so"
loadmodule "rr.so"
loadmodule "maxfwd.so"
loadmodule "sipmsgops.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
{auth}modparam("usrloc", "working_mode_preset", "single-instance-no-db")
modparam("usrloc", "hash_size", 16)
modparam("registrar", "max_expires", 7200)
route {{
    if (!mf_process_maxfwd_header(10)) {{ send_reply(483, "Too Many Hops"); exit; }}
    if (is_method("REGISTER")) {{ {register} save("location"); exit; }}
    if (is_method("OPTIONS") && $rU==NULL) {{ send_reply(200, "OK"); exit; }}
    if (has_totag()) {{
        if (is_method("ACK") && t_check_trans()) {{ t_relay(); exit; }}
        if (loose_route()) {{ {forward} exit; }}
        if (!is_method("ACK")) {{ send_reply(404, "Not here"); }}
        exit;
    }}
    {invite}
    {record}
    if (!lookup("location")) {{ send_reply(404, "Not Found"); exit; }}
    {end}
}}
"#
    ))
}

/// Module, and the checks of REGISTERs and INVITEs. Nonces that may be used once are a pool of 100,000 with a lifetime of 30 s.
fn authentication(settings: &Settings) -> Result<(String, [String; 2])> {
    let Some(algorithm) = settings.challenge else {
        return Ok((String::new(), [String::new(), String::new()]));
    };
    if matches!(settings.store, Store::Database(_)) {
        bail!("not available: the lab configures OpenSIPS without a database");
    }
    let unlimited = i32::from(settings.nonces == NonceUse::Count);
    let modules = format!(
        "loadmodule \"auth.so\"\nmodparam(\"auth\", \"username_spec\", \"$var(name)\")\nmodparam(\"auth\", \"password_spec\", \
         \"$var(password)\")\nmodparam(\"auth\", \"calculate_ha1\", 1)\nmodparam(\"auth\", \"disable_nonce_check\", {unlimited})\n"
    );
    let more = match algorithm {
        Algorithm::Md5 => "",
        Algorithm::Sha256 => ", \"SHA-256\"",
    };
    let check = |kind: &str| {
        format!(
            "$var(name) = $au; $var(password) = \"{PASSWORD}\"; if (!pv_{kind}_authorize(\"{DOMAIN}\")) {{ \
             {kind}_challenge(\"{DOMAIN}\", \"auth\"{more}); exit; }}"
        )
    };
    let invite = format!("if (is_method(\"INVITE\")) {{ {} consume_credentials(); }}", check("proxy"));
    Ok((modules, [check("www"), invite]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_has_its_parts_and_what_is_missing_is_said() {
        let text = |settings: &Settings, carrier| opensips_configuration(5062, settings, carrier);
        let open = Settings::open(10, Routing::Stateful);
        let plain = text(&open, Carrier::Udp).unwrap();
        assert!(plain.contains("socket=udp:127.0.0.1:5062\n") && !plain.contains("auth.so"), "{plain}");
        assert!(text(&open, Carrier::Tcp).unwrap().contains("socket=tcp:127.0.0.1:5062\n"));
        let stateless = text(&Settings::open(10, Routing::Stateless), Carrier::Udp).unwrap();
        assert!(stateless.contains("exit; }\n    forward();\n"), "{stateless}");
        let redirect = text(&Settings::open(10, Routing::Redirect), Carrier::Udp).unwrap();
        assert!(redirect.contains("t_reply(302") && !redirect.contains("record_route()"), "{redirect}");
        let digest = Settings { challenge: Some(Algorithm::Sha256), ..open.clone() };
        let counted = text(&digest, Carrier::Udp).unwrap();
        assert!(counted.contains("www_challenge(\"example.org\", \"auth\", \"SHA-256\")"), "{counted}");
        assert!(counted.contains("\"disable_nonce_check\", 1)"), "{counted}");
        let once = text(&Settings { nonces: NonceUse::Once, ..digest }, Carrier::Udp).unwrap();
        assert!(once.contains("\"disable_nonce_check\", 0)"), "{once}");
        // Every block that is opened is closed.
        for text in [&plain, &stateless, &redirect, &counted] {
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        }
        for (settings, carrier) in
            [(open.clone(), Carrier::Tls), (Settings { presence: true, ..open }, Carrier::Udp)]
        {
            let error = text(&settings, carrier).unwrap_err().to_string();
            assert!(error.starts_with("not available: the lab configures OpenSIPS"), "{error}");
        }
    }
}
