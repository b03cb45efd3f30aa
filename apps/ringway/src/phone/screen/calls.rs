//! The file with the history of calls, beside `phone.toml`.

use crate::phone::private_file;
use ringway_ui::phone::{Model, PAST_CALLS_BYTES_MAX};
use std::path::{Path, PathBuf};

/// Path of the file for a configuration.
pub(super) fn beside(config: &Path) -> PathBuf {
    config.with_extension("calls")
}

/// Reads the history into the model. The text in `Ok` says that lines were left out.
///
/// # Errors
/// One line for the user; the file must not be written then, because it is not a history of this program or others may
/// read it.
pub(super) fn read(file: &Path, model: &mut Model) -> Result<Option<String>, String> {
    let text = private_file::read(file, "the history of calls", PAST_CALLS_BYTES_MAX as u64)
        .map_err(|why| format!("{why}; calls are not stored"))?;
    let wrong = model.set_past_calls(&text.unwrap_or_default());
    let name = file.display();
    Ok((wrong > 0).then(|| format!("{name}: {wrong} lines are no calls; the next call removes them")))
}

/// Writes the history with mode 600.
pub(super) fn write(file: &Path, calls: &str) -> Result<(), String> {
    private_file::replace(file, calls.as_bytes(), private_file::MODE).map_err(|error| {
        format!("{}: cannot write the history of calls: {error}; check the folder", file.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_ui::phone::{Host, Settings};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn model() -> Model {
        Model::new(Settings::default(), Host::System { file: "phone.toml".to_owned() })
    }

    #[test]
    fn a_hostile_file_is_refused_or_its_lines_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = beside(&folder.path().join("phone.toml"));
        assert_eq!(read(&file, &mut model()), Ok(None), "there is none yet");
        let line = "05-01 14:03:07\tin\ttalked\t61\tZRTP\tBob\tsip:bob@example.org\t\n";
        write(&file, &format!("# head\n{line}rubbish\n\u{1b}[2J\n")).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let mut with_one = model();
        let notice = read(&file, &mut with_one).unwrap().unwrap();
        assert!(notice.contains("2 lines are no calls"), "{notice}");
        assert!(with_one.past_calls().ends_with(line), "{}", with_one.past_calls());
        for bytes in [b"\xff\xfe\n".to_vec(), vec![b'x'; PAST_CALLS_BYTES_MAX + 1]] {
            fs::write(&file, bytes).unwrap();
            let why = read(&file, &mut model()).unwrap_err();
            assert!(why.contains("calls are not stored"), "{why}");
        }
        write(&file, line).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&file, &mut model()).unwrap_err().contains("chmod 600"));
    }
}
