//! Rules for the header fields of the messages of a trunk (decision 0062).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sip::HeaderName;
use ringway_sip::grammar::is_token_str;

/// Rule for one header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderRule {
    /// The header field.
    pub name: FieldName,
    /// Messages of the trunk, or to it.
    pub direction: RuleDirection,
    /// Requests, responses, or both.
    pub messages: RuleMessages,
    /// Methods, for a response that of its CSeq; empty: all.
    pub methods: Vec<String>,
    /// The change.
    pub action: RuleAction,
}

/// Direction of the messages that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleDirection {
    /// The trunk sent them.
    In,
    /// The trunk gets them.
    Out,
}

/// Kind of the messages that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleMessages {
    /// Requests.
    Requests,
    /// Responses.
    Responses,
    /// Both.
    All,
}

/// Change of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Removes the lines whose value matches; `None`: all lines.
    Remove(Option<Pattern>),
    /// Adds a line with this value.
    Add(Box<[u8]>),
    /// Replaces what matches in each line by the text, in which `$1` and `${name}` are groups of the pattern.
    Replace(Pattern, Box<[u8]>),
}

/// Name of a header field that rules may change, in its long form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldName {
    known: HeaderName,
    text: Box<[u8]>,
}

impl FieldName {
    /// Reads a name, long or compact.
    ///
    /// # Errors
    /// The fault: it is no name, or transactions, dialogs, authentication or registrations need the field.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = text.as_bytes();
        if !is_token_str(bytes) || bytes.len() > NAME_BYTES_MAX {
            return Err(String::from("is not the name of a header field"));
        }
        let known = HeaderName::from_bytes(bytes);
        let long = match known {
            HeaderName::Other => bytes,
            known => known.as_bytes(),
        };
        let is_proxy = long.get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"Proxy-"));
        if is_proxy
            || NEEDED.contains(&known)
            || NEEDED_OTHERS.iter().any(|name| name.eq_ignore_ascii_case(long))
        {
            return Err(format!(
                "is {}, which transactions, dialogs, authentication or the body need",
                String::from_utf8_lossy(long)
            ));
        }
        Ok(Self { known, text: long.into() })
    }

    /// True for a name as it is spelled in a message.
    pub(crate) fn is(&self, spelled: &[u8]) -> bool {
        match (self.known, spelled) {
            (HeaderName::Other, spelled) => self.text.eq_ignore_ascii_case(spelled),
            (known, [_]) => HeaderName::from_bytes(spelled) == known,
            (_, spelled) => self.text.eq_ignore_ascii_case(spelled),
        }
    }

    /// The long form.
    pub(crate) const fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

/// Regular expression for values. Its program has a limit, and the time of a search is proportional to the length of the value.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Box<str>,
    #[cfg(feature = "patterns")]
    regex: regex::bytes::Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

#[cfg(feature = "patterns")]
impl Pattern {
    /// Reads a regular expression of the crate `regex` over bytes, without classes of Unicode.
    ///
    /// # Errors
    /// The fault: the expression cannot be read, or is too large.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > PATTERN_BYTES_MAX {
            return Err(format!("is not 1 to {PATTERN_BYTES_MAX} bytes long"));
        }
        let mut builder = regex::bytes::RegexBuilder::new(text);
        builder.unicode(false).nest_limit(NESTED_MAX);
        let limits = builder.size_limit(PROGRAM_BYTES_MAX).dfa_size_limit(PROGRAM_BYTES_MAX);
        let regex = limits.build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => format!("needs more than {PROGRAM_BYTES_MAX} bytes of memory"),
            error => format!("is no regular expression: {error}"),
        })?;
        Ok(Self { text: text.into(), regex })
    }

    /// Checks that a replacement names groups of the expression only.
    ///
    /// # Errors
    /// The name of a group that there is not.
    pub fn check(&self, replacement: &str) -> Result<(), String> {
        let mut rest = replacement;
        while let Some((_, after)) = rest.split_once('$') {
            rest = after.strip_prefix('$').unwrap_or(after);
            if rest.len() < after.len() {
                continue;
            }
            let name = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
                Some((name, _)) => name,
                None => {
                    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    after.split(|c| !is_name(c)).next().unwrap_or_default()
                }
            };
            let is_group = match name.parse::<usize>() {
                Ok(number) => number < self.regex.captures_len(),
                Err(_) => self.regex.capture_names().flatten().any(|group| group == name),
            };
            if !is_group {
                return Err(format!("names the group {name:?}, which `match` does not have"));
            }
        }
        Ok(())
    }

    /// True if a part of the value matches.
    pub(crate) fn is_match(&self, value: &[u8]) -> bool {
        self.regex.is_match(value)
    }

    /// The value with the replacement in place of the first part that matches; `None`: none does.
    pub(crate) fn replaced(&self, value: &[u8], replacement: &[u8]) -> Option<Vec<u8>> {
        let found = self.regex.captures(value)?;
        let whole = found.get(0)?;
        let mut out = value.get(..whole.start())?.to_vec();
        found.expand(replacement, &mut out);
        out.extend_from_slice(value.get(whole.end()..)?);
        Some(out)
    }
}

#[cfg(not(feature = "patterns"))]
impl Pattern {
    /// Refuses the expression: this build has no regular expressions.
    ///
    /// # Errors
    /// Always.
    pub fn parse(_: &str) -> Result<Self, String> {
        Err(String::from("is not supported in this build; remove the key"))
    }

    /// Accepts any replacement.
    ///
    /// # Errors
    /// None.
    pub fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    pub(crate) fn is_match(&self, _: &[u8]) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn replaced(&self, _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// True for a text that a rule may write as a value, or into one.
pub fn is_value(text: &str) -> bool {
    text.len() <= HeaderRule::VALUE_BYTES_MAX && text.bytes().all(|byte| byte >= b' ' && byte != 127)
}

impl HeaderRule {
    /// Maximum number of rules of all trunks.
    pub const RULES_MAX: usize = 64;
    /// Maximum length of a value that a rule reads or makes.
    pub const VALUE_BYTES_MAX: usize = 1024;
    /// Maximum number of bytes that the rules add to one message.
    pub(crate) const ADDED_BYTES_MAX: usize = 2048;
    /// Maximum number of lines of its name that a rule searches in one message.
    pub(crate) const LINES_MAX: usize = 16;
}

/// Maximum length of a name.
const NAME_BYTES_MAX: usize = 64;
/// Maximum length of a regular expression as it is written.
#[cfg(feature = "patterns")]
const PATTERN_BYTES_MAX: usize = 256;
/// Maximum size of its program.
#[cfg(feature = "patterns")]
const PROGRAM_BYTES_MAX: usize = 65_536;
/// Maximum depth of groups in each other.
#[cfg(feature = "patterns")]
const NESTED_MAX: u32 = 16;

/// Fields that no rule may change.
const NEEDED: &[HeaderName] = &[
    HeaderName::Via,
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::CSeq,
    HeaderName::Contact,
    HeaderName::ContentLength,
    HeaderName::ContentType,
    HeaderName::ContentEncoding,
    HeaderName::MaxForwards,
    HeaderName::MaxBreadth,
    HeaderName::Route,
    HeaderName::RecordRoute,
    HeaderName::Path,
    HeaderName::ServiceRoute,
    HeaderName::Expires,
    HeaderName::MinExpires,
    HeaderName::Authorization,
    HeaderName::WwwAuthenticate,
    HeaderName::AuthenticationInfo,
    HeaderName::Require,
    HeaderName::Supported,
    HeaderName::Unsupported,
    HeaderName::Event,
    HeaderName::SubscriptionState,
    HeaderName::ReferTo,
    HeaderName::Replaces,
    HeaderName::RSeq,
    HeaderName::RAck,
    HeaderName::SessionExpires,
    HeaderName::RetryAfter,
    HeaderName::FlowTimer,
];

/// Those without a [`HeaderName`], besides all that begin with `Proxy-`.
const NEEDED_OTHERS: &[&[u8]] = &[
    b"Content-Disposition",
    b"Join",
    b"MIME-Version",
    b"Min-SE",
    b"SIP-ETag",
    b"SIP-If-Match",
    b"Target-Dialog",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_the_server_needs_are_refused_in_each_form() {
        for name in
            ["Via", "v", "CALL-ID", "i", "m", "Proxy-Authorization", "proxy-config", "min-se", "k", "r"]
        {
            assert!(FieldName::parse(name).unwrap_err().contains("which transactions"), "{name}");
        }
        for name in ["", "X Y", "X:", "Ü", &"x".repeat(65)] {
            assert!(FieldName::parse(name).unwrap_err().contains("not the name"), "{name}");
        }
        let subject = FieldName::parse("s").unwrap();
        assert_eq!(subject, FieldName::parse("subject").unwrap());
        assert!(subject.is(b"S") && subject.is(b"SUBJECT") && !subject.is(b"X-Subject"));
        assert!(FieldName::parse("X-Account").unwrap().is(b"x-account"));
    }

    #[test]
    fn the_guide_has_the_fields() {
        let guide = include_str!("../../../../docs/recipes/trunks.md");
        let (_, list) = guide.split_once("No rule changes ").unwrap();
        let (list, _) = list.split_once(", nor any field that begins with").unwrap();
        let mut listed: Vec<&str> = list.split(", ").map(|name| name.trim_matches('`')).collect();
        let names = NEEDED.iter().map(|name| name.as_bytes()).chain(NEEDED_OTHERS.iter().copied());
        let mut own: Vec<&str> = names.map(|name| core::str::from_utf8(name).unwrap()).collect();
        listed.sort_unstable();
        own.sort_unstable();
        assert_eq!(listed, own);
    }

    #[cfg(feature = "patterns")]
    #[test]
    fn a_pattern_that_is_wrong_or_large_is_refused() {
        let large = format!("({}){{200}}{{200}}", "a");
        for (text, fault) in [
            ("(", "no regular expression"),
            ("", "1 to 256"),
            (large.as_str(), "bytes of memory"),
            ("(((((((((((((((((((a)))))))))))))))))))", "no regular expression"),
            (r"\p{Greek}", "no regular expression"),
        ] {
            assert!(Pattern::parse(text).unwrap_err().contains(fault), "{text}: {:?}", Pattern::parse(text));
        }
        let pattern = Pattern::parse("^(?P<area>[0-9]+)-(.*)$").unwrap();
        for replacement in ["$1", "${area}x", "$2$$5", "none", "$$"] {
            assert_eq!(pattern.check(replacement), Ok(()), "{replacement}");
        }
        for replacement in ["$3", "$1x", "${nothing}", "$", "$$$x"] {
            assert!(pattern.check(replacement).is_err(), "{replacement}");
        }
        assert_eq!(pattern.replaced(b"030-1234", b"$2").unwrap(), b"1234");
        assert_eq!(pattern.replaced(b"none", b"$2"), None);
    }
}
