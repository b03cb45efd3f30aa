//! The list that users come in: CSV (RFC 4180) whose header names `username`, `password` and perhaps `domain`, in any
//! order, with LF, CRLF or CR at the ends of lines, and with or without a byte order mark.

use crate::UserName;
use crate::name::SHOWN_CHARS_MAX;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use csv_core::{ReadRecordResult, Reader};

/// Reads a list incrementally: takes bytes, returns rows. It buffers one row at a time.
pub struct UserList {
    /// Domain of rows without one.
    domain: String,
    core: Reader,
    /// `None`: the header was not read yet.
    columns: Option<Columns>,
    /// The fields of the row that is being read, one behind the other.
    text: Vec<u8>,
    text_bytes: usize,
    /// Ends of the first fields in `text`: as many as a header without faults can have, and one more.
    ends: [usize; COLUMNS_MAX + 1],
    fields: usize,
    /// Position of the row.
    start: Option<Position>,
    /// Number of bytes read.
    bytes: u64,
}

/// A row of the list.
#[derive(Debug)]
pub struct UserRow<'a> {
    /// The line that it begins in, from 1.
    pub line: u64,
    /// Number of bytes before it.
    pub byte: u64,
    /// The user.
    pub user: UserName,
    /// Its password, not checked yet (see [`UserName::ha1`]).
    pub password: &'a str,
}

/// A row that is wrong. The file's name is not part of it: the caller prints it first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {detail}")]
pub struct BadRow {
    /// The line that it begins in, from 1.
    pub line: u64,
    /// The fault, and the remedy.
    pub detail: String,
}

/// Indexes of the columns.
#[derive(Clone, Copy)]
struct Columns {
    count: usize,
    username: usize,
    password: usize,
    domain: Option<usize>,
}

#[derive(Clone, Copy)]
struct Position {
    line: u64,
    byte: u64,
}

impl UserList {
    /// Maximum length of a row in bytes.
    pub const ROW_BYTES_MAX: u64 = 256 << 10;

    /// A reader for a list whose rows without a domain belong to `domain`.
    pub fn new(domain: &str) -> Self {
        Self {
            domain: domain.to_owned(),
            core: Reader::new(),
            columns: None,
            text: Vec::new(),
            text_bytes: 0,
            ends: [0; COLUMNS_MAX + 1],
            fields: 0,
            start: None,
            bytes: 0,
        }
    }

    /// Reads the next row from `bytes`, and advances `bytes` by the length it read. `None`: there is no complete row in
    /// `bytes`; call it with the bytes that follow, and with none at the end of the list. `None` for no bytes: the end.
    ///
    /// # Errors
    /// The header or the row is wrong. The list cannot be read further.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<UserRow<'_>>, BadRow> {
        let is_end = bytes.is_empty();
        while self.read(bytes)? {
            let start = self.start.take().unwrap_or(Position { line: self.core.line(), byte: self.bytes });
            let bad = |detail| BadRow { line: start.line, detail };
            match self.columns {
                None => self.columns = Some(self.header().map_err(bad)?),
                Some(columns) => {
                    let Position { line, byte } = start;
                    let (user, password) = self.row(columns).map_err(bad)?;
                    return Ok(Some(UserRow { line, byte, user, password }));
                }
            }
        }
        match self.columns {
            None if is_end => Err(BadRow { line: self.core.line(), detail: NO_USERNAME.to_owned() }),
            None | Some(_) => Ok(None),
        }
    }

    /// Reads one row into `text` and `ends`. False: it is incomplete, or there are no more.
    ///
    /// # Errors
    /// The row is longer than [`UserList::ROW_BYTES_MAX`].
    fn read(&mut self, bytes: &mut &[u8]) -> Result<bool, BadRow> {
        // For the parser an empty slice is the end of the list, so it must not get one in the middle.
        let is_end = bytes.is_empty();
        if self.start.is_none() {
            self.skip_ends_of_lines(bytes);
            self.start = (!bytes.is_empty()).then(|| Position { line: self.core.line(), byte: self.bytes });
            (self.text_bytes, self.fields) = (0, 0);
        }
        // Of a row with too many fields only their number is reported.
        let mut more_ends = [0; 64];
        while is_end || !bytes.is_empty() {
            let ends = match self.ends.get_mut(self.fields..) {
                Some(ends) if !ends.is_empty() => ends,
                _ => &mut more_ends,
            };
            let text = self.text.get_mut(self.text_bytes..).unwrap_or_default();
            let (result, read, written, ended) = self.core.read_record(bytes, text, ends);
            *bytes = bytes.get(read..).unwrap_or_default();
            self.bytes += read as u64;
            if let Some(start) = self.start
                && self.bytes - start.byte > Self::ROW_BYTES_MAX
            {
                let detail = format!(
                    "the row is longer than {} bytes; end each row with a line break, and each quoted field with a quote",
                    Self::ROW_BYTES_MAX
                );
                return Err(BadRow { line: start.line, detail });
            }
            self.text_bytes += written;
            self.fields += ended;
            match result {
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => return Ok(false),
                ReadRecordResult::OutputFull => self.text.resize((self.text.len() * 2).max(256), 0),
                ReadRecordResult::OutputEndsFull => {}
            }
        }
        Ok(false)
    }

    /// Empty lines are no rows, and the LF of a CRLF is not in the line that it ends: a row's line is the one that its
    /// first character is in.
    fn skip_ends_of_lines(&mut self, bytes: &mut &[u8]) {
        while let Some((end @ (b'\r' | b'\n'), rest)) = bytes.split_first() {
            self.core.set_line(self.core.line() + u64::from(*end == b'\n'));
            self.bytes += 1;
            *bytes = rest;
        }
    }

    fn header(&self) -> Result<Columns, String> {
        let (mut username, mut password, mut domain) = (None, None, None);
        // Among four columns one is unknown or there twice: the others need not be looked at.
        for index in 0..self.fields.min(COLUMNS_MAX + 1) {
            let name = self.field(index).map_err(str::to_owned)?.trim();
            // Spreadsheets begin a UTF-8 file with a byte order mark.
            let name = name.strip_prefix('\u{feff}').unwrap_or(name);
            let column = match name {
                "username" => &mut username,
                "password" => &mut password,
                "domain" => &mut domain,
                other => {
                    let other: String = other.chars().take(SHOWN_CHARS_MAX).collect();
                    return Err(format!(
                        "unknown column {other:?}; the header is username,password and perhaps domain"
                    ));
                }
            };
            if column.replace(index).is_some() {
                return Err(format!("the column {name} is there twice"));
            }
        }
        match (username, password) {
            (Some(username), Some(password)) => {
                Ok(Columns { count: self.fields, username, password, domain })
            }
            (None, _) => Err(NO_USERNAME.to_owned()),
            (Some(_), None) => {
                Err("the column password is missing; the header is username,password".to_owned())
            }
        }
    }

    fn row(&self, columns: Columns) -> Result<(UserName, &str), String> {
        if self.fields != columns.count {
            return Err(format!(
                "the row has {} fields and the header {}; quote a field that has a comma",
                self.fields, columns.count
            ));
        }
        let mut fields = [""; COLUMNS_MAX];
        for (index, field) in fields.iter_mut().enumerate().take(self.fields) {
            *field = self.field(index)?;
        }
        let field = |column: usize| fields.get(column).copied().unwrap_or_default();
        let own = columns.domain.map(field).filter(|own| !own.is_empty());
        let user = UserName::new(field(columns.username), own.unwrap_or(&self.domain));
        Ok((user.map_err(|unusable| format!("{unusable}"))?, field(columns.password)))
    }

    /// A field of the row.
    fn field(&self, index: usize) -> Result<&str, &'static str> {
        let end_of = |index: usize| self.ends.get(index).copied().unwrap_or_default();
        let start = index.checked_sub(1).map_or(0, end_of);
        let bytes = self.text.get(start..end_of(index)).unwrap_or_default();
        core::str::from_utf8(bytes).map_err(|_| "the row is not UTF-8; save the file as UTF-8")
    }
}

impl fmt::Debug for UserList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The buffer contains passwords.
        write!(f, "UserList(line {})", self.core.line())
    }
}

/// Columns that a header can have.
const COLUMNS_MAX: usize = 3;
const NO_USERNAME: &str = "the column username is missing; the header is username,password";
