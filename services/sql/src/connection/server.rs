//! A connection to a database server that blocks the calling thread.

use crate::connection::mysql::MySql;
use crate::connection::postgres::Postgres;
use crate::connection::{DatabaseError, DatabaseUrl, Engine};
use crate::connection::{Each, Wait};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// A connection to a database server, with a runtime of its own.
pub struct Server {
    runtime: Runtime,
    connection: Connection,
    /// The error that ended the connection: what comes on it later may be the answer to an earlier statement.
    broken: Option<DatabaseError>,
    /// Maximum time of a whole statement, beside that for the next row.
    statement_time_max: Option<Duration>,
}

enum Connection {
    MySql(Box<MySql>),
    Postgres(Box<Postgres>),
}

impl Server {
    /// Connects, within 10 s.
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or does not answer in time.
    pub fn connect(url: &DatabaseUrl) -> Result<Self, DatabaseError> {
        Self::connect_within(url, CONNECT_TIME_MAX, None)
    }

    /// Connects within this time; a statement that takes longer than it ends the connection.
    ///
    /// # Errors
    /// As [`Server::connect`].
    pub fn connect_quickly(url: &DatabaseUrl, time_max: Duration) -> Result<Self, DatabaseError> {
        Self::connect_within(url, time_max, Some(time_max))
    }

    fn connect_within(
        url: &DatabaseUrl,
        connect_time_max: Duration,
        statement_time_max: Option<Duration>,
    ) -> Result<Self, DatabaseError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(DatabaseError::new)?;
        let connect = async {
            match url.engine() {
                Engine::MySql => MySql::connect(url).await.map(Box::new).map(Connection::MySql),
                Engine::Postgres => Postgres::connect(url).await.map(Box::new).map(Connection::Postgres),
            }
        };
        let connected = runtime.block_on(async { timeout(connect_time_max, connect).await });
        let connection = connected.map_err(|_| no_answer(connect_time_max))??;
        let mut server = Self { runtime, connection, broken: None, statement_time_max };
        server.run(match url.engine() {
            Engine::Postgres => "SET lock_timeout = '10s'",
            Engine::MySql => "SET SESSION innodb_lock_wait_timeout = 10, lock_wait_timeout = 10",
        })?;
        Ok(server)
    }

    /// The kind of the server.
    pub const fn engine(&self) -> Engine {
        match self.connection {
            Connection::MySql(_) => Engine::MySql,
            Connection::Postgres(_) => Engine::Postgres,
        }
    }

    /// Names of a table's columns in lower case; none if there is no table. `table` is a word of the program's own.
    ///
    /// # Errors
    /// The query failed.
    pub fn columns(&mut self, table: &str) -> Result<Vec<String>, DatabaseError> {
        let schema = match self.engine() {
            Engine::MySql => "database()",
            Engine::Postgres => "current_schema()",
        };
        let query = format!(
            "SELECT lower(column_name) FROM information_schema.columns WHERE table_schema = {schema} AND table_name = '{table}'"
        );
        let mut columns = Vec::new();
        self.query(&query, &mut |row| columns.extend(row.first().copied().flatten().map(str::to_owned)))?;
        Ok(columns)
    }

    /// Passes each row of a query without parameters, one by one, so that a long result needs no memory.
    ///
    /// # Errors
    /// The query failed, or the next row took more than 60 s.
    pub fn query(&mut self, query: &str, each: Each<'_>) -> Result<(), DatabaseError> {
        self.query_named(query, each, &mut |_| {})
    }

    /// [`Server::query`] that passes the names of the columns before the first row, in lower case. Without a row they may be missing.
    ///
    /// # Errors
    /// As [`Server::query`].
    pub fn query_named(
        &mut self,
        query: &str,
        each: Each<'_>,
        names: &mut dyn FnMut(&[String]),
    ) -> Result<(), DatabaseError> {
        self.step(async |connection| match connection {
            Connection::MySql(mysql) => mysql.query(query, each, names).await,
            Connection::Postgres(postgres) => postgres.query(query, each, names).await,
        })
    }

    /// Runs a step on the connection, unless an earlier one ended it.
    fn step<T>(
        &mut self,
        step: impl AsyncFnOnce(&mut Connection) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let done = match self.statement_time_max {
            None => self.runtime.block_on(step(&mut self.connection)),
            Some(max) => self
                .runtime
                .block_on(async { timeout(max, step(&mut self.connection)).await })
                .unwrap_or_else(|_| Err(no_answer(max))),
        };
        if let Err(error) = &done
            && !error.is_of_statement()
        {
            self.broken = Some(error.clone());
        }
        done
    }

    /// Runs one statement with text parameters, written `$1`, `$2` … in the order of their first use, and passes the rows of its
    /// result. Columns of the result must be texts.
    ///
    /// # Errors
    /// The statement failed, or took more than 60 s.
    pub fn execute(
        &mut self,
        statement: &str,
        parameters: &[Option<&str>],
        each: Each<'_>,
    ) -> Result<u64, DatabaseError> {
        self.step(async |connection| match connection {
            Connection::MySql(mysql) => mysql.execute(statement, parameters, each).await,
            Connection::Postgres(postgres) => postgres.execute(statement, parameters, each).await,
        })
    }

    /// Runs a statement without parameters and without a result.
    ///
    /// # Errors
    /// As [`Server::execute`].
    pub fn run(&mut self, statement: &str) -> Result<(), DatabaseError> {
        self.step(async |connection| match connection {
            Connection::MySql(mysql) => mysql.run(statement).await,
            Connection::Postgres(postgres) => postgres.run(statement).await,
        })
    }

    /// Asks PostgreSQL for notifications of a channel, a word of the program's own. MySQL has none.
    ///
    /// # Errors
    /// As [`Server::execute`].
    pub fn listen(&mut self, channel: &str) -> Result<(), DatabaseError> {
        match self.engine() {
            Engine::MySql => Ok(()),
            Engine::Postgres => self.run(&format!("LISTEN {channel}")),
        }
    }

    /// Waits for a notification, or until the time is over. Notifications that came earlier are one.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn wait(&mut self, time: Duration) -> Result<Wait, DatabaseError> {
        self.step(async |connection| match connection {
            Connection::MySql(_) => {
                tokio::time::sleep(time).await;
                Ok(Wait::TimedOut)
            }
            Connection::Postgres(postgres) => postgres.wait(time).await,
        })
    }
}

fn no_answer(within: Duration) -> DatabaseError {
    DatabaseError::new(format_args!("no answer within {} s", within.as_secs_f32()))
}

/// Maximum time to connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
