//! PostgreSQL.

use crate::connection::{DatabaseError, DatabaseUrl};
use crate::connection::{Each, Wait, in_time};
use futures_util::future::poll_fn;
use futures_util::{StreamExt, TryStreamExt};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A connection to PostgreSQL.
pub(crate) struct Postgres {
    client: Client,
    /// Set by a notification, and by the end of the connection.
    notified: Arc<Notify>,
}

impl Postgres {
    pub(crate) async fn connect(url: &DatabaseUrl) -> Result<Self, DatabaseError> {
        let mut config: Config = url.as_str().parse().map_err(|error| full(&error))?;
        let notified = Arc::new(Notify::new());
        let client = match url.authorities() {
            None => {
                let connected = config.ssl_mode(SslMode::Disable).connect(NoTls).await;
                let (client, connection) = connected.map_err(|error| full(&error))?;
                tokio::spawn(drive(connection, Arc::clone(&notified)));
                client
            }
            Some(authorities) => {
                let tls = MakeRustlsConnect::new(client_config(authorities)?);
                let connected = config.ssl_mode(SslMode::Require).connect(tls).await;
                let (client, connection) = connected.map_err(|error| full(&error))?;
                tokio::spawn(drive(connection, Arc::clone(&notified)));
                client
            }
        };
        Ok(Self { client, notified })
    }

    pub(crate) async fn query(
        &self,
        query: &str,
        each: Each<'_>,
        names: &mut dyn FnMut(&[String]),
    ) -> Result<(), DatabaseError> {
        let messages = in_time(self.client.simple_query_raw(query)).await?;
        let mut messages = pin!(messages.map_err(|error| full(&error))?);
        loop {
            match in_time(messages.next()).await? {
                None => return Ok(()),
                Some(Ok(SimpleQueryMessage::Row(row))) => {
                    let values = (0..row.len()).map(|column| row.try_get(column).ok().flatten());
                    each(&values.collect::<Vec<_>>());
                }
                Some(Ok(SimpleQueryMessage::RowDescription(columns))) => {
                    let columns = columns.iter().map(|column| column.name().to_lowercase());
                    names(&columns.collect::<Vec<_>>());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(full(&error)),
            }
        }
    }

    pub(crate) async fn execute(
        &self,
        statement: &str,
        parameters: &[Option<&str>],
        each: Each<'_>,
    ) -> Result<u64, DatabaseError> {
        let parameters = parameters.iter().map(|parameter| (*parameter, Type::TEXT));
        let rows = in_time(self.client.query_typed_raw(statement, parameters)).await?;
        let mut rows = pin!(rows.map_err(|error| full(&error))?);
        while let Some(row) = in_time(rows.try_next()).await?.map_err(|error| full(&error))? {
            let values = (0..row.len()).map(|column| row.try_get(column).ok().flatten());
            each(&values.collect::<Vec<_>>());
        }
        Ok(rows.rows_affected().unwrap_or_default())
    }

    pub(crate) async fn run(&self, statement: &str) -> Result<(), DatabaseError> {
        in_time(self.client.batch_execute(statement)).await?.map_err(|error| full(&error))
    }

    pub(crate) async fn wait(&self, time: Duration) -> Result<Wait, DatabaseError> {
        let wait = timeout(time, self.notified.notified()).await;
        if self.client.is_closed() {
            return Err(DatabaseError::new("the server closed the connection"));
        }
        Ok(if wait.is_ok() { Wait::Notified } else { Wait::TimedOut })
    }
}

/// TLS with servers whose certificate is of one of these authorities.
fn client_config(authorities: &[CertificateDer<'static>]) -> Result<ClientConfig, DatabaseError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(config.map_err(DatabaseError::new)?.with_root_certificates(roots).with_no_client_auth())
}

/// Runs the connection until it ends. Queries report its failure.
async fn drive<S, T>(mut connection: Connection<S, T>, notified: Arc<Notify>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            notified.notify_one();
        }
    }
    notified.notify_one();
}

/// The error with its cause, which its own text lacks.
fn full(error: &tokio_postgres::Error) -> DatabaseError {
    match error.as_db_error() {
        Some(cause) => DatabaseError::of_server(cause.message()),
        None => match std::error::Error::source(error) {
            Some(source) => DatabaseError::new(format_args!("{error}: {source}")),
            None => DatabaseError::new(error),
        },
    }
}
