//! Rules for the modules of a crate: no import cycle between files, and no type with methods in many files.

use std::collections::{BTreeMap, BTreeSet};

use super::File;
use super::lengths::code_of;

/// Maximum number of files with `impl` blocks of one type.
const IMPL_FILES_MAX: usize = 4;
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
    crates.values().flat_map(|modules| [cycles(modules), scattered_types(modules)].concat()).collect()
}

/// A finding for each import that is part of a cycle. Imports by a module from those that it is in do not count.
fn cycles(modules: &Modules<'_>) -> Vec<String> {
    let mut edges: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    for (path, module) in modules {
        for import in module.imports.iter().filter(|import| !import.is_reexport) {
            let target = absolute(modules, path, &import.path).map(|name| definition(modules, &name, 0));
            if let Some(target) = target.filter(|target| !is_inside(path, target)) {
                edges.entry(path).or_default().entry(target).or_insert(import.line);
            }
        }
    }
    let mut findings = Vec::new();
    for (path, targets) in &edges {
        for (target, line) in targets {
            let mut reached = BTreeSet::from([target]);
            let mut open = vec![target];
            while let Some(next) = open.pop() {
                let more = edges.get(next.as_str()).into_iter().flat_map(BTreeMap::keys);
                open.extend(more.filter(|more| reached.insert(more)));
            }
            if let Some(module) = modules.get(*path).filter(|_| reached.iter().any(|reached| reached == path))
            {
                findings.push(module.file.finding(*line, format!("import cycle with the module {target}")));
            }
        }
    }
    findings
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

/// True for a module and those that it is in.
fn is_inside(module: &str, outer: &str) -> bool {
    outer.is_empty()
        || module.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn parent(path: &str) -> &str {
    path.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn joined(module: &str, rest: &str) -> String {
    [module, rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("::")
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
            "proto/a/src/event.rs:1: import cycle with the module call::state",
        ];
        assert_eq!(found(&[root, call, state, event]), expected);
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
}
