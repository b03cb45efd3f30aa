//! Text output on the serial port and the screen.

use core::fmt;

use crate::serial::Serial;
use crate::vga::{ALARM, GREY, Vga};

/// Console for text output. It never fails, waits only for the serial line, and allocates nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    colours: u8,
}

impl Console {
    /// For messages of the boot.
    pub(crate) const fn plain() -> Self {
        Self { colours: GREY }
    }

    /// For fault reports.
    pub(crate) const fn alarm() -> Self {
        Self { colours: ALARM }
    }
}

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) => {
                    Serial.write_all(line.as_bytes());
                    Serial.write_all(b"\r\n");
                }
                None => Serial.write_all(line.as_bytes()),
            }
        }
        Vga.print(text, self.colours);
        Ok(())
    }
}

/// Prints a line to the console.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use core::fmt::Write as _;
        // Writing to the console cannot fail.
        let _ = writeln!($crate::console::Console::plain(), $($words)*);
    }};
}
