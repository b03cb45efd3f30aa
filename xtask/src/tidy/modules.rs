//! Rules for the modules of a crate: no import cycle, no type with methods in many files, and none that functions of
//! other files change. The core of the proxy names no feature: those are stages, in folders of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, code_of};

/// Maximum number of files with `impl` blocks of one type.
const IMPL_FILES_MAX: usize = 4;
/// Types that are passed through a crate on purpose: what a call works with.
const PASSED: [&str; 5] = ["Env", "CoreContext", "Call", "Forwarded", "Planned"];
/// Types that functions of other files still change. A number may only fall.
const CHANGED_ELSEWHERE: [(&str, usize); 2] = [("Calls", 1), ("Client", 1)];
/// Maximum number of re-exports between a name and its definition.
const REEXPORTS_MAX: usize = 6;

/// The modules of a crate by path, such as `call::state`; the root's path is empty.
type Modules<'f> = BTreeMap<String, Module<'f>>;

struct Module<'f> {
    file: &'f File,
    imports: Vec<Import>,
}

/// A path in the code of a module, as it is written there.
struct Import {
    line: usize,
    path: String,
    is_reexport: bool,
}

/// Findings of all crates, tests excluded.
pub(super) fn findings(files: &[File]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let (Some((folder, path)), Some(lines)) = (file.path.split_once("/src/"), code_of(file)) else {
            continue;
        };
        let names = path.trim_end_matches(".rs").split('/');
        let names: Vec<&str> = names.filter(|name| !matches!(*name, "mod" | "lib" | "main")).collect();
        let modules = crates.entry(folder).or_default();
        let module = modules.entry(names.join("::")).or_insert(Module { file, imports: Vec::new() });
        module.imports.extend(imports(&lines));
    }
    crates
        .values()
        .flat_map(|modules| [cycles(modules), scattered_types(modules), methods_elsewhere(modules)].concat())
        .collect()
}

/// A finding for each import that is part of a cycle of modules with the same parent. A module includes those in it. Imports by a module from
/// those that it is in do not count.
fn cycles(modules: &Modules<'_>) -> Vec<String> {
    let mut parents: BTreeMap<&str, Siblings<'_>> = BTreeMap::new();
    for (path, module) in modules {
        for import in module.imports.iter().filter(|import| !import.is_reexport) {
            let target = absolute(modules, path, &import.path).map(|name| definition(modules, &name, 0));
            if let Some((common, from, to)) = target.as_deref().and_then(|target| siblings(path, target)) {
                let finding = module.file.finding(import.line, format!("import cycle with the module {to}"));
                let edges = parents.entry(common).or_default().entry(from).or_default();
                edges.entry(to.to_owned()).or_default().push(finding);
            }
        }
    }
    let mut findings: Vec<String> = parents.into_values().flat_map(in_cycles).collect();
    findings.sort();
    findings.dedup();
    findings
}

/// The modules with one parent: by importing and by imported module, a finding for each import.
type Siblings<'m> = BTreeMap<&'m str, BTreeMap<String, Vec<String>>>;

/// Findings of the imports that are part of a cycle.
fn in_cycles(siblings: Siblings<'_>) -> Vec<String> {
    let is_reached = |from: &str, to: &str| {
        let mut reached = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(next) = open.pop() {
            let more = siblings.get(next).into_iter().flat_map(BTreeMap::keys).map(String::as_str);
            open.extend(more.filter(|more| reached.insert(more)));
        }
        reached.contains(to)
    };
    let edges = siblings.iter().flat_map(|(from, targets)| targets.iter().map(move |edge| (*from, edge)));
    let found = edges.filter(|(from, (to, _))| is_reached(to, from));
    found.flat_map(|(_, (_, findings))| findings.iter().cloned()).collect()
}

/// The parent that both modules are in, and the children of it that they are or are in. `None`: one is in the other.
fn siblings<'m, 't>(module: &'m str, target: &'t str) -> Option<(&'m str, &'m str, &'t str)> {
    let mut at = 0;
    for (name, other) in module.split("::").zip(target.split("::").filter(|name| !name.is_empty())) {
        if name != other {
            let parent = module.get(..at).unwrap_or_default().trim_end_matches("::");
            let child = module.get(..at + name.len()).unwrap_or_default();
            return Some((parent, child, target.get(..at + other.len()).unwrap_or_default()));
        }
        at += name.len() + "::".len();
    }
    None
}

/// Types with `impl` blocks in more than [`IMPL_FILES_MAX`] files.
fn scattered_types(modules: &Modules<'_>) -> Vec<String> {
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Module { file, .. } in modules.values() {
        for line in file.text.lines().filter(|line| line.starts_with("impl")) {
            files.entry(implemented(line)).or_default().insert(&file.path);
        }
    }
    let scattered = files.iter().filter(|(_, files)| files.len() > IMPL_FILES_MAX);
    scattered
        .map(|(name, files)| {
            let first = files.first().copied().unwrap_or_default();
            let count = files.len();
            format!("{first}:1: {name} has `impl` blocks in {count} files; the limit is {IMPL_FILES_MAX}")
        })
        .collect()
}

/// Functions of pure crates whose first argument is `&mut` of a type of another file: methods in disguise, which the limit on files would not
/// see.
fn methods_elsewhere(modules: &Modules<'_>) -> Vec<String> {
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    let pure = modules.values().filter(|module| module.file.path.starts_with("proto/"));
    let files: Vec<(&File, Vec<&str>)> =
        pure.filter_map(|module| Some((module.file, code_of(module.file)?))).collect();
    for (file, lines) in &files {
        let types = lines.iter().filter_map(|line| {
            let item = line.split_once("struct ").or_else(|| line.split_once("enum "));
            item.filter(|(before, _)| before.is_empty() || before.starts_with("pub"))
        });
        for (_, rest) in types {
            let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
            owners.insert(name, &file.path);
        }
    }
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (file, lines) in &files {
        let starts = (0..)
            .zip(lines)
            .filter(|(_, line)| line.starts_with("fn ") || line.starts_with("pub") && line.contains(" fn "));
        for (number, _) in starts {
            let head = lines.iter().skip(number).take(2).copied().collect::<Vec<_>>().concat();
            let Some((name, owner)) = changed_type(&head).and_then(|name| owners.get_key_value(name)) else {
                continue;
            };
            if *owner != file.path && !PASSED.contains(name) {
                let finding = file.finding(
                    number + 1,
                    format!("a function that changes `{name}` of {owner} belongs there"),
                );
                found.entry(name).or_default().push(finding);
            }
        }
    }
    let limit = |name: &str| {
        CHANGED_ELSEWHERE.iter().find(|(known, _)| *known == name).map_or(0, |(_, limit)| *limit)
    };
    found
        .into_iter()
        .filter(|(name, findings)| findings.len() > limit(name))
        .flat_map(|(_, findings)| findings)
        .collect()
}

/// Name of the type of the first argument of a function, if that is `&mut`.
fn changed_type(head: &str) -> Option<&str> {
    let (_, argument) = head.split_once('(')?.1.split_once(':')?;
    let argument = argument.trim_start().strip_prefix('&')?;
    let argument = argument
        .strip_prefix('\'')
        .map_or(argument, |rest| rest.split_once(' ').map_or(rest, |(_, rest)| rest));
    let path = argument
        .strip_prefix("mut ")?
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
        .next()?;
    path.rsplit("::").next()
}

/// Name of the type that an `impl` block is for: the last word of its first line, without generic arguments.
fn implemented(line: &str) -> &str {
    let header = line.split('{').next().unwrap_or_default().trim_end();
    let mut depth = 0_usize;
    let start = header.rfind(|c| {
        match c {
            '>' => depth += 1,
            '<' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ' ' && depth == 0
    });
    let name = start.and_then(|start| header.get(start + 1..)).unwrap_or_default();
    let name = name.split('<').next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or_default()
}

/// Paths of `use` declarations, and other paths of two names or more.
fn imports(lines: &[&str]) -> Vec<Import> {
    let mut imports = Vec::new();
    let mut declaration = String::new();
    for (number, line) in (1..).zip(lines) {
        let code = line.split("//").next().unwrap_or_default().trim();
        let begins = code.starts_with("use ") || code.starts_with("pub") && code.contains(" use ");
        if begins || !declaration.is_empty() {
            declaration.push_str(code);
            if let Some((visibility, tree)) = declaration.trim_end_matches(';').split_once("use ")
                && code.ends_with(';')
            {
                let is_reexport = !visibility.is_empty();
                let paths = flattened("", tree).into_iter();
                imports.extend(paths.map(|path| Import { line: number, path, is_reexport }));
                declaration.clear();
            }
            continue;
        }
        let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
        let paths = words.map(|word| word.trim_matches(':')).filter(|word| word.contains("::"));
        imports.extend(paths.map(|path| Import { line: number, path: path.to_owned(), is_reexport: false }));
    }
    imports
}

/// The paths of a `use` tree, each with `prefix` before it.
fn flattened(prefix: &str, tree: &str) -> Vec<String> {
    let Some((path, list)) = tree.trim().trim_end_matches('}').split_once('{') else {
        let path = tree.trim().split(" as ").next().unwrap_or_default();
        return vec![format!("{prefix}{path}").trim_end_matches("::self").to_owned()];
    };
    let prefix = format!("{prefix}{path}");
    let mut depth = 0_usize;
    let branches = list.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    branches
        .filter(|branch| !branch.trim().is_empty())
        .flat_map(|branch| flattened(&prefix, branch))
        .collect()
}

/// A path from the crate's root. `None`: it is a path of another crate, or of a type in this file.
fn absolute(modules: &Modules<'_>, module: &str, path: &str) -> Option<String> {
    match path.split_once("::").unwrap_or((path, "")) {
        ("crate", rest) => Some(rest.to_owned()),
        ("self", rest) => Some(joined(module, rest)),
        ("super", rest) if rest.starts_with("super::") => absolute(modules, parent(module), rest),
        ("super", rest) => Some(joined(parent(module), rest)),
        (child, _) => modules.contains_key(&joined(module, child)).then(|| joined(module, path)),
    }
}

/// The module that defines the item with this path from the root, which may be a path of a re-export.
fn definition(modules: &Modules<'_>, name: &str, depth: usize) -> String {
    let mut path = name;
    while !modules.contains_key(path) && !path.is_empty() {
        path = parent(path);
    }
    let rest = name.get(path.len()..).unwrap_or_default().trim_start_matches("::");
    let item = rest.split("::").next().unwrap_or_default();
    let imports = modules.get(path).map_or(&[][..], |module| &module.imports);
    let is_of_item = |import: &&Import| import.is_reexport && import.path.rsplit("::").next() == Some(item);
    let origin = imports.iter().find(is_of_item).and_then(|import| absolute(modules, path, &import.path));
    match origin.filter(|origin| origin != name && depth < REEXPORTS_MAX) {
        Some(origin) => definition(modules, &origin, depth + 1),
        None => path.to_owned(),
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn joined(module: &str, rest: &str) -> String {
    [module, rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("::")
}

/// Folder whose own files are the core.
const CORE: &str = "proto/server/src/proxy/";

/// Files of the core that may name a feature: the entries from drivers, the kinds of lookups, and the limits, of which recursion has a part.
const MAY_NAME: [&str; 3] = ["mod.rs", "lookups.rs", "limits.rs"];

/// Words of features in names.
const FEATURES: [&str; 21] = [
    "emergency",
    "stir",
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
    "header_rule",
    "hides_topology",
];

/// Findings of the files of the core. Comments, and names of header fields, do not count.
pub(super) fn core_findings(files: &[File]) -> Vec<String> {
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

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        findings(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn an_import_cycle_is_found_through_reexports_and_paths() {
        let root = ("proto/a/src/lib.rs", "mod call;\nmod event;\npub use call::{Call, state::Role};\n");
        let call = ("proto/a/src/call/mod.rs", "mod state;\npub use state::Call;\n");
        let state = ("proto/a/src/call/state.rs", "use crate::{\n    event::{self, Event},\n};\n");
        let event = ("proto/a/src/event.rs", "fn f(call: crate::Call) {}\n");
        let expected = [
            "proto/a/src/call/state.rs:3: import cycle with the module event",
            "proto/a/src/event.rs:1: import cycle with the module call",
        ];
        assert_eq!(found(&[root, call, state, event]), expected);
        let outer = ("proto/a/src/event.rs", "fn f(timer: crate::call::timer::Timer) {}\n");
        let timer = ("proto/a/src/call/timer.rs", "struct Timer;\n");
        let expected = [
            "proto/a/src/call/state.rs:3: import cycle with the module event",
            "proto/a/src/event.rs:1: import cycle with the module call",
        ];
        assert_eq!(found(&[root, call, state, timer, outer]), expected);
        let inner = ("proto/a/src/event.rs", "#[cfg(test)]\nmod tests {\n    use crate::Call;\n}\n");
        assert!(found(&[root, call, state, inner]).is_empty());
    }

    #[test]
    fn a_submodule_may_import_from_the_modules_that_it_is_in() {
        let call = ("proto/a/src/call/mod.rs", "mod state;\nuse state::Call;\nstruct Timer;\n");
        let state = ("proto/a/src/call/state.rs", "use super::Timer;\nuse crate::call;\n");
        assert!(found(&[call, state]).is_empty());
    }

    #[test]
    fn a_function_that_changes_a_type_of_another_file_is_found() {
        let owner =
            ("proto/a/src/visit.rs", "pub(crate) struct Visit<'a>;\nfn own(visit: &mut Visit<'_>) {}\n");
        let text = "fn end(\n    visit: &mut super::Visit<'_>,\n) {}\nfn read(visit: &Visit<'_>) {}\nfn pass(env: &mut Env) {}\n";
        let other = ("proto/a/src/state.rs", text);
        let expected =
            "proto/a/src/state.rs:1: a function that changes `Visit` of proto/a/src/visit.rs belongs there";
        assert_eq!(found(&[owner, other]), [expected]);
        assert!(found(&[("apps/a/src/visit.rs", owner.1), ("apps/a/src/state.rs", text)]).is_empty());
    }

    #[test]
    fn a_type_with_methods_in_five_files_is_found() {
        let names = ["a", "b", "c", "d", "e"].map(|name| format!("proto/a/src/{name}.rs"));
        let text = "impl<'a, T: Into<u8>> Iterator for wire::Packets<'a, T> {\n}\n";
        let files = names.each_ref().map(|name| (name.as_str(), text));
        assert_eq!(
            found(&files),
            ["proto/a/src/a.rs:1: Packets has `impl` blocks in 5 files; the limit is 4"]
        );
        assert!(found(files.get(..4).unwrap()).is_empty());
    }

    #[test]
    fn features_in_the_core_are_found_but_not_in_stages_or_comments() {
        let file = |path: &str, text: &str| File { path: format!("{CORE}{path}"), text: text.to_owned() };
        let named = "let trunk = target.trunk();\n";
        assert_eq!(core_findings(&[file("fork.rs", named)]).len(), 1);
        let others =
            [file("stages/trunks.rs", named), file("mod.rs", named), file("fork.rs", "// a trunk\n")];
        assert_eq!(core_findings(&others), Vec::<String>::new());
    }
}
