//! Lists of users: what is taken, which row is named, and that it does not matter how the bytes come in.
//!
//! Tested: headers, quoting, ends of lines, byte order marks, what is refused and with which words, limits, chunks of
//! every size, and against the `csv` crate, which reads the same language.

use crate::{BadRow, Ha1, NameHash, Subscribers, UserList};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use csv::{ReaderBuilder, StringRecord, Trim};
use ringway_sansio::{Rng, Seed};

/// Rows as line, user and password, read in chunks of `chunk` bytes.
fn read(text: &[u8], chunk: usize) -> Result<Vec<(u64, String, String)>, BadRow> {
    let mut list = UserList::new("example.org");
    let mut rows = Vec::new();
    for bytes in text.chunks(chunk).chain([&b""[..]]) {
        let mut rest = bytes;
        while let Some(row) = list.next(&mut rest)? {
            assert!(row.byte < text.len() as u64);
            rows.push((row.line, row.user.to_string(), row.password.to_owned()));
        }
        assert!(rest.is_empty());
    }
    Ok(rows)
}

fn subscribers(text: &[u8], users_max: usize) -> Result<Subscribers, BadRow> {
    Subscribers::from_csv(text, "example.org", |_| "realm", users_max, NameHash::new([3; 16]))
}

fn refused(text: &[u8]) -> String {
    let error = subscribers(text, 100).unwrap_err();
    for chunk in 1..=text.len() {
        if let Err(other) = read(text, chunk) {
            assert_eq!(other, error, "in chunks of {chunk}");
        }
    }
    error.to_string()
}

#[test]
fn a_list_becomes_users_with_the_hashes_of_their_passwords() {
    let users = subscribers(b"username,password\nalice,one\nbob,two\n", 100).unwrap();
    assert_eq!(users.len(), 2);
    let ha1 = Ha1::new(b"bob", b"realm", b"two");
    assert_eq!(users.find(&users.name("bob", "EXAMPLE.org")), Some(ha1));
    assert!(!users.contains(&users.name("carol", "example.org")));
    assert_eq!(users.domains().collect::<Vec<_>>(), ["example.org"]);
}

#[test]
fn a_row_without_an_end_is_refused_at_its_line_before_it_fills_the_memory() {
    let longest = UserList::ROW_BYTES_MAX as usize;
    let start = "username,password\nalice,1\n\n";
    for row in ["a".repeat(1 << 20), format!("bob,\"{}", "x\n".repeat(1 << 19)), ",".repeat(1 << 20)] {
        for chunk in [64, 8192, 1 << 22] {
            let error = read(format!("{start}{row}").as_bytes(), chunk).unwrap_err();
            assert_eq!(error.line, 4, "{error}");
            assert!(error.detail.contains("longer than 262144 bytes") && error.detail.len() < 200, "{error}");
        }
    }
    let error = read("a".repeat(1 << 20).as_bytes(), 8192).unwrap_err();
    assert!(error.line == 1 && error.detail.contains("longer than"), "{error}");
    // The longest row is read: another rule refuses its name.
    let row = format!("{},1\n", "b".repeat(longest - 10));
    let error = read(format!("{start}{row}").as_bytes(), 8192).unwrap_err();
    assert!(error.detail.contains("255 bytes") && error.detail.len() < 200, "{error}");
    let rows =
        read(format!("username,password\n{}alice,1\n", "\n".repeat(100_000)).as_bytes(), 8192).unwrap();
    assert_eq!(rows[0].0, 100_002, "empty lines are no rows");
}

#[test]
fn columns_come_in_any_order_and_a_row_may_name_its_domain() {
    let text = b"password,domain,username\n\"a,\"\"b\"\"\",Other.example,bob\nx,,carol\n";
    let rows = read(text, 1000).unwrap();
    assert_eq!(rows[0], (2, "bob@other.example".to_owned(), "a,\"b\"".to_owned()));
    assert_eq!(rows[1], (3, "carol@example.org".to_owned(), "x".to_owned()));
    let users = subscribers(text, 100).unwrap();
    assert_eq!(users.domains().collect::<Vec<_>>(), ["other.example", "example.org"]);
}

#[test]
fn what_spreadsheets_write_is_read_whatever_pieces_it_comes_in() {
    let unix = "username,password\nalice,\"a b\"\nbob,\u{fc}\n";
    let rows = read(unix.as_bytes(), 1000).unwrap();
    assert_eq!(rows.len(), 2);
    let windows = format!("\u{feff}{}", unix.replace('\n', "\r\n"));
    let blanks = unix.replace("username,password", " username ,\tpassword");
    for text in [unix, &windows, windows.trim_end(), unix.trim_end(), &blanks] {
        for chunk in 1..=text.len() {
            assert_eq!(read(text.as_bytes(), chunk).unwrap(), rows, "{text:?} in chunks of {chunk}");
        }
    }
    let spaced = refused(b"username,password\nbob ,1\n");
    assert!(spaced.starts_with("2: \"bob \": a user name has no spaces"), "{spaced}");
}

#[test]
fn the_wrong_row_is_named_with_its_line_and_what_to_do() {
    for (text, error) in [
        (
            &b"username,password\nbob,1\ncarol\n"[..],
            "3: the row has 1 fields and the header 2; quote a field that has a comma",
        ),
        (
            b"username,password\nbob,1,2,3,4,5,6,7\n",
            "2: the row has 8 fields and the header 2; quote a field that has a comma",
        ),
        (b"username,password\nbob,1\n,2\n", "3: \"\": a user name has 1 to 255 bytes"),
        (
            b"username,password\nbob,1\nbob,2\n",
            "3: bob@example.org is there already, in a row above; take the row out",
        ),
        (
            b"username,password,domain\nbob,1,\nbob,2,EXAMPLE.org\n",
            "3: bob@example.org is there already, in a row above; take the row out",
        ),
        (
            b"username,password\nbob,\n",
            "2: the password of bob@example.org: it is empty; give one of at least 1 character",
        ),
        (
            b"username,password\nbob,\"a\nb\"\n",
            "2: the password of bob@example.org: it has control characters; give one without",
        ),
        (
            b"username,password,domain\nbob,1,\ncarol,2,exa mple\n",
            "3: \"exa mple\": a domain has letters, digits, dots and hyphens only",
        ),
        (b"username,password\nbob,1\ncarol,\xff\n", "3: the row is not UTF-8; save the file as UTF-8"),
        (b"username,password\n\xc3,\xa9\n", "2: the row is not UTF-8; save the file as UTF-8"),
        (b"username,p\xffassword\n", "1: the row is not UTF-8; save the file as UTF-8"),
        (
            b"name,password\nbob,1\n",
            "1: unknown column \"name\"; the header is username,password and perhaps domain",
        ),
        (b"username\nbob\n", "1: the column password is missing; the header is username,password"),
        (b"password\n1\n", "1: the column username is missing; the header is username,password"),
        (b"", "1: the column username is missing; the header is username,password"),
        (b"username,password,username\nbob,1,x\n", "1: the column username is there twice"),
        (
            b"username,password,domain,a,b,c\n",
            "1: unknown column \"a\"; the header is username,password and perhaps domain",
        ),
    ] {
        assert_eq!(refused(text), error);
    }
}

#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    for (text, line) in [
        (&b"username,password\r\nbob,1\r\ncarol\r\n"[..], 3),
        (b"username,password\n\n\nbob,1\n\n\ncarol\n", 7),
        (b"\r\n\r\nusername,password\r\n\r\nbob,1\r\n\r\ncarol", 7),
        (b"username,password,domain\nbob,\"1\",\"example.org\"\n\"ca\nrol\",2,\n", 3),
        (b"\n\nname\n", 3),
    ] {
        for chunk in 1..=text.len() {
            assert_eq!(read(text, chunk).unwrap_err().line, line, "{text:?} in chunks of {chunk}");
        }
    }
}

#[test]
fn an_empty_list_has_no_users_and_a_full_one_no_more_than_allowed() {
    assert!(subscribers(b"username,password", 0).unwrap().is_empty());
    assert!(subscribers(b"username,password\n", 0).unwrap().is_empty());
    let list = |users: usize| {
        let rows: String = (0..users).map(|n| format!("user{n},secret{n}\n")).collect();
        format!("username,password\n{rows}").into_bytes()
    };
    assert_eq!(subscribers(&list(2_000), 2_000).unwrap().len(), 2_000);
    let error = subscribers(&list(2_001), 2_000).unwrap_err();
    assert_eq!(error.to_string(), "2002: at most 2000 users are taken; take rows out");
}

#[test]
fn rows_larger_than_any_buffer_are_read() {
    let password = "x".repeat(100_000);
    let text = format!("username,password\nbob,{password}\ncarol,y\n");
    for chunk in [1_000, 4_096, 1_000_000] {
        let rows = read(text.as_bytes(), chunk).unwrap();
        assert_eq!((rows.len(), rows[0].2.len(), rows[1].2.as_str()), (2, 100_000, "y"));
    }
    let commas = ["username,password\n", &",".repeat(100_000)].concat();
    assert_eq!(
        read(commas.as_bytes(), 4_096).unwrap_err().detail,
        "the row has 100001 fields and the header 2; quote a field that has a comma"
    );
}

/// The rows as the `csv` crate has them, up to the first that is wrong; `None`: it refuses the header.
fn by_csv(text: &[u8]) -> Option<Vec<StringRecord>> {
    let mut reader = ReaderBuilder::new().trim(Trim::Headers).from_reader(text);
    let header: Vec<String> =
        reader.headers().ok()?.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
    if header != ["username", "password"] {
        return None;
    }
    Some(reader.records().map_while(Result::ok).collect())
}

#[test]
fn it_reads_what_the_csv_crate_reads_in_whatever_pieces() {
    let mut taken = 0;
    for seed in 0..3_000 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut text = b"username,password\n".to_vec();
        for _ in 0..rng.below(12) {
            // A row, here and there with something in it that makes it another one.
            for piece in [&b"a"[..], b"\xc3\xa9", b",", b"b", b"\n"] {
                let noise: [&[u8]; 9] =
                    [b",", b"\n", b"\r\n", b"\r", b"\"", b"\"\"", b" ", b"\xef\xbb\xbf", b"\xff"];
                if rng.random_bool(40) {
                    text.extend_from_slice(noise[rng.below(9) as usize]);
                }
                if !rng.random_bool(20) {
                    text.extend_from_slice(piece);
                }
            }
        }
        let chunk = 1 + rng.below(20) as usize;
        let mut list = UserList::new("example.org");
        let mut ours = Vec::new();
        'all: for bytes in text.chunks(chunk).chain([&b""[..]]) {
            let mut rest = bytes;
            loop {
                match list.next(&mut rest) {
                    Ok(Some(row)) => ours.push((row.user.name().to_owned(), row.password.to_owned())),
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
        }
        let theirs = by_csv(&text).unwrap();
        let theirs: Vec<_> = theirs.iter().map(|row| (row[0].to_owned(), row[1].to_owned())).collect();
        assert_eq!(ours, theirs[..ours.len()], "seed {seed}: {text:?}");
        // Where it stopped before, the name is one that no user has.
        if let Some((name, _)) = theirs.get(ours.len()) {
            assert!(crate::UserName::new(name, "example.org").is_err(), "seed {seed}: {text:?}");
        }
        taken += ours.len();
    }
    assert!(taken > 5_000, "only {taken} rows");
}
