//! Check that `proto/` and the crates of the image build without an operating system.
//!
//! A crate with its own panic handler that uses all of them is checked: any dependency on std would add a second handler
//! (E0152). It has the profile and the target of the image, so that both share what they compile.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use xtask::image;
use xtask::workspace::{cargo, root, target_dir};

use crate::compilations;

/// Folders of the crates outside `proto/` that must also build without std.
const PURE_ELSEWHERE: [&str; 5] =
    ["apps/metal", "apps/settings", "apps/ui", "drivers/ethernet", "services/tls-bare"];

pub(crate) fn run() -> Result<()> {
    let crates = pure_crates()?;
    let folder = target_dir().join("purity");
    std::fs::create_dir_all(folder.join("src"))?;
    let mut manifest = String::from(
        "[package]\nname = \"purity\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n",
    );
    let mut code = String::from("#![no_std]\n");
    for (name, path) in &crates {
        writeln!(manifest, "{name} = {{ path = {path:?} }}")?;
        writeln!(code, "use {} as _;", name.replace('-', "_"))?;
    }
    manifest.push_str(&image::profiles()?);
    code.push_str("#[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! {\n    loop {}\n}\n");
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    std::fs::write(folder.join("src/lib.rs"), code)?;
    // The same versions as the workspace's, so that nothing is resolved again.
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut check = cargo(&["check", "--quiet", "--offline"]);
    check.args(image::CHECK).current_dir(&folder).arg("--target-dir").arg(image::target_folder());
    compilations::run("purity", &mut check).context("a dependency uses std (E0152 names it)")?;
    println!("purity: no dependency of {} crates uses std", crates.len());
    Ok(())
}

/// Name and folder of every crate in `proto/`, and of the others that must build without std.
fn pure_crates() -> Result<Vec<(String, String)>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(root().join("proto")).context("cannot read the folder proto")? {
        folders.push(entry?.path());
    }
    folders.retain(|folder| folder.join("Cargo.toml").exists());
    if folders.is_empty() {
        bail!("there is no crate in proto/");
    }
    folders.extend(PURE_ELSEWHERE.map(|folder| root().join(folder)));
    let mut crates = Vec::new();
    for folder in folders {
        let text = std::fs::read_to_string(folder.join("Cargo.toml"))
            .with_context(|| format!("cannot read {}/Cargo.toml", folder.display()))?;
        let manifest: toml::Table =
            text.parse().with_context(|| format!("{}/Cargo.toml", folder.display()))?;
        let name =
            manifest.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        let name = name.with_context(|| format!("{}/Cargo.toml names no package", folder.display()))?;
        crates.push((name.to_owned(), folder.display().to_string()));
    }
    crates.sort();
    Ok(crates)
}
