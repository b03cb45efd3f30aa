//! MySQL and MariaDB.

use crate::connection::{DatabaseError, DatabaseUrl};
use crate::connection::{Each, in_time};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Params, Row, SslOpts, Value};
use std::borrow::Cow;

/// A connection to MySQL.
pub(crate) struct MySql(Conn);

impl MySql {
    pub(crate) async fn connect(url: &DatabaseUrl) -> Result<Self, DatabaseError> {
        let opts = Opts::from_url(url.as_str()).map_err(DatabaseError::new)?;
        let tls = url.authorities().map(|authorities| {
            let roots = authorities.iter().map(|authority| authority.to_vec().into());
            SslOpts::default().with_root_certs(roots.collect()).with_disable_built_in_roots(true)
        });
        let opts = OptsBuilder::from_opts(opts).ssl_opts(tls);
        Conn::new(opts).await.map(Self).map_err(|error| full(&error))
    }

    pub(crate) async fn query(
        &mut self,
        query: &str,
        each: Each<'_>,
        names: &mut dyn FnMut(&[String]),
    ) -> Result<(), DatabaseError> {
        let mut result = in_time(self.0.query_iter(query)).await?.map_err(|error| full(&error))?;
        let columns = result.columns_ref().iter().map(|column| column.name_str().to_lowercase());
        names(&columns.collect::<Vec<_>>());
        while let Some(row) = in_time(result.next()).await?.map_err(|error| full(&error))? {
            pass(&row, each);
        }
        Ok(())
    }

    pub(crate) async fn execute(
        &mut self,
        statement: &str,
        parameters: &[Option<&str>],
        each: Each<'_>,
    ) -> Result<u64, DatabaseError> {
        let (statement, order) = positional(statement);
        let value = |index: usize| match parameters.get(index).copied().flatten() {
            Some(text) => Value::Bytes(text.as_bytes().to_vec()),
            None => Value::NULL,
        };
        let parameters = Params::Positional(order.into_iter().map(value).collect());
        let mut result =
            in_time(self.0.exec_iter(statement, parameters)).await?.map_err(|error| full(&error))?;
        while let Some(row) = in_time(result.next()).await?.map_err(|error| full(&error))? {
            pass(&row, each);
        }
        Ok(result.affected_rows())
    }

    pub(crate) async fn run(&mut self, statement: &str) -> Result<(), DatabaseError> {
        in_time(self.0.query_drop(statement)).await?.map_err(|error| full(&error))
    }
}

fn full(error: &mysql_async::Error) -> DatabaseError {
    match error {
        mysql_async::Error::Server(cause) => DatabaseError::of_server(&cause.message),
        other => DatabaseError::new(other),
    }
}

fn pass(row: &Row, each: Each<'_>) {
    let values: Vec<Option<Cow<'_, str>>> = (0..row.len())
        .map(|column| match row.as_ref(column)? {
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Value::Int(number) => Some(Cow::Owned(number.to_string())),
            Value::UInt(number) => Some(Cow::Owned(number.to_string())),
            Value::NULL | Value::Float(_) | Value::Double(_) | Value::Date(..) | Value::Time(..) => None,
        })
        .collect();
    each(&values.iter().map(Option::as_deref).collect::<Vec<_>>());
}

/// The statement with `?` in place of `$1`, `$2` …, and the indices of their parameters.
fn positional(statement: &str) -> (String, Vec<usize>) {
    let mut order = Vec::new();
    let mut parts = statement.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        order.push(number.parse::<usize>().unwrap_or_default().saturating_sub(1));
        text.push('?');
        text.push_str(rest);
    }
    (text, order)
}

#[cfg(test)]
mod tests {
    use super::positional;

    #[test]
    fn numbered_parameters_become_positional_ones() {
        let (text, order) = positional("UPDATE t SET a = $2 WHERE b = $1 AND c = $1");
        assert_eq!((text.as_str(), order), ("UPDATE t SET a = ? WHERE b = ? AND c = ?", vec![1, 0, 0]));
    }
}
