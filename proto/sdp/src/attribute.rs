//! Attributes (RFC 8866 §6).

use crate::Direction;
use crate::text::split_at_byte;
use alloc::vec::Vec;

/// An `a=` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

impl Attribute {
    /// Parses the part after `a=`. Blanks around name and value, which some senders append, are no part of them.
    pub(crate) fn parse(line: &[u8]) -> Self {
        let (name, value) = split_at_byte(line, b':');
        let trimmed = |text: &[u8]| text.trim_ascii().to_vec();
        Self { name: trimmed(name), value: value.map(trimmed) }
    }

    /// A property attribute, which has no value.
    pub(crate) fn flag(name: &str) -> Self {
        Self { name: name.into(), value: None }
    }

    /// A value attribute; the value must not contain a line break.
    pub(crate) fn with(name: &str, value: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), value: Some(value.into()) }
    }

    /// Name of the attribute.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Part after the colon, if there is one.
    pub fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }
}

/// Direction by these attributes. Of contradicting ones, the intersection.
pub(crate) fn direction(attributes: &[Attribute]) -> Option<Direction> {
    let named = attributes.iter().filter(|attribute| attribute.value.is_none());
    let directions = named.filter_map(|attribute| {
        DIRECTIONS.into_iter().find(|direction| direction.name().as_bytes() == attribute.name)
    });
    directions.reduce(Direction::and)
}

const DIRECTIONS: [Direction; 4] =
    [Direction::SendRecv, Direction::SendOnly, Direction::RecvOnly, Direction::Inactive];
