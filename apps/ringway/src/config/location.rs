//! `[location]`: the service that has the bindings of users.

use super::{Reader, Section, store};
use ringway_redis::LocationUrl;
use ringway_server::Hold;
use std::path::Path;

/// `[location]` with a store that nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocationConfig {
    pub(crate) url: LocationUrl,
    pub(crate) hold: Hold,
}

/// Reads the section. `None`: this process has the bindings, backed by `[store]`.
pub(super) fn read(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Option<LocationConfig> {
    let mut section = top.section(reader, "location");
    section.note_default(reader, "url", || "\"local:\"".to_owned());
    let given = section.text(reader, "url").filter(|(text, _)| *text != "local:");
    let url = given.and_then(|(text, at)| {
        let url = LocationUrl::parse(text);
        let why = |error| format!("{error}; or give \"local:\" for a server that is alone");
        url.map_err(|error| reader.error(at, section.path("url"), why(error))).ok()
    });
    if let (Some((_, at)), Some(_), None) = (given, &url, top.place("cluster")) {
        let why = "needs the section [cluster] with node, listen and secret, as there are several servers";
        reader.error(at, section.path("url"), why);
    }
    let location = match url {
        Some(url) => {
            let hold =
                section.word(reader, "hold", Hold::All, &[("all", Hold::All), ("served", Hold::Served)]);
            Some(LocationConfig { url: protected(reader, &mut section, url), hold })
        }
        None => {
            // The URL itself is wrong, and its error is enough.
            if given.is_none() {
                for key in ["hold", "password_file", "ca"] {
                    section.refuse(reader, key, "it is for a redis:// or rediss:// url");
                }
            } else {
                for key in ["hold", "password_file", "ca"] {
                    let _ = section.text(reader, key);
                }
            }
            None
        }
    };
    section.finish(reader);
    location
}

/// The URL with its password and the authorities of its servers.
fn protected(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, url: LocationUrl) -> LocationUrl {
    let url = match section.text(reader, "password_file") {
        None => url,
        Some((_, at)) if url.has_password() => {
            reader.error(at, section.path("password_file"), "the url has a password too; leave it out there");
            url
        }
        Some((file, at)) => match store::read_password(file) {
            Ok(password) => url.with_password(&password),
            Err(why) => {
                reader.error(at, section.path("password_file"), format!("{file:?} {why}"));
                url
            }
        },
    };
    if !url.is_tls() {
        section.refuse(reader, "ca", "it is for a rediss:// url");
        return url;
    }
    let ca = section.text(reader, "ca");
    section.note_default(reader, "ca", || "\"system\"".to_owned());
    let file = ca.map(|(text, _)| text).filter(|text| *text != "system").map(Path::new);
    match ringway_tls::authorities("ca", file) {
        Ok(authorities) => url.with_authorities(authorities),
        Err(error) => {
            let at = ca.map_or(0, |(_, at)| at);
            reader.error(at, section.path("ca"), error.to_string());
            url
        }
    }
}
