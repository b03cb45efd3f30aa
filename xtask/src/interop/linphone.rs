//! linphonec registers by digest.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::process::{Running, free_port};
use super::server::{Server, Wanted};
use super::{Scenario, Stage, Transport};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let register = |transport: Transport| {
        let name = format!("linphone/register/{}", transport.name());
        Scenario::new(name, move |stage: &Stage| {
            let server = Server::start(stage, Wanted::default(), &[])?;
            server.add_user("carol")?;
            let mut phone = start(stage, "carol", server.port, transport)?;
            registered(&mut phone)?;
            server.expect_registered(["carol"].into_iter(), true)
        })
    };
    Transport::ALL.map(register).into()
}

/// Starts linphonec as `user`, whose password is `secret-USER`.
pub(crate) fn start(stage: &Stage, user: &str, server: u16, transport: Transport) -> Result<Running> {
    let home = stage.path(&format!("{user}-linphone"));
    // Without these folders it cannot open its database, and then does nothing.
    std::fs::create_dir_all(home.join(".local/share/linphone"))?;
    std::fs::create_dir_all(home.join(".config/linphone"))?;
    let port = free_port()?.to_string();
    let none = "-1".to_owned();
    let (udp, tcp) = if transport == Transport::Udp { (port, none) } else { (none, port) };
    let mut text = std::fs::read_to_string(stage.data.join("linphone/linphonerc"))?;
    let words = [
        ("@UDP@", udp),
        ("@TCP@", tcp),
        ("@USER@", user.to_owned()),
        ("@PASSWORD@", format!("secret-{user}")),
        ("@SERVER@", server.to_string()),
        ("@TRANSPORT@", transport.name().to_owned()),
    ];
    for (word, value) in &words {
        text = text.replace(word, value);
    }
    let rc = home.join("linphonerc");
    std::fs::write(&rc, text)?;
    let mut command = Command::new("linphonec");
    command.env("HOME", &home).arg("-b").arg("/dev/null").arg("-c").arg(&rc);
    command.args(["-d", "6", "-l"]).arg(stage.path(&format!("{user}.messages")));
    Running::start(user, &mut command, &stage.folder)
}

/// Waits until linphonec says that it is registered.
pub(crate) fn registered(phone: &mut Running) -> Result<()> {
    phone.wait_for_output("linphonec>", Duration::from_secs(10))?;
    let mut outcome = Ok(());
    for _ in 0..10 {
        phone.type_line("status register")?;
        outcome = phone.wait_for_output("registered, identity=", Duration::from_millis(500));
        if outcome.is_ok() {
            break;
        }
    }
    outcome.context("linphonec did not register")
}
