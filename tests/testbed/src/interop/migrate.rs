//! Users of Kamailio's databases, with its own tables, log in after `ringway migrate`.

use anyhow::{Context, Result, ensure};
use ringway_sip::digest::Ha1;

use super::calls::{Play, users};
use super::database::{Database, Engine};
use super::server::{Server, Wanted};
use super::{Scenario, Stage, Transport};
use crate::process::free_port;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let all = Engine::ALL.map(|engine| Scenario {
        reference: false,
        ..Scenario::new(format!("migrate/{}", engine.name()), move |stage: &Stage| migrate(stage, engine))
    });
    all.into()
}

/// Twenty users, of whom Kamailio has H(A1) with MD5 only, register with their passwords.
fn migrate(stage: &Stage, engine: Engine) -> Result<()> {
    let wanted = Wanted { auth: "algorithms = [\"MD5\"]", ..Wanted::default() };
    let (realm, domain) = (wanted.realm, wanted.domain);
    let accounts = users("moved", "moved");
    let database = Database::start(stage, engine)?;
    let scripts =
        format!("/usr/share/kamailio/{}", if engine == Engine::Sqlite { "db_sqlite" } else { engine.name() });
    for table in ["standard", "auth_db", "domain", "permissions", "uac", "dispatcher"] {
        let script = format!("{scripts}/{table}-create.sql");
        database.execute(&std::fs::read_to_string(&script).with_context(|| script.clone())?)?;
    }
    for user in &accounts {
        let ha1 = Ha1::new(user.name.as_bytes(), realm.as_bytes(), user.password.as_bytes());
        let ha1 = base16ct::lower::encode_string(&ha1.md5);
        database.execute(&format!(
            "INSERT INTO subscriber (username, domain, password, ha1) VALUES ('{}', '{domain}', '', '{ha1}');",
            user.name
        ))?;
    }
    database
        .execute("INSERT INTO address (grp, ip_addr, mask, tag) VALUES (1, '192.0.2.0', 24, 'carrier');")?;
    let server = Server::start(stage, wanted, &[])?;
    let said = server.migrate(&[&database.url(), "--realm", realm], Database::PASSWORD)?;
    ensure!(said.contains("20 subscribers in") && said.contains("users: 20 added"), "it said: {said}");
    ensure!(said.contains("users with an MD5 hash only: 20"), "it said: {said}");
    ensure!(said.contains("networks: 1, accounts at other servers: 0"), "it said: {said}");
    let play = Play { stage, transport: Transport::Udp, digest: true };
    play.sipp("register", "register", &accounts, free_port()?, Some(server.port)).run(stage)?;
    server.expect_registered(accounts.iter().map(|user| user.name.as_str()), true)
}
