//! Users in PostgreSQL and MariaDB, while these run, and while they do not. Users of Kamailio's databases, with its own
//! tables, log in after `ringway migrate`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ringway_sip::digest::Ha1;
use ringway_test_support::eventually::retry;

use super::calls::{Play, users};
use super::certificates::{Authority, CA_FILE};
use super::database::{Database, Engine};
use super::server::{Server, Wanted};
use super::sipp::User;
use super::{Scenario, Stage, Transport};
use crate::process::free_port;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let engines = [Engine::MariaDb, Engine::PostgreSql];
    let plain = engines.map(|engine| {
        Scenario::new(format!("provisioning/{}", engine.name()), move |stage: &Stage| follow(stage, engine))
    });
    let protected = engines.map(|engine| {
        Scenario::new(format!("provisioning/tls/{}", engine.name()), move |stage: &Stage| {
            protect(stage, engine)
        })
    });
    let queried = engines.map(|engine| {
        Scenario::new(format!("provisioning/query/{}", engine.name()), move |stage: &Stage| {
            query(stage, engine)
        })
    });
    let written = engines.map(|engine| {
        Scenario::new(format!("provisioning/write-back/{}", engine.name()), move |stage: &Stage| {
            write_back(stage, engine)
        })
    });
    let looked_up = engines.map(|engine| {
        Scenario::new(format!("provisioning/danger-lookup/{}", engine.name()), move |stage: &Stage| {
            danger_lookup(stage, engine)
        })
    });
    let documented = engines.map(|engine| {
        Scenario::new(format!("provisioning/document/{}", engine.name()), move |stage: &Stage| {
            as_documented(stage, engine)
        })
    });
    let of_ringway = |scenario| Scenario { reference: false, ..scenario };
    let all = plain.into_iter().chain(protected).chain(queried).chain(written).chain(looked_up);
    let all = all.chain(documented);
    all.map(of_ringway).collect()
}

/// The server has the users of a database whose certificate its configuration trusts, and does not start with another one.
fn protect(stage: &Stage, engine: Engine) -> Result<()> {
    let database = Database::start(stage, engine)?;
    let store = |ca: &Path| {
        format!(
            "[store]\nurl = \"{}\"\ntls = \"required\"\nca = \"{}\"\n",
            database.whole_url(),
            ca.display()
        )
    };
    let server =
        Server::start_with(&stage.within("trusted")?, Wanted::default(), &store(&database.authority()))?;
    database.execute(&rows(&users("first", "first")))?;
    expect_subscribers(&server, 20, SEEN_IN)?;
    let other = stage.within("other")?;
    Authority::create(&other.folder)?;
    let Err(error) = Server::start_with(&other, Wanted::default(), &store(&other.path(CA_FILE))) else {
        bail!("the server started with a database whose certificate it does not trust");
    };
    // The log of a server that ended is part of the error.
    ensure!(
        other_log(&other)?.to_lowercase().contains("certificate"),
        "the server did not say why: {error:#}"
    );
    Ok(())
}

/// Users of an operator's own table register, also one that it gets later; one that is removed there cannot.
fn query(stage: &Stage, engine: Engine) -> Result<()> {
    let database = Database::start(stage, engine)?;
    database.execute(
        "CREATE TABLE customer (login varchar(64) PRIMARY KEY, hash char(32), changed timestamp DEFAULT current_timestamp);",
    )?;
    let realm = Wanted::default().realm;
    let add = |users: &[User]| {
        let rows = users.iter().map(|user| {
            let ha1 = Ha1::new(user.name.as_bytes(), realm.as_bytes(), user.password.as_bytes());
            format!("('{}', '{}')", user.name, base16ct::lower::encode_string(&ha1.md5))
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        database.execute(&format!("INSERT INTO customer (login, hash) VALUES {rows};"))
    };
    let (first, later) = (users("first", "first"), users("later", "later"));
    add(&first)?;
    let interval = if engine == Engine::MariaDb { "interval 10 second" } else { "interval '10 seconds'" };
    let store = format!(
        "[store]\nurl = \"{}\"\nquery = \"SELECT login AS username, hash AS ha1 FROM customer\"\nquery_interval_s = 5\n\
         query_changed = \"SELECT login AS username, hash AS ha1 FROM customer WHERE changed > current_timestamp - {interval}\"\n",
        database.whole_url()
    );
    let wanted = Wanted { auth: "algorithms = [\"MD5\"]", ..Wanted::default() };
    let server = Server::start_with(stage, wanted, &store)?;
    let play = Play { stage, transport: Transport::Udp, digest: true };
    let register = |name: &str, users: &[User]| -> Result<()> {
        let stage = stage.within(name)?;
        play.sipp("register", "register", users, free_port()?, Some(server.port)).run(&stage)
    };
    register("first", &first)?;
    add(&later)?;
    expect_subscribers(&server, 40, SEEN_IN)?;
    register("later", &later)?;
    database.execute("DELETE FROM customer WHERE login = 'first01';")?;
    expect_subscribers(&server, 39, Duration::from_secs(10))?;
    server.expect_registered(["first01"].into_iter(), false)
}

/// Registrations are rows of a table, while they last; REGISTERs go on while the database is stopped, and what changed meanwhile is
/// written when it is back. Rows of other nodes stay.
fn write_back(stage: &Stage, engine: Engine) -> Result<()> {
    let mut database = Database::start(stage, engine)?;
    let store = format!("[store]\nurl = \"{}\"\nwrite_back = true\n", database.whole_url());
    let mut server = Server::start_with(stage, Wanted::default(), &store)?;
    let all = users("first", "first");
    database.execute(&rows(&all))?;
    expect_subscribers(&server, 20, SEEN_IN)?;
    let play = Play { stage, transport: Transport::Udp, digest: true };
    // Always the same contacts.
    let port = free_port()?;
    let run = |name: &str, scenario: &str, users: &[User], server: &Server| -> Result<()> {
        let stage = stage.within(name)?;
        play.sipp(scenario, "register", users, port, Some(server.port)).run(&stage)
    };
    server.log_lines("registrations are written to ringway_location", 1)?;
    run("there", "register", &all, &server)?;
    let complete = "contact LIKE 'sip:%' AND transport = 'udp' AND received LIKE '127.0.0.1:%' AND call_id <> '' AND expires > \
                    current_timestamp AND updated <= current_timestamp AND node <> ''";
    expect_rows(&database, complete, 20)?;
    run("ended", "logout", &all[..1], &server)?;
    expect_rows(&database, "name = 'first00'", 0)?;
    expect_rows(&database, complete, 19)?;
    ensure!(server.check()?["warnings"].is_null(), "{}", server.check()?);
    if engine == Engine::PostgreSql {
        // The owner can take the right from itself.
        database.execute("REVOKE INSERT ON ringway_location FROM current_user;")?;
        let checked = server.check()?.to_string();
        ensure!(checked.contains("[store] write_back") && checked.contains("permission denied"), "{checked}");
        database.execute("GRANT INSERT ON ringway_location TO current_user;")?;
    }
    // A row of another node, and one that this node no longer has.
    let columns = "domain, name, node, number, contact, transport, received, path, call_id, cseq, expires";
    for node in ["'other'", "(SELECT max(node) FROM ringway_location l)"] {
        database.execute(&format!(
            "INSERT INTO ringway_location ({columns}) SELECT 'example.org', 'stale', {node}, 1, '', '', '', '', '', 1, current_timestamp;"
        ))?;
    }

    // The database is stopped under load.
    std::thread::scope(|scope| -> Result<()> {
        let load = scope
            .spawn(|| (0..4).try_for_each(|n| run(&format!("load-{n}"), "register", &all[1..], &server)));
        std::thread::sleep(Duration::from_millis(200));
        database.kill();
        load.join().map_err(|_| anyhow::anyhow!("the load failed"))?
    })?;
    run("away", "register", &all[..1], &server)?;
    run("ended-away", "logout", &all[1..2], &server)?;
    server.log_lines("registrations are not written", 1)?;

    database.start_again(stage)?;
    expect_rows(&database, "name = 'first00'", 1)?;
    expect_rows(&database, "name = 'first01'", 0)?;
    expect_rows(&database, "name = 'stale'", 1)?;
    expect_rows(&database, complete, 19)?;
    run("back", "logout", &all[2..3], &server)?;
    expect_rows(&database, complete, 18)?;
    let said = server.log_lines("registrations are not written", 1)?;
    // The connection that ended, and the one that was refused then, are two reasons.
    ensure!(said.len() <= 2, "the outage was logged more than once for each reason: {said:?}");
    let counters = server.counters()?;
    for (name, wanted) in [("write_back_connected", 1), ("write_back_refused", 0), ("write_back_dropped", 0)]
    {
        let found = counters.get(name)?;
        ensure!(found == wanted, "{name} is {found}");
    }
    Ok(())
}

/// Waits until the table of registrations has this number of rows that a condition is true for. The pause between two attempts to
/// reach the database is part of it.
fn expect_rows(database: &Database, condition: &str, wanted: u32) -> Result<()> {
    retry(Duration::from_secs(40), || {
        let found = database.read(&format!("SELECT count(*) FROM ringway_location WHERE {condition};"))?;
        ensure!(
            found.trim() == wanted.to_string(),
            "{} rows instead of {wanted} where {condition}",
            found.trim()
        );
        Ok(())
    })
}

/// Passwords are read while a REGISTER waits, and a REGISTER gets an error while the database is stopped.
fn danger_lookup(stage: &Stage, engine: Engine) -> Result<()> {
    let mut database = Database::start(stage, engine)?;
    let store = format!("[store]\nurl = \"{}\"\ndanger_lookup = \"per-request\"\n", database.whole_url());
    let mut server = Server::start_with(stage, Wanted::default(), &store)?;
    server.log_lines("PASSWORDS ARE READ FROM THE DATABASE", 1)?;
    let all = users("first", "first");
    database.execute(&rows(&all))?;
    expect_subscribers(&server, 20, SEEN_IN)?;
    let play = Play { stage, transport: Transport::Udp, digest: true };
    let register = |name: &str| -> Result<()> {
        let stage = stage.within(name)?;
        play.sipp("register", "register", &all, free_port()?, Some(server.port)).run(&stage)
    };
    register("there")?;
    ensure!(server.counters()?.get("danger_lookups")? >= 20, "fewer lookups than REGISTERs");
    ensure!(server.counters()?.get("danger_lookup_failures")? == 0, "lookups failed");
    database.kill();
    ensure!(register("away").is_err(), "REGISTERs succeeded without the database");
    ensure!(server.counters()?.get("danger_lookup_failures")? > 0, "no lookup failed");
    Ok(())
}

/// The page about databases, followed: its database and user, its configuration, its statements that add, remove and list.
fn as_documented(stage: &Stage, engine: Engine) -> Result<()> {
    let database = Database::start(stage, engine)?;
    match engine {
        Engine::MariaDb => database.administer(&[statement("CREATE DATABASE ringway")?])?,
        // `psql -c "…" -c "…"`.
        _ => {
            let command = statement("sudo -u postgres psql")?;
            let statements: Vec<&str> = command.split('"').skip(1).step_by(2).collect();
            database.administer(&statements)?;
        }
    }
    let password = stage.path("database-password");
    std::fs::write(&password, "change-me\n")?;
    std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600))?;
    let port = format!("127.0.0.1:{}/", database.port());
    let store = |start: &str| -> Result<String> {
        let text = statement(start)?;
        let text = text.split_once("[store]").context("the block has no [store]")?.1;
        let text =
            text.replace("127.0.0.1/", &port).replace("database-password", &password.display().to_string());
        let scheme = if engine == Engine::MariaDb { "mysql://" } else { "postgres://" };
        Ok(format!("[store]{}\n", text.trim_end().replace("postgres://", scheme)))
    };
    let written = store("domains = [\"example.org\"]")? + "write_back = true\n";
    ensure!(PAGE.contains("write_back = true\n"), "the page has no write_back");
    let server = Server::start_with(stage, Wanted::default(), &written)?;

    let changes = statement("INSERT INTO ringway_subscriber")?;
    let (add, remove) = changes.split_once("DELETE").context("the block removes nobody")?;
    let add = match engine {
        Engine::MariaDb => {
            let (_, of_mysql) = add.split_once("-- MySQL: ").context("the block has no hash of MySQL")?;
            add.replace("encode(sha256('bob:example.org:secret'), 'hex')", of_mysql.trim())
        }
        _ => add.to_owned(),
    };
    let run = |sql: &str| database.read_as("ringway", "change-me", sql).with_context(|| sql.to_owned());
    run(&add)?;
    expect_subscribers(&server, 1, SEEN_IN)?;
    let bob = User { name: "bob".to_owned(), password: "secret".to_owned(), ..users("bob", "bob").remove(0) };
    let play = Play { stage, transport: Transport::Udp, digest: true };
    let within = stage.within("bob")?;
    play.sipp("register", "register", &[bob], free_port()?, Some(server.port)).run(&within)?;
    retry(Duration::from_secs(10), || {
        let listed = run(statement("SELECT name, contact")?)?;
        ensure!(listed.contains("bob"), "the statement of the page lists no registration");
        Ok(())
    })?;
    run(&format!("DELETE{remove}"))?;
    expect_subscribers(&server, 0, SEEN_IN)
}

/// The block of the page that begins so.
fn statement(start: &str) -> Result<&'static str> {
    let mut blocks =
        PAGE.split("\n```").skip(1).step_by(2).filter_map(|block| Some(block.split_once('\n')?.1));
    blocks.find(|block| block.starts_with(start)).with_context(|| format!("no block begins with {start:?}"))
}

const PAGE: &str = include_str!("../../../../docs/recipes/databases.md");

fn other_log(stage: &Stage) -> Result<String> {
    Ok(std::fs::read_to_string(stage.path("ringway.err"))?)
}

/// Users that SQL adds register within a second; they go on while the database is away, also after a restart; what changed
/// meanwhile is followed when it is back.
fn follow(stage: &Stage, engine: Engine) -> Result<()> {
    let mut database = Database::start(stage, engine)?;
    let store = format!("[store]\nurl = \"{}\"\n", database.whole_url());
    let mut server = Server::start_with(stage, Wanted::default(), &store)?;
    let (first, later) = (users("first", "first"), users("later", "later"));
    database.execute(&rows(&first))?;
    expect_subscribers(&server, first.len() as u64, SEEN_IN)?;
    server.bind("fixed", "sip:fixed@192.0.2.7")?;
    let play = Play { stage, transport: Transport::Udp, digest: true };
    let register = |stage: &Stage, users: &[User], server: &Server| -> Result<()> {
        play.sipp("register", "register", users, free_port()?, Some(server.port)).run(stage)
    };
    register(&stage.within("there")?, &first, &server)?;
    expect_late_transaction(&database, engine, &server)?;

    database.kill();
    register(&stage.within("away")?, &first, &server)?;
    server.log_lines("attempts go on", 1)?;
    server.kill();
    server.start_again()?;
    register(&stage.within("restarted")?, &first, &server)?;

    database.start_again(stage)?;
    database.execute(&rows(&later))?;
    database.execute("DELETE FROM ringway_subscriber WHERE name = 'first01';")?;
    // The pause between two attempts is part of it.
    expect_subscribers(&server, (first.len() + later.len() + 1) as u64, Duration::from_secs(40))?;
    register(&stage.within("back")?, &later, &server)?;
    let said = server.log_lines("attempts go on", 1)?;
    ensure!(said.len() == 1, "the restarted server said more than once that the database is away: {said:?}");
    ensure!(server.counters()?.get("provisioning_rows_refused")? == 0, "rows were refused");
    Ok(())
}

/// A transaction that began before another one and ends after it is followed too.
fn expect_late_transaction(database: &Database, engine: Engine, server: &Server) -> Result<()> {
    let [slow, quick] =
        ["slow", "quick"].map(|name| User { name: name.to_owned(), ..users("late", "late").remove(0) });
    let sleep = if engine == Engine::MariaDb { "SELECT sleep(3);" } else { "SELECT pg_sleep(3);" };
    std::thread::scope(|scope| -> Result<()> {
        let slow = scope.spawn(|| database.execute(&format!("BEGIN; {} {sleep} COMMIT;", rows(&[slow]))));
        std::thread::sleep(Duration::from_secs(1));
        database.execute(&rows(&[quick]))?;
        expect_subscribers(server, 21, SEEN_IN)?;
        slow.join().map_err(|_| anyhow::anyhow!("the transaction failed"))?
    })?;
    expect_subscribers(server, 22, SEEN_IN)
}

/// Waits until the server has this number of users.
pub(super) fn expect_subscribers(server: &Server, wanted: u64, within: Duration) -> Result<()> {
    server.await_counter("subscribers", wanted, within)
}

/// A statement that adds users, as an operator's own program would.
pub(super) fn rows(users: &[User]) -> String {
    let wanted = Wanted::default();
    let (realm, domain) = (wanted.realm, wanted.domain);
    let rows = users.iter().map(|user| {
        let ha1 = Ha1::new(user.name.as_bytes(), realm.as_bytes(), user.password.as_bytes());
        let (md5, sha256) =
            (base16ct::lower::encode_string(&ha1.md5), base16ct::lower::encode_string(&ha1.sha256));
        format!("('{domain}', '{}', '{realm}', '{md5}', '{sha256}')", user.name)
    });
    let columns = "domain, name, realm, ha1_md5, ha1_sha256";
    format!("INSERT INTO ringway_subscriber ({columns}) VALUES {};", rows.collect::<Vec<_>>().join(", "))
}

pub(crate) fn migrated_scenarios() -> Vec<Scenario> {
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

/// Time within which the server has a change: a second, and another one for a busy machine.
const SEEN_IN: Duration = Duration::from_secs(2);
