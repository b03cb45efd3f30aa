//! `ringway drain`: phones leave the running server, calls go on.

use crate::admin_client::AdminClient;
use crate::args::DrainArgs;
use crate::failure::Failure;
use crate::output::{self, printable};
use serde_json::{Value, json};

/// Begins or cancels a drain, and prints what that does.
pub(crate) fn run(args: &DrainArgs) -> Result<(), Failure> {
    let server = AdminClient::of(&args.server)?;
    let (status, answer) = match args.cancel {
        true => server.delete("/api/drain")?,
        false => server.post("/api/drain", &json!({ "over_s": args.over }).to_string())?,
    };
    if status != 200 {
        let why = answer.get("error").and_then(Value::as_str).unwrap_or("no admin API of a ringway server");
        return Err(Failure::failed(format!("{}: {status}: {}", server.address(), printable(why))));
    }
    if args.json {
        output::line(&answer.to_string())?;
    } else if args.cancel {
        output::line("drain cancelled: phones may register again")?;
    } else {
        output::line(&format!(
            "drain begun: phones leave within {} s, new requests get 503, calls go on",
            args.over
        ))?;
        output::line(
            "stop the server when its calls have ended; `ringway show calls` lists answered ones only with [records]",
        )?;
        output::line("`ringway drain --cancel` ends it")?;
    }
    Ok(())
}
