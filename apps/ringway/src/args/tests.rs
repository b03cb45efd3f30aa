//! Tests of the command line against the documents.

use super::*;
use clap::CommandFactory;
use std::fs;
use std::path::Path;

const DOCUMENTS: &str = concat!(
    include_str!("../../../../README.md"),
    include_str!("../../../../docs/start/first-steps.md"),
    include_str!("../../../../docs/start/installation.md"),
    include_str!("../../../../docs/start/scripts.md"),
    include_str!("../../../../docs/start/two-phones.md"),
    include_str!("../../../../docs/start/troubleshooting.md"),
    include_str!("../../../../docs/recipes/backup.md"),
    include_str!("../../../../docs/recipes/blocking.md"),
    include_str!("../../../../docs/recipes/kamailio.md"),
    include_str!("../../../../docs/recipes/reload.md"),
    include_str!("../../../../docs/recipes/tls.md"),
    include_str!("../../../../docs/recipes/users.md"),
    include_str!("../../../../docs/reference/configuration.md"),
    include_str!("../../../../docs/reference/configuration-trunks.md"),
    include_str!("../../../../docs/reference/lab.md"),
    include_str!("../../../../docs/reference/lab-agent.md"),
    include_str!("../../../../docs/reference/lab-sipp.md"),
    include_str!("../../../../docs/reference/limits.md"),
    include_str!("../../../../docs/reference/phone.md"),
    include_str!("../../../../docs/reference/status.md"),
);

/// True if the documents have `text` and no letter, digit or hyphen behind it.
fn is_documented(text: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
    DOCUMENTS.match_indices(text).any(|(at, _)| ends(&DOCUMENTS[at + text.len()..]))
}

fn collect_undocumented(command: &clap::Command, path: &str, missing: &mut Vec<String>) {
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(long) = arg.get_long().filter(|long| !matches!(*long, "help" | "version")) else {
            continue;
        };
        if !is_documented(&format!("--{long}")) {
            missing.push(format!("{path} --{long}"));
        }
    }
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        if !is_documented(&path) {
            missing.push(path.clone());
        }
        collect_undocumented(sub, &path, missing);
    }
}

#[test]
fn every_command_and_option_is_documented() {
    let mut missing = Vec::new();
    collect_undocumented(&Args::command(), "ringway", &mut missing);
    assert!(missing.is_empty(), "not in README.md or docs/{{start,recipes,reference}}: {missing:#?}");
    assert!(!is_documented("--pass") && !is_documented("ringway users"));
}

/// Introduction of a page with help texts.
const INTRODUCTION: &str = "As `ringway COMMAND --help` prints them; `man ringway-serve` is the same as a manual page. \
    A test writes this page from the program.\n";

/// Pages of the help texts: file, title, commands; the page without commands has all others.
const PAGES: [(&str, &str, &[&str]); 3] = [
    ("commands.md", "Commands of the server and its administration", &[]),
    ("commands-phone.md", "Commands of the phone", &["phone", "call", "answer", "options", "audio"]),
    ("commands-lab.md", "Commands of the lab", &["lab"]),
];

/// Pages that explain commands, with links from the directory of the help texts.
const EXPLAINED: &str = "
| Command | Explained in |
|---|---|
| `ringway serve`, `check`, `demo` | [first steps](../start/first-steps.md), [the configuration](configuration.md) |
| `ringway user` | [users](../recipes/users.md) |
| `ringway block` | [blocking](../recipes/blocking.md) |
| `ringway cert` | [certificates by ACME](../recipes/tls.md#a-certificate-by-acme), [of your own](../recipes/tls.md#certificates-of-your-own) |
| `ringway show` | [status and metrics](status.md) |
| `ringway trace` | [why did that call fail?](../start/troubleshooting.md#why-did-that-call-fail) |
| `ringway reload`, `drain` | [reload and stop](../recipes/reload.md) |
| `ringway backup`, `restore` | [backup](../recipes/backup.md) |
| `ringway migrate` | [moving from Kamailio or OpenSIPS](../recipes/kamailio.md#moving-from-kamailio-or-opensips) |
| `ringway call`, `answer`, `options`, `audio`, `phone` | [help texts](commands-phone.md); [calling from scripts](../start/scripts.md), [the phone](phone.md) |
| `ringway lab` | [help texts](commands-lab.md); [the lab](lab.md) |
";

/// Appends the help text of a command and those of its subcommands.
fn write_help(command: &clap::Command, path: &str, text: &mut String) {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## {path}\n```text\n{}\n```\n", lines.join("\n")));
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        write_help(sub, &format!("{path} {}", sub.get_name()), text);
    }
}

/// File and text of each page with help texts.
fn help_pages() -> Vec<(&'static str, String)> {
    let mut root = Args::command().term_width(100);
    root.build();
    let elsewhere: Vec<&str> = PAGES.iter().flat_map(|(_, _, commands)| commands.iter().copied()).collect();
    let page = |(file, title, commands): (&'static str, &str, &[&str])| {
        let mut text = format!("# {title}\n{INTRODUCTION}");
        if commands.is_empty() {
            text.push_str(EXPLAINED);
        }
        let is_here = |name: &str| match commands.is_empty() {
            true => name != "help" && !elsewhere.contains(&name),
            false => commands.contains(&name),
        };
        for sub in root.get_subcommands().filter(|sub| is_here(sub.get_name())) {
            write_help(sub, &format!("ringway {}", sub.get_name()), &mut text);
        }
        (file, text)
    };
    PAGES.map(page).to_vec()
}

#[test]
fn the_pages_of_commands_have_the_help_texts_of_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let is_update = std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1");
    let pages = help_pages();
    for (file, text) in &pages {
        let path = folder.join(file);
        if is_update {
            fs::write(&path, text).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        let changed = written.lines().zip(text.lines()).find(|(old, new)| old != new);
        let advice = "`UPDATE_DOCS=1 cargo test -p ringway args::` writes the page";
        assert!(written == *text, "docs/reference/{file} is not that of the program: {changed:?}; {advice}");
    }
    let has = |command: &str| pages.iter().filter(|(_, text)| text.contains(command)).count() == 1;
    for command in
        ["\n## ringway serve\n", "\n## ringway user add\n", "\n## ringway call\n", "\n## ringway lab load\n"]
    {
        assert!(has(command), "{command:?} is on one page");
    }
}

/// Blocks of code of all pages for users, with the page.
fn blocks() -> Vec<(String, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut blocks = Vec::new();
    for folder in ["start", "recipes", "reference"] {
        for page in fs::read_dir(docs.join(folder)).unwrap() {
            let page = page.unwrap();
            let name = format!("docs/{folder}/{}", page.file_name().to_string_lossy());
            // Help texts have a test of their own.
            if name.contains("/commands") {
                continue;
            }
            let text = fs::read_to_string(page.path()).unwrap();
            let found = text.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
            blocks.extend(found.map(|(_, block)| (name.clone(), block.to_owned())));
        }
    }
    blocks
}

/// Words of a line as a shell has them; an operator is a word of its own.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match quote {
            Some(mark) if c == mark => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None => match c {
                '\'' | '"' => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                '#' if word.is_none() => break,
                ' ' => words.extend(word.take()),
                '|' | '&' | ';' | '(' | ')' | '<' | '>' => {
                    words.extend(word.take());
                    words.push(c.to_string());
                }
                _ => word.get_or_insert_default().push(c),
            },
        }
    }
    words.extend(word);
    words
}

/// Commands of this program in a line.
fn commands(line: &str) -> Vec<Vec<String>> {
    let words = words(line);
    let is_operator = |word: &String| ["|", "&", ";", "(", ")", "<", ">"].contains(&word.as_str());
    let mut commands = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_first =
            at == 0 || is_operator(&words[at - 1]) || ["$", "--"].contains(&words[at - 1].as_str());
        if is_first && ["ringway", "target/release/ringway"].contains(&word.as_str()) {
            commands.push(words[at..].iter().take_while(|word| !is_operator(word)).cloned().collect());
        }
    }
    commands
}

#[test]
fn commands_in_the_documents_are_valid() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for (page, block) in blocks() {
        // A word alone is a name.
        let commands: Vec<_> = block.replace("\\\n", " ").lines().flat_map(commands).collect();
        for command in commands.iter().filter(|command| command.len() > 1) {
            tried += 1;
            if let Err(error) = Args::try_parse_from(command) {
                let error = error.to_string();
                wrong.push(format!("{page}: {command:?}: {}", error.lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(tried > 60, "{tried}");
    let line = "printf 'a b' | ringway call \"sip:b c\" --json   # ringway show > x";
    assert_eq!(commands(line), [["ringway", "call", "sip:b c", "--json"].map(str::to_owned)]);
}
