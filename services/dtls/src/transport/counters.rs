//! Counters of associations.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of all DTLS associations of a program.
        #[derive(Debug, Default)]
        pub struct DtlsCounters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl DtlsCounters {
            /// Current values.
            pub fn counts(&self) -> DtlsCounts {
                DtlsCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        /// Values of [`DtlsCounters`] since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct DtlsCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl DtlsCounts {
            /// All counters with their names, for metrics.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// HelloVerifyRequests that answered a ClientHello without a cookie.
    dtls_cookies_sent,
    /// ClientHellos with a cookie of another address or ClientHello, or an expired one.
    dtls_cookies_wrong,
    /// Fragments of a ClientHello from peers without an association.
    dtls_fragmented,
    /// Datagrams from peers without an association that were no ClientHello of DTLS 1.2.
    dtls_not_hello,
    /// Associations that were not begun because too many handshakes were in progress.
    dtls_refused,
    /// Associations that were not begun or ended because handshakes of their source were too many or kept too many bytes.
    dtls_refused_source,
    /// ClientHellos dropped because of the rate of handshakes, of all or of their source. The client retransmits them.
    dtls_postponed,
    /// Completed handshakes of clients.
    dtls_accepted,
    /// Completed handshakes with servers.
    dtls_dialled,
    /// Handshakes that failed because the certificate of the server was not accepted.
    dtls_failed_certificate,
    /// Handshakes that failed for another reason.
    dtls_failed,
    /// Records and fragments dropped because they are malformed, not expected or beyond the limits of an association.
    dtls_excess,
    /// Messages that were not sent because they are longer than a record can be.
    dtls_too_long,
}

pub(crate) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
