//! REGISTERs that must get no 200.

use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, Result, ensure};

use super::nodes::{Nodes, Shared, eventually, start_one};
use super::redis::Redis;
use super::register;
use crate::interop::Stage;
use crate::interop::calls::users;
use crate::interop::server::{Server, Wanted};
use crate::process::free_port;

/// With strict durability a user whose change the store refuses gets 503, and the others 200.
pub(super) fn change(stage: &Stage) -> Result<()> {
    let redis = Redis::sentinel(stage)?;
    let all = users("callee", "caller");
    let (first, others) = all.split_first().context("no users")?;
    let wanted = Wanted { strict: true, ..Wanted::default() };
    let nodes = Nodes::start(stage, &redis, (wanted, 1), &all)?;
    redis.set_later_record(&format!("{}@example.org", first.name))?;
    let node = nodes.node(0)?;
    let refused = register(&stage.within("refused")?, std::slice::from_ref(first), free_port()?, node);
    ensure!(refused.is_err(), "a refused REGISTER got 200");
    let refusals = node.counters()?.get("location_refusals")?;
    ensure!(refusals > 0, "no REGISTER got 503 after its change");
    register(&stage.within("others")?, others, free_port()?, node)
}

/// A second server with the name of a node registers nobody while the first one runs.
pub(super) fn name(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let all = users("callee", "caller");
    let mut nodes = Nodes::start(stage, &redis, (Wanted::default(), 1), &all)?;
    let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, free_port()?);
    let shared = Shared { store: "", url: redis.url(1), name: "a", listen };
    let mut second = start_one(&stage.within("second")?, &shared, Wanted::default(), &all)?;
    second.log_lines("another server has the name of this node", 1)?;
    ensure!(state(&second)? == "name-taken", "{}", second.cluster()?);
    let refused = register(&stage.within("refused")?, &all, free_port()?, &second);
    ensure!(refused.is_err(), "a server whose name is taken registers phones");
    ensure!(second.counters()?.get("name_taken_registers")? > 0, "no REGISTER was refused for that");
    register(&stage.within("first")?, &all, free_port()?, nodes.node(0)?)?;
    nodes.node_mut(0)?.kill();
    eventually("the second server has the name", || {
        let state = state(&second)?;
        ensure!(state == "up", "{state}");
        Ok(())
    })?;
    register(&stage.within("second-again")?, &all, free_port()?, &second)
}

/// State of a server in its own list of nodes.
fn state(server: &Server) -> Result<String> {
    let cluster = server.cluster()?;
    Ok(cluster["nodes"][0]["state"].as_str().context("no state")?.to_owned())
}
