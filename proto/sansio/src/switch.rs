//! Switches of builds with the feature `attack-control`: a defence that is off, a fault that is planted. In all other builds the answers
//! are constants.

#[cfg(feature = "attack-control")]
use core::sync::atomic::{AtomicUsize, Ordering};

macro_rules! switches {
    ($(#[$doc:meta])+ $switched:ident { $($(#[$of:meta])+ $variant:ident = $name:literal;)+ }) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $switched {
            $($(#[$of])+ $variant,)+
        }

        impl $switched {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
pub(crate) use switches;

#[cfg(feature = "attack-control")]
pub(crate) struct Switches {
    /// Defence that is off.
    pub(crate) off: Switch,
    /// Fault that is planted.
    pub(crate) planted: Switch,
    /// By these bytes `cargo xtask package` recognises such a program.
    _mark: [u8; 36],
}

/// Number of what is switched, in this process.
#[cfg(feature = "attack-control")]
pub(crate) struct Switch(AtomicUsize);

#[cfg(feature = "attack-control")]
impl Switch {
    pub(crate) fn is(&self, number: usize) -> bool {
        self.0.load(Ordering::Relaxed) == number
    }

    pub(crate) fn set(&self, number: Option<usize>) {
        self.0.store(number.unwrap_or(NONE), Ordering::Relaxed);
    }
}

/// The switches, with their mark: nothing of it is optimized away.
#[cfg(feature = "attack-control")]
pub(crate) fn current() -> &'static Switches {
    static SWITCHES: Switches = Switches {
        off: Switch(AtomicUsize::new(NONE)),
        planted: Switch(AtomicUsize::new(NONE)),
        _mark: *b"ringway defences can be switched off",
    };
    core::hint::black_box(&SWITCHES)
}

#[cfg(feature = "attack-control")]
const NONE: usize = usize::MAX;
