//! Client of the admin API of a running server.

use crate::args::ServerArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::printable;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use ureq::Agent;
use ureq::http::Response;

/// The admin API of a running server.
pub(crate) struct AdminClient {
    agent: Agent,
    address: SocketAddr,
    token: String,
}

impl AdminClient {
    /// Client of the server that a command asks.
    pub(crate) fn of(args: &ServerArgs) -> Result<Self, Failure> {
        let config = Config::load(args.config.as_deref())?;
        Self::new(args.admin.unwrap_or(config.admin.listen), &config.admin.token)
    }

    pub(crate) fn new(listen: SocketAddr, token: &str) -> Result<Self, Failure> {
        if listen.port() == 0 {
            return Err(Failure::usage(
                "[admin] listen has port 0, so the server's port is not known here; give it with --admin ADDRESS:PORT",
            ));
        }
        // A server that listens on all addresses is reached on loopback.
        let ip = match listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let agent = Agent::config_builder()
            .timeout_global(Some(REQUEST_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build()
            .into();
        Ok(Self { agent, address: SocketAddr::new(ip, listen.port()), token: token.to_owned() })
    }

    /// Address of the server.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gets a listing.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        let url = self.url(path);
        let request = self.agent.get(&url).header("Authorization", self.authorization());
        match self.answer(&url, request.call())? {
            (200, object) => Ok(object),
            (status, object) => Err(Failure::failed(match object.get("error").and_then(Value::as_str) {
                // The server's sentence says what to do.
                Some(why) => format!("the server at {} refused: {}", self.address, printable(why)),
                None => format!("{url}: {status}: no admin API of a ringway server; check the address"),
            })),
        }
    }

    /// Requests a change. Returns the status, and the object that the server answered with.
    pub(crate) fn post(&self, path: &str, body: &str) -> Result<(u16, Value), Failure> {
        let url = self.url(path);
        let request = self.agent.post(&url).header("Authorization", self.authorization());
        self.answer(&url, request.send(body))
    }

    /// Requests the end of something. Returns the same as [`AdminClient::post`].
    pub(crate) fn delete(&self, path: &str) -> Result<(u16, Value), Failure> {
        let url = self.url(path);
        let request = self.agent.delete(&url).header("Authorization", self.authorization());
        self.answer(&url, request.call())
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn authorization(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn answer(
        &self,
        url: &str,
        answer: Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<(u16, Value), Failure> {
        let mut answer = answer.map_err(|error| {
            Failure::failed(format!(
                "no server answers at {} ({error}); start one with `ringway serve`, or say with --config or --admin \
                 where it is",
                self.address
            ))
        })?;
        let status = answer.status().as_u16();
        let body =
            answer.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_string().map_err(|error| {
                Failure::failed(format!("{url}: the response is incomplete: {error}; try again"))
            })?;
        let value: Value = serde_json::from_str(&body).unwrap_or_default();
        match (status, value) {
            (401, _) => Err(Failure::failed(format!(
                "{url}: the server requires its token; use --config with the server's configuration, which has [admin] \
                 token. If the token in the file was changed, send SIGHUP to the server"
            ))),
            (200, Value::Object(object)) => Ok((200, Value::Object(object))),
            // Another server.
            (200, _) => Ok((404, Value::Null)),
            (status, value) => Ok((status, value)),
        }
    }
}

/// Escapes a value for a query string (RFC 3986 §2.1).
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a response.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_a_query() {
        assert_eq!(escape("sip:a&b=c@d/é"), "sip%3Aa%26b%3Dc%40d%2F%C3%A9");
    }
}
