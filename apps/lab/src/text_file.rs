//! Text files with a limit of their size: a device or a file of another program must not fill the memory.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads a text file of at most `bytes_max` bytes.
///
/// # Errors
/// It cannot be read, is longer, has a null byte, or is not valid UTF-8. The error begins with the path.
pub fn read(path: &Path, bytes_max: usize) -> Result<String> {
    match String::from_utf8(bytes(path, bytes_max)?) {
        Ok(text) => Ok(text),
        Err(_) => bail!("{}: not valid UTF-8; save it as UTF-8", path.display()),
    }
}

/// Reads an XML file of at most `bytes_max` bytes, in UTF-8, or in ISO-8859-1 if its first line says so, as SIPp's files do.
///
/// # Errors
/// As [`read`].
pub fn read_xml(path: &Path, bytes_max: usize) -> Result<String> {
    String::from_utf8(bytes(path, bytes_max)?).or_else(|error| {
        let bytes = error.into_bytes();
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default().to_ascii_lowercase();
        let is_latin = memchr::memmem::find(&first, b"iso-8859-1").is_some();
        // Each byte is the code point.
        is_latin.then(|| bytes.iter().copied().map(char::from).collect()).with_context(|| {
            format!("{}: not valid UTF-8, and it does not declare ISO-8859-1", path.display())
        })
    })
}

fn bytes(path: &Path, bytes_max: usize) -> Result<Vec<u8>> {
    let name = || path.display().to_string();
    let mut file = File::open(path).with_context(name)?;
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        // One byte more than the limit shows that the file is longer.
        let room = (bytes_max + 1 - start).min(CHUNK_BYTES) as u64;
        if file.by_ref().take(room).read_to_end(&mut bytes).with_context(name)? == 0 {
            break;
        }
        if bytes.get(start..).unwrap_or_default().contains(&0) {
            bail!("{}: not a text file: it has null bytes", name());
        }
        if bytes.len() > bytes_max {
            bail!("{}: more than {} MB; such files are smaller", name(), bytes_max >> 20);
        }
    }
    Ok(bytes)
}

/// Number of bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_xml_file_may_have_the_encoding_that_sipp_declares() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.xml");
        let read = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            read_xml(&path, 100).map_err(|error| format!("{error:#}"))
        };
        let latin = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\nK\xf6ln";
        assert!(read(latin).unwrap().ends_with("K\u{f6}ln"));
        assert!(read("<?xml?>K\u{f6}ln".as_bytes()).unwrap().ends_with("K\u{f6}ln"));
        assert!(read(b"<?xml?>K\xf6ln").unwrap_err().contains("does not declare ISO-8859-1"));
    }

    #[test]
    fn text_is_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        let read = |text: &[u8], bytes_max| {
            fs::write(&path, text).unwrap();
            super::read(&path, bytes_max).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(read("grüße".as_bytes(), 7), Ok("grüße".into()));
        assert!(read(b"123456789", 8).unwrap_err().contains("list: more than 0 MB"));
        let long = "x".repeat(CHUNK_BYTES + 5);
        assert_eq!(read(long.as_bytes(), long.len()).map(|text| text.len()), Ok(long.len()));
        assert!(read(long.as_bytes(), long.len() - 1).is_err());
        assert!(read(b"a\0b", 8).unwrap_err().contains("not a text file"));
        assert!(read(b"\xff", 8).unwrap_err().contains("not valid UTF-8"));
        assert!(super::read(&folder.path().join("none"), 8).is_err());
    }

    #[test]
    fn a_device_without_an_end_is_refused_at_once() {
        let error = super::read(Path::new("/dev/zero"), usize::MAX >> 1).unwrap_err().to_string();
        assert!(error.starts_with("/dev/zero: not a text file"), "{error}");
    }
}
