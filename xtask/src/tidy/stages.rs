//! The core of the proxy names no feature: those are stages, in folders of their own.

use super::File;
use super::lengths::code_of;

/// Folder whose own files are the core.
const CORE: &str = "proto/server/src/proxy/";

/// Files of the core that may name a feature: the entries from drivers, the kinds of lookups, and the limits, of which recursion has a part.
const MAY_NAME: [&str; 3] = ["mod.rs", "lookups.rs", "limits.rs"];

/// Words of features in names.
const FEATURES: [&str; 17] = [
    "trunk",
    "relay",
    "media",
    "sdp",
    "divers",
    "diverted",
    "lamp",
    "dialog_state",
    "recurs",
    "numbertarget",
    "number_lookup",
    "enum_zones",
    "candidate",
    "conversion",
    "presence",
    "nodes",
    "unreached",
];

/// Findings of the files of the core. Comments, and names of header fields, do not count.
pub(super) fn findings(files: &[File]) -> Vec<String> {
    let core = files.iter().filter(|file| file.is_rust() && is_core(&file.path));
    core.flat_map(|file| code_of(file).into_iter().flat_map(|lines| in_file(file, &lines))).collect()
}

fn is_core(path: &str) -> bool {
    path.strip_prefix(CORE).is_some_and(|name| !name.contains('/') && !MAY_NAME.contains(&name))
}

fn in_file(file: &File, lines: &[&str]) -> Vec<String> {
    let code = lines.iter().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found =
        code.filter_map(|(number, line)| {
            let line = line.to_lowercase();
            let word = FEATURES.iter().find(|word| line.contains(**word))?;
            Some(file.finding(
                number + 1,
                format!("the core of the proxy names a feature (`{word}`); write a stage"),
            ))
        });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_in_the_core_are_found_but_not_in_stages_or_comments() {
        let file = |path: &str, text: &str| File { path: format!("{CORE}{path}"), text: text.to_owned() };
        let named = "let trunk = target.trunk();\n";
        assert_eq!(findings(&[file("fork.rs", named)]).len(), 1);
        let others =
            [file("stages/trunks.rs", named), file("mod.rs", named), file("fork.rs", "// a trunk\n")];
        assert_eq!(findings(&others), Vec::<String>::new());
    }
}
