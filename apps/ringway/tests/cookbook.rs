//! Each configuration of the cookbook is valid.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;

use program::Running;
use std::os::unix::fs::PermissionsExt;

#[test]
fn each_configuration_of_the_cookbook_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Running::start(folder.path(), args, "").done();
    run(&["cert", "init", "--domain", "example.org"]).ok();
    let password = folder.path().join("carrier.password");
    std::fs::write(&password, "secret").unwrap();
    std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = include_str!("../../../docs/cookbook.md");
    let configurations: Vec<&str> =
        text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(configurations.len(), 5);
    for configuration in configurations {
        std::fs::write(folder.path().join("ringway.toml"), configuration).unwrap();
        let said = run(&["check", "ringway.toml"]);
        assert!(said.status == 0, "{configuration}{said:?}");
    }
}
