//! Client of the admin API of a running server.

use crate::args::ServerArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::printable;
use crate::password;
use ringway_admin::TokenProof;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use ureq::http::Response;
use ureq::{Agent, RequestBuilder};

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
            // The server closes one that is open for long, perhaps as the next request is sent.
            .max_idle_connections(0)
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
        match self.answer(&url, self.with_token(self.agent.get(&url))?.call())? {
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
        self.answer(&url, self.with_token(self.agent.post(&url))?.send(body))
    }

    /// Requests the end of something. Returns the same as [`AdminClient::post`].
    pub(crate) fn delete(&self, path: &str) -> Result<(u16, Value), Failure> {
        let url = self.url(path);
        self.answer(&url, self.with_token(self.agent.delete(&url))?.call())
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Adds the token, after the process that listens at the address proved that it has it too: any account of a machine may
    /// listen at a port that no server uses.
    fn with_token<B>(&self, request: RequestBuilder<B>) -> Result<RequestBuilder<B>, Failure> {
        if self.token.is_empty() {
            return Ok(request);
        }
        let proof = TokenProof::new(&self.token, password::bytes()?);
        let url = self.url(TokenProof::PATH);
        let asked = self.agent.get(&url).header("Authorization", proof.authorization());
        let (status, answer) = self.answer(&url, asked.call())?;
        if status == 200 && answer.get("token") == Some(&Value::Bool(false)) {
            return Ok(request);
        }
        match answer.get("proof").and_then(Value::as_str) {
            Some(given) if proof.is_of_server(given) => {
                Ok(request.header("Authorization", format!("Bearer {}", self.token)))
            }
            _ => Err(Failure::failed(format!(
                "the program at {} did not prove that it has the token of [admin] token, which was not sent to it; check that it is \
                 the server, and of this version: after an update, restart it",
                self.address
            ))),
        }
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
                 token. If the token in the file was changed, send SIGHUP to the server; after an update, restart it"
            ))),
            (429, value) => {
                let why = value.get("error").and_then(Value::as_str).unwrap_or_default();
                Err(Failure::failed(format!("the server at {} refused: {}", self.address, printable(why))))
            }
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
