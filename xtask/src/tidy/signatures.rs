//! Rule for the signatures of pure crates: no tuple as the pattern of a parameter. A caller sees names in place of positions, and what
//! belongs together has a type.

use super::File;

/// Findings of the functions of pure crates, tests included.
pub(super) fn findings(file: &File) -> Vec<String> {
    if !file.path.starts_with("proto/") {
        return Vec::new();
    }
    let finding = |line| file.finding(line, "a tuple as a parameter: name its parts, or give it a type");
    tuple_parameters(&file.text).into_iter().map(finding).collect()
}

/// Lines, from 1, of the functions with a parameter that is a tuple pattern.
fn tuple_parameters(text: &str) -> Vec<usize> {
    let text = without_comments(text);
    let mut found = Vec::new();
    for (at, _) in text.match_indices("fn ") {
        let (before, after) = text.split_at(at);
        let is_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let name = after.get("fn ".len()..).unwrap_or_default();
        if is_word && name.starts_with(|c: char| c.is_alphabetic() || c == '_') && has_tuple(name) {
            found.push(before.matches('\n').count() + 1);
        }
    }
    found
}

/// True if the parameters behind a function's name and its generic ones have a tuple pattern.
fn has_tuple(name: &str) -> bool {
    let (mut depth, mut angles, mut before) = (0_usize, 0_usize, ' ');
    let mut begins = false;
    for c in name.chars() {
        match c {
            '(' if begins => return true,
            '(' | '[' | '{' if angles == 0 || depth > 0 => {
                begins = c == '(' && depth == 0;
                depth += 1;
            }
            ')' | ']' | '}' if depth > 0 => {
                depth -= 1;
                begins = false;
                if depth == 0 {
                    return false;
                }
            }
            '<' => angles += 1,
            '>' if before != '-' => angles = angles.saturating_sub(1),
            ',' if depth == 1 && angles == 0 => begins = true,
            c if c.is_whitespace() => {}
            _ => begins = false,
        }
        before = c;
    }
    false
}

/// The text with lines that are comments left empty.
fn without_comments(text: &str) -> String {
    let line = |line: &str| if line.trim_start().starts_with("//") { String::new() } else { line.to_owned() };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_pattern_is_found_in_any_signature() {
        for text in [
            "fn f((a, b): (u8, u8)) {}",
            "    pub(crate) const fn f<'a, F: Fn(u8) -> u8>(\n        &self,\n        (a, b): (u8, u8),\n    ) {}",
            "fn f(a: [u8; 2], b: HashMap<u8, (u8, u8)>, (c, d): (u8, u8)) {}",
            "fn f(a: impl Fn(u8, u8) -> u8, ( b, mut c): (u8, u8)) {}",
        ] {
            let text = format!("// fn f((a, b): (u8, u8)) {{}}\n{text}\n");
            assert_eq!(tuple_parameters(&text), [2], "{text}");
        }
    }

    #[test]
    fn tuples_elsewhere_are_not_found() {
        for text in [
            "fn f(a: (u8, u8), b: impl Fn((u8, u8)), c: &[(u8, u8)]) -> (u8, u8) {}",
            "fn f<F: Fn((u8, u8)) -> u8>(f: F) { let (a, b) = f((1, 2)); }",
            "fn f() -> Option<(u8, u8)> { list.map(|(a, b)| g((a, b))) }",
            "type F = fn((u8, u8));\nstruct A(fn(u8), (u8, u8));",
            "fn f(Parts { a, b }: Parts<(u8, u8)>) {}",
        ] {
            assert!(tuple_parameters(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn only_pure_crates_are_checked() {
        let file = |path: &str| File { path: path.into(), text: "fn f((a, b): (u8, u8)) {}\n".into() };
        let expected = "proto/a/src/lib.rs:1: a tuple as a parameter: name its parts, or give it a type";
        assert_eq!(findings(&file("proto/a/src/lib.rs")), [expected]);
        assert!(findings(&file("apps/a/src/lib.rs")).is_empty());
    }
}
