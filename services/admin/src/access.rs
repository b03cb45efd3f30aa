//! Access rules of the admin API: the bearer token, and the headers Host and Origin.

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, SocketAddr};
use std::sync::{PoisonError, RwLock};
use subtle::ConstantTimeEq;

/// Conditions that a request must meet.
#[derive(Debug)]
pub(crate) struct AccessCheck {
    /// The hash of the token: comparing hashes tells nothing of the token's length.
    token: RwLock<Option<[u8; 32]>>,
    is_loopback: bool,
}

impl AccessCheck {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        Self { token: RwLock::new(hash_of(token)), is_loopback: address.ip().to_canonical().is_loopback() }
    }

    /// Requires another token from now on.
    pub(crate) fn set_token(&self, token: &str) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = hash_of(token);
    }

    /// Checks a request.
    ///
    /// # Errors
    /// The status and the reason of the refusal.
    pub(crate) fn check(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<(), (StatusCode, &'static str)> {
        self.check_without_token(method, headers)?;
        let token = *self.token.read().unwrap_or_else(PoisonError::into_inner);
        let Some(token) = token else { return Ok(()) };
        let given = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.as_bytes().split_at_checked(7))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "))
            .map_or(&[][..], |(_, given)| given.trim_ascii());
        let given: [u8; 32] = Sha256::digest(given).into();
        if bool::from(given.ct_eq(&token)) {
            Ok(())
        } else {
            let why = "give the token of [admin] token as Authorization: Bearer TOKEN";
            Err((StatusCode::UNAUTHORIZED, why))
        }
    }

    /// Checks a request for something that holds no data.
    ///
    /// # Errors
    /// The status and the reason of the refusal.
    pub(crate) fn check_without_token(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<(), (StatusCode, &'static str)> {
        if self.is_loopback && !names_loopback(headers) {
            let why = "this listener answers only to the names localhost, 127.0.0.1 and [::1]";
            return Err((StatusCode::FORBIDDEN, why));
        }
        let is_change = !method.is_safe();
        if is_foreign_page(headers) || is_change && !is_of_this_origin(headers) {
            let why = "web pages of other origins may not ask or change anything here";
            return Err((StatusCode::FORBIDDEN, why));
        }
        Ok(())
    }
}

fn hash_of(token: &str) -> Option<[u8; 32]> {
    (!token.is_empty()).then(|| Sha256::digest(token).into())
}

/// True for a request that a page of another origin makes, as browsers say of each request to this machine and over TLS: even
/// reading has effects, as a trace begins. Following a link is none.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    let is = |name, expected: &[&[u8]]| {
        headers.get(name).is_some_and(|value| expected.contains(&value.as_bytes()))
    };
    is("sec-fetch-site", &[b"cross-site", b"same-site"]) && !is("sec-fetch-mode", &[b"navigate"])
}

/// True unless a web page of another origin made the request: a browser names the page's origin in each request that may
/// change something, and programs that are not browsers name none.
fn is_of_this_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let (Ok(origin), Some(Ok(host))) = (origin.to_str(), headers.get(HOST).map(|host| host.to_str())) else {
        return false;
    };
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    named.is_some_and(|named| named.eq_ignore_ascii_case(host))
}

/// True when the request was meant for this machine by a name that no foreign DNS can give it.
fn names_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access_check(token: &str) -> AccessCheck {
        AccessCheck::new("127.0.0.1:8060".parse().unwrap(), token)
    }

    fn headers(host: &str, authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if !authorization.is_empty() {
            headers.insert(AUTHORIZATION, authorization.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_loopback_listener_answers_only_to_loopback_names() {
        for host in ["localhost", "LOCALHOST:8060", "127.0.0.1:8060", "[::1]:8060", "127.9.9.9"] {
            assert_eq!(access_check("").check(&Method::GET, &headers(host, "")), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:8060", "localhost.evil.example", "192.0.2.1", "", ":80"] {
            assert_eq!(
                access_check("").check(&Method::GET, &headers(host, "")).unwrap_err().0,
                StatusCode::FORBIDDEN,
                "{host}"
            );
        }
        assert!(access_check("").check(&Method::GET, &HeaderMap::new()).is_err());
        let open = AccessCheck::new("192.0.2.1:8060".parse().unwrap(), "");
        assert_eq!(open.check(&Method::GET, &headers("pbx.example.org", "")), Ok(()));
    }

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let check = access_check("s3cret");
        assert_eq!(check.check(&Method::GET, &headers("localhost", "Bearer s3cret")), Ok(()));
        assert_eq!(check.check(&Method::GET, &headers("localhost", "bearer s3cret")), Ok(()));
        for wrong in ["", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret"] {
            let refused = check.check(&Method::GET, &headers("localhost", wrong));
            assert_eq!(refused.unwrap_err().0, StatusCode::UNAUTHORIZED, "{wrong}");
        }
    }

    #[test]
    fn pages_of_other_origins_read_nothing_but_links_lead_here() {
        let check = |site: &str, mode: &str| {
            let mut headers = headers("127.0.0.1:8060", "");
            headers.insert("sec-fetch-site", site.parse().unwrap());
            headers.insert("sec-fetch-mode", mode.parse().unwrap());
            access_check("").check(&Method::GET, &headers).is_ok()
        };
        assert!(check("same-origin", "cors") && check("none", "navigate") && check("cross-site", "navigate"));
        assert!(!check("cross-site", "no-cors") && !check("same-site", "cors"));
    }

    #[test]
    fn only_pages_of_this_origin_change_something() {
        let check = |method: Method, origin: Option<&str>| {
            let mut headers = headers("127.0.0.1:8060", "");
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            access_check("").check(&method, &headers).map_err(|(status, _)| status)
        };
        for origin in
            ["http://evil.example", "http://127.0.0.1:80", "http://127.0.0.1", "null", "", "127.0.0.1:8060"]
        {
            for method in [Method::POST, Method::DELETE, Method::PUT] {
                assert_eq!(check(method, Some(origin)), Err(StatusCode::FORBIDDEN), "{origin}");
            }
            assert_eq!(check(Method::GET, Some(origin)), Ok(()), "{origin}");
        }
        assert_eq!(check(Method::POST, Some("http://127.0.0.1:8060")), Ok(()));
        assert_eq!(check(Method::POST, None), Ok(()), "a program that is no browser");
    }

    #[test]
    fn another_token_is_required_at_once() {
        let check = access_check("first");
        check.set_token("second");
        assert!(check.check(&Method::GET, &headers("localhost", "Bearer first")).is_err());
        assert_eq!(check.check(&Method::GET, &headers("localhost", "Bearer second")), Ok(()));
        check.set_token("");
        assert_eq!(check.check(&Method::GET, &headers("localhost", "")), Ok(()));
    }
}
