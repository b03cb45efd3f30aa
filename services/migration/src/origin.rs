//! The servers whose databases are read, and the names of their tables.

/// A server whose database is read. The two have a common ancestor, and most of their tables in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Kamailio 4 to 6.
    Kamailio,
    /// OpenSIPS 2 to 4.
    OpenSips,
}

impl Origin {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kamailio => "Kamailio",
            Self::OpenSips => "OpenSIPS",
        }
    }

    /// Column of H(A1) with SHA-256.
    pub(crate) const fn sha256_column(self) -> Option<&'static str> {
        match self {
            Self::Kamailio => None,
            Self::OpenSips => Some("ha1_sha256"),
        }
    }

    /// Table and columns of networks: address, prefix length, group, remark.
    pub(crate) const fn addresses(self) -> (&'static str, [&'static str; 4]) {
        match self {
            Self::Kamailio => ("address", ["ip_addr", "mask", "grp", "tag"]),
            Self::OpenSips => ("address", ["ip", "mask", "grp", "context_info"]),
        }
    }

    /// Table and columns of accounts at other servers: host, user name.
    pub(crate) const fn registrations(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Kamailio => ("uacreg", ["r_domain", "auth_username"]),
            Self::OpenSips => ("registrant", ["registrar", "username"]),
        }
    }

    /// Tables that are not read but say how the server worked, with what to do about them.
    pub(crate) const fn left_tables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Kamailio => &KAMAILIO,
            Self::OpenSips => &OPENSIPS,
        }
    }
}

const ALIASES: (&str, &str) = ("dbaliases", "aliases of users: `ringway user bind ALIAS sip:USER@DOMAIN`");
const DIALPLAN: (&str, &str) = ("dialplan", "number rules: [[route]] with strip and add");
const DISPATCHER: (&str, &str) = ("dispatcher", "servers behind this one: [[trunk]] and [[route]]");
const GATEWAYS: (&str, &str) = ("dr_gateways", "gateways: [[trunk]]");
const RULES: (&str, &str) = ("dr_rules", "prefixes: [[route]]");
const BLACKLIST: (&str, &str) = ("userblacklist", "blocked numbers: `ringway block add`, [[destination]]");
const PREFERENCES: (&str, &str) =
    ("usr_preferences", "settings that a script reads: forwards are `ringway user forward`");
const SPEED_DIAL: (&str, &str) = ("speed_dial", "speed dial: no counterpart");
const LOCATION: (&str, &str) = ("location", "registrations: phones register again");

const KAMAILIO: [(&str, &str); 11] = [
    ALIASES,
    DIALPLAN,
    DISPATCHER,
    GATEWAYS,
    RULES,
    BLACKLIST,
    PREFERENCES,
    SPEED_DIAL,
    LOCATION,
    ("lcr_gw", "gateways: [[trunk]]"),
    ("lcr_rule", "prefixes: [[route]]"),
];

const OPENSIPS: [(&str, &str); 10] = [
    ALIASES,
    DIALPLAN,
    DISPATCHER,
    GATEWAYS,
    RULES,
    BLACKLIST,
    PREFERENCES,
    SPEED_DIAL,
    LOCATION,
    ("load_balancer", "servers behind this one: [[trunk]] and [[route]] with weights"),
];
