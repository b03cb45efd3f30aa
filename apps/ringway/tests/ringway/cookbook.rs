//! Each configuration of the cookbook is valid.

use crate::program::Running;
use std::os::unix::fs::PermissionsExt;

#[test]
fn each_configuration_of_the_cookbook_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| Running::start(folder.path(), args, "").done();
    run(&["cert", "init", "--domain", "example.org"]).ok();
    let secret = "5e71c9a8".repeat(8);
    for (name, text) in [
        ("carrier.password", "secret"),
        ("redis-password", "secret"),
        ("cluster-secret", &*secret),
        ("supplier-a.csv", "prefix,cost,country\n4930,0.0095,Berlin\n"),
        ("supplier-b.csv", "# Germany\n49,0.01\n"),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let text = include_str!("../../../../docs/recipes/cookbook.md");
    let mut configurations: Vec<&str> =
        text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(configurations.len(), 6);
    configurations.push(include_str!("../../../../packaging/ringway-cluster.toml"));
    let trunks = include_str!("../../../../docs/recipes/trunks.md").split("```toml\n").skip(1);
    let mut trunks = trunks.map(|rest| rest.split("```").next().unwrap());
    configurations.push(trunks.find(|block| block.contains("rates_file")).unwrap());
    for configuration in configurations {
        // A port where nothing listens answers at once.
        let configuration = configuration.replace("192.0.2.8:6379", "127.0.0.1:1");
        let configuration = configuration.replace("/etc/ringway/", "").replace("/var/lib/ringway/", "");
        std::fs::write(folder.path().join("ringway.toml"), &configuration).unwrap();
        let said = run(&["check", "ringway.toml"]);
        assert!(said.status == 0, "{configuration}{said:?}");
        let is_shared = configuration.contains("[location]");
        let warned = said.err.contains("the store redis://ringway@127.0.0.1:1 cannot be reached: ");
        assert_eq!(warned, is_shared, "{configuration}{said:?}");
    }
}
