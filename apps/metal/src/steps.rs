//! Times of the server's steps as lines of text (`measure=steps`), by the clock that the image gives.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use ringway_server::{Step, StepClass, StepTable};

/// Steps as they were printed last, of each class.
#[derive(Debug, Default)]
pub(crate) struct PrintedSteps(Option<Box<StepTable>>);

impl PrintedSteps {
    /// Line of a class with [`MESSAGES`] more messages than in its last line.
    pub(crate) fn next_line(&mut self, table: &StepTable) -> Option<String> {
        let printed = self.0.get_or_insert_default();
        let is_due = |class: &StepClass| table.messages(*class) >= printed.messages(*class) + MESSAGES;
        let class = StepClass::ALL.into_iter().find(is_due)?;
        let text = line(&table.since(printed), class);
        printed.copy_class(table, class);
        Some(text)
    }
}

/// Means over all messages of the class, so that they add up.
fn line(table: &StepTable, class: StepClass) -> String {
    let messages = table.messages(class);
    let mean = |time: u64| (time + messages / 2).checked_div(messages).unwrap_or(0);
    let (mut text, mut all) = (format!("steps: {messages} {}:", class.name()), 0);
    for step in Step::ALL {
        let time = table.sum(class, step).net(table.mark());
        all += time;
        text.push_str(&format!(" {} {},", step.name(), mean(time)));
    }
    text.push_str(&format!(" all {} cycles", mean(all)));
    text
}

/// Messages of a printed line.
const MESSAGES: u64 = 1000;
