//! Definition of a set of counters.

/// Defines a struct of counters whose doc comments are their descriptions, with a method `for_each` for metrics. An array
/// may follow behind a semicolon; its constant has the name and description of each element.
///
/// ```
/// ringway_sansio::counters! {
///     /// Counters of a node; values only increase.
///     pub struct Counters {
///         /// Requests received.
///         requests,
///     }
/// }
/// Counters { requests: 3 }.for_each(|name, meaning, value| {
///     assert_eq!((name, meaning, value), ("requests", "Requests received.", 3));
/// });
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$attribute:meta])* pub struct $counters:ident {
        $($(#[doc = $doc:literal])+ $name:ident,)+
        $(; $(#[$array_doc:meta])+ $array:ident: [u64; $len:expr] = $names:expr,)?
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
            $($(#[$array_doc])+ pub $array: [u64; $len],)?
        }

        impl $counters {
            /// Calls `each` with name, description and value of every counter.
            pub fn for_each(&self, mut each: impl FnMut(&'static str, &'static str, u64)) {
                $(each(stringify!($name), concat!($($doc, " ",)+).trim(), self.$name);)+
                $(for ((name, meaning), value) in $names.iter().zip(self.$array) {
                    each(name, meaning, value);
                })?
            }
        }
    };
}
