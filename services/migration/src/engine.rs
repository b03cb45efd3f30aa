//! Database servers, read over the network.

use futures_util::StreamExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Value};
use std::pin::pin;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Kind of a database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// MySQL or MariaDB.
    MySql,
    /// PostgreSQL.
    Postgres,
}

/// A connection to a database server, with a runtime of its own.
pub(crate) struct Server {
    runtime: Runtime,
    connection: Connection,
}

enum Connection {
    MySql(Conn),
    Postgres(Client),
}

impl Server {
    pub(crate) fn connect(engine: Engine, url: &str) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let connected = runtime.block_on(async {
            let connect = async {
                match engine {
                    Engine::MySql => connect_mysql(url).await.map(Connection::MySql),
                    Engine::Postgres => connect_postgres(url).await.map(Connection::Postgres),
                }
            };
            timeout(CONNECT_TIME_MAX, connect).await
        });
        let connection = connected.map_err(|_| "no answer within 10 s".to_owned())??;
        Ok(Self { runtime, connection })
    }

    /// Names of a table's columns in lower case; none if there is no table.
    pub(crate) fn columns(&mut self, table: &str) -> Result<Vec<String>, String> {
        let schema = match self.connection {
            Connection::MySql(_) => "database()",
            Connection::Postgres(_) => "current_schema()",
        };
        let query = format!(
            "SELECT lower(column_name) FROM information_schema.columns WHERE table_schema = {schema} AND table_name = '{table}'"
        );
        let mut columns = Vec::new();
        self.query(&query, &mut |row| columns.extend(row.first().copied().flatten().map(str::to_owned)))?;
        Ok(columns)
    }

    /// Passes each row of a query, which is of this crate's own words, as texts.
    pub(crate) fn query(&mut self, query: &str, each: &mut dyn FnMut(&[Option<&str>])) -> Result<(), String> {
        let Self { runtime, connection } = self;
        runtime.block_on(async {
            match connection {
                Connection::MySql(connection) => query_mysql(connection, query, each).await,
                Connection::Postgres(client) => query_postgres(client, query, each).await,
            }
        })
    }
}

async fn connect_mysql(url: &str) -> Result<Conn, String> {
    let opts = Opts::from_url(url).map_err(|error| error.to_string())?;
    Conn::new(opts).await.map_err(|error| error.to_string())
}

async fn connect_postgres(url: &str) -> Result<Client, String> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(|error| full(&error))?;
    tokio::spawn(async move {
        // Queries report its failure.
        let _ = connection.await;
    });
    Ok(client)
}

async fn query_mysql(
    connection: &mut Conn,
    query: &str,
    each: &mut dyn FnMut(&[Option<&str>]),
) -> Result<(), String> {
    let result = timeout(ANSWER_TIME_MAX, connection.query_iter(query)).await;
    let mut result = result.map_err(|_| NO_ANSWER)?.map_err(|error| error.to_string())?;
    loop {
        let row = timeout(ANSWER_TIME_MAX, result.next()).await;
        let Some(row) = row.map_err(|_| NO_ANSWER)?.map_err(|error| error.to_string())? else {
            return Ok(());
        };
        let values = (0..row.len()).map(|column| match row.as_ref(column) {
            Some(Value::Bytes(bytes)) => std::str::from_utf8(bytes).ok(),
            // The text protocol has texts and NULL only.
            Some(_) | None => None,
        });
        each(&values.collect::<Vec<_>>());
    }
}

async fn query_postgres(
    client: &Client,
    query: &str,
    each: &mut dyn FnMut(&[Option<&str>]),
) -> Result<(), String> {
    let messages = timeout(ANSWER_TIME_MAX, client.simple_query_raw(query)).await;
    let mut messages = pin!(messages.map_err(|_| NO_ANSWER)?.map_err(|error| full(&error))?);
    loop {
        let message = timeout(ANSWER_TIME_MAX, messages.next()).await.map_err(|_| NO_ANSWER)?;
        match message {
            None => return Ok(()),
            Some(Ok(SimpleQueryMessage::Row(row))) => {
                let values = (0..row.len()).map(|column| row.try_get(column).ok().flatten());
                each(&values.collect::<Vec<_>>());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(full(&error)),
        }
    }
}

/// The error with its cause, which its own text lacks.
fn full(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(cause) => cause.message().to_owned(),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

const NO_ANSWER: &str = "no answer within 60 s";

/// Maximum time to connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum time for the next row.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
