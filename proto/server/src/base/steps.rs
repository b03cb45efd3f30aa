//! Timing points: the time of each step of handling a message, by a clock that the driver gives. Off unless it gives one.
//!
//! ```text
//! begin ──Rest──► parser ──Parse──► … ──Rest──► password ──Authenticate──► … ──AddUser──► response ──Format──► end
//! ```
//! A mark gives the time since the mark before it to one step, so the steps of a message add up to the whole.

use alloc::boxed::Box;
use ringway_sip::{Message, Method, Rejected, Start};

/// Step of handling a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Parsing the message.
    Parse,
    /// Looking up a user: its password for a digest, its bindings for a target.
    FindUser,
    /// Checking a digest or a certificate, and making a nonce.
    Authenticate,
    /// Writing the bindings of a REGISTER into the location table and to the store.
    AddUser,
    /// Writing a response, or a forwarded request or response.
    Format,
    /// Everything else: admission, transactions, routes, access rules, timers.
    Rest,
}

impl Step {
    /// All steps, in the order of a request.
    pub const ALL: [Self; 6] =
        [Self::Parse, Self::FindUser, Self::Authenticate, Self::AddUser, Self::Format, Self::Rest];

    /// Name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::FindUser => "find user",
            Self::Authenticate => "authenticate",
            Self::AddUser => "add user",
            Self::Format => "format",
            Self::Rest => "rest",
        }
    }
}

/// Kind of message, for the sums of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepClass {
    /// REGISTER.
    Register,
    /// INVITE.
    Invite,
    /// ACK.
    Ack,
    /// BYE.
    Bye,
    /// CANCEL.
    Cancel,
    /// OPTIONS.
    Options,
    /// Any other request.
    OtherRequest,
    /// Response.
    Response,
    /// Message that the parser rejected.
    Rejected,
}

impl StepClass {
    /// All classes.
    pub const ALL: [Self; 9] = [
        Self::Register,
        Self::Invite,
        Self::Ack,
        Self::Bye,
        Self::Cancel,
        Self::Options,
        Self::OtherRequest,
        Self::Response,
        Self::Rejected,
    ];

    /// Name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Register => "REGISTER",
            Self::Invite => "INVITE",
            Self::Ack => "ACK",
            Self::Bye => "BYE",
            Self::Cancel => "CANCEL",
            Self::Options => "OPTIONS",
            Self::OtherRequest => "other request",
            Self::Response => "response",
            Self::Rejected => "rejected",
        }
    }

    /// Class of what the parser returned.
    pub(crate) fn of(parsed: &Result<Message<'_>, Rejected<'_>>) -> Self {
        match parsed.as_ref().map(Message::start) {
            Ok(Start::Request { method, .. }) => Self::of_request(*method),
            Ok(Start::Response { .. }) => Self::Response,
            Err(_) => Self::Rejected,
        }
    }

    const fn of_request(method: Method<'_>) -> Self {
        match method {
            Method::Register => Self::Register,
            Method::Invite => Self::Invite,
            Method::Ack => Self::Ack,
            Method::Bye => Self::Bye,
            Method::Cancel => Self::Cancel,
            Method::Options => Self::Options,
            Method::Message
            | Method::Subscribe
            | Method::Notify
            | Method::Publish
            | Method::Prack
            | Method::Update
            | Method::Info
            | Method::Refer
            | Method::Other(_) => Self::OtherRequest,
        }
    }
}

/// Sums of one step in the messages of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepSum {
    /// Messages that had the step.
    pub messages: u64,
    /// Marks at its ends: more than the messages if some had it more than once.
    pub marks: u64,
    /// Time in units of the clock, with that of the marks.
    pub time: u64,
}

impl StepSum {
    /// Time without that of its marks, each of which takes `mark`.
    pub const fn net(&self, mark: u64) -> u64 {
        self.time.saturating_sub(self.marks.saturating_mul(mark))
    }

    #[inline]
    fn take_off(&mut self, other: &Self) {
        self.messages = self.messages.saturating_sub(other.messages);
        self.marks = self.marks.saturating_sub(other.marks);
        self.time = self.time.saturating_sub(other.time);
    }

    #[inline]
    fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.marks += other.marks;
        self.time += other.time;
    }
}

/// Sums of all steps by class. A constant size: nothing grows with messages, users or time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepTable {
    sums: [[StepSum; Step::ALL.len()]; StepClass::ALL.len()],
    messages: [u64; StepClass::ALL.len()],
    mark: u64,
}

impl StepTable {
    /// Sums of a step.
    pub fn sum(&self, class: StepClass, step: Step) -> StepSum {
        self.sums.get(class as usize).and_then(|of| of.get(step as usize)).copied().unwrap_or_default()
    }

    /// Messages of a class.
    pub fn messages(&self, class: StepClass) -> u64 {
        self.messages.get(class as usize).copied().unwrap_or_default()
    }

    /// Time of one mark in units of the clock: the shortest of several that had nothing between them.
    pub const fn mark(&self) -> u64 {
        self.mark
    }

    /// Sums of what came after `before`, an earlier state of this table.
    #[must_use]
    #[inline]
    pub fn since(&self, before: &Self) -> Self {
        let mut table = self.clone();
        table.messages.iter_mut().zip(before.messages).for_each(|(sum, of)| *sum = sum.saturating_sub(of));
        let sums = table.sums.iter_mut().flatten().zip(before.sums.iter().flatten());
        sums.for_each(|(sum, of)| sum.take_off(of));
        table
    }

    /// Takes the sums of a class from another table.
    #[inline]
    pub fn copy_class(&mut self, other: &Self, class: StepClass) {
        let index = class as usize;
        if let (Some(sums), Some(of)) = (self.sums.get_mut(index), other.sums.get(index)) {
            *sums = *of;
        }
        if let (Some(messages), Some(of)) = (self.messages.get_mut(index), other.messages.get(index)) {
            *messages = *of;
        }
    }

    /// Adds the sums of another shard.
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.mark = if self.mark == 0 { other.mark } else { self.mark.min(other.mark) };
        self.messages.iter_mut().zip(other.messages).for_each(|(sum, of)| *sum += of);
        let sums = self.sums.iter_mut().flatten().zip(other.sums.iter().flatten());
        sums.for_each(|(sum, of)| sum.add(of));
    }
}

/// Timing points of a shard.
#[derive(Debug, Default)]
pub(crate) struct Steps(Option<Box<Running>>);

/// Timing points that are on.
#[derive(Debug)]
struct Running {
    clock: fn() -> u64,
    /// Time of the last mark.
    last: u64,
    /// Class of the message that is handled; `None`: nothing is measured.
    class: Option<StepClass>,
    current: [StepSum; Step::ALL.len()],
    table: StepTable,
}

impl Steps {
    /// Turns the timing points on with this clock, which must never go back, or off. Sums of before stay while they are on.
    pub(crate) fn set_clock(&mut self, clock: Option<fn() -> u64>) {
        match (clock, &mut self.0) {
            (None, _) => self.0 = None,
            (Some(clock), Some(running)) => running.clock = clock,
            (Some(clock), empty) => *empty = Some(Box::new(Running::new(clock))),
        }
    }

    /// Sums; `None`: off.
    pub(crate) fn table(&self) -> Option<&StepTable> {
        self.0.as_deref().map(|running| &running.table)
    }

    /// Begins a message.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if let Some(running) = &mut self.0 {
            running.begin();
        }
    }

    /// Gives the time since the last mark to a step; outside a message it has no effect.
    #[inline]
    pub(crate) fn mark(&mut self, step: Step) {
        if let Some(running) = &mut self.0 {
            running.mark(step);
        }
    }

    /// The same for the parser; `class` is that of the message.
    #[inline]
    pub(crate) fn mark_parsed(&mut self, class: impl FnOnce() -> StepClass) {
        if let Some(running) = &mut self.0 {
            running.mark(Step::Parse);
            running.class = running.class.map(|_| class());
        }
    }

    /// Ends a message: what was after the last mark is [`Step::Rest`].
    #[inline]
    pub(crate) fn end(&mut self) {
        if let Some(running) = &mut self.0 {
            running.end();
        }
    }
}

impl Running {
    #[cold]
    fn new(clock: fn() -> u64) -> Self {
        let mut running = Self {
            clock,
            last: 0,
            class: None,
            current: [StepSum::default(); Step::ALL.len()],
            table: StepTable::default(),
        };
        let mut mark = u64::MAX;
        for _ in 0..EMPTY_MARKS {
            running.begin();
            running.mark(Step::Rest);
            mark = mark.min(running.current.iter().map(|sum| sum.time).sum());
        }
        running.class = None;
        running.table.mark = mark;
        running
    }

    #[cold]
    #[inline(never)]
    fn begin(&mut self) {
        self.current = [StepSum::default(); Step::ALL.len()];
        self.class = Some(StepClass::Rejected);
        self.last = (self.clock)();
    }

    #[cold]
    #[inline(never)]
    fn mark(&mut self, step: Step) {
        if self.class.is_none() {
            return;
        }
        let now = (self.clock)();
        if let Some(sum) = self.current.get_mut(step as usize) {
            *sum = StepSum {
                messages: 1,
                marks: sum.marks + 1,
                time: sum.time.saturating_add(now.saturating_sub(self.last)),
            };
        }
        self.last = now;
    }

    #[cold]
    #[inline(never)]
    fn end(&mut self) {
        self.mark(Step::Rest);
        let Some(class) = self.class.take() else { return };
        let table = &mut self.table;
        if let (Some(sums), Some(messages)) =
            (table.sums.get_mut(class as usize), table.messages.get_mut(class as usize))
        {
            *messages += 1;
            sums.iter_mut().zip(&self.current).for_each(|(sum, of)| sum.add(of));
        }
    }
}

/// Marks with nothing between them, the shortest of which is the time of a mark.
const EMPTY_MARKS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    std::thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    /// Clock that each reading takes one unit of.
    fn clock() -> u64 {
        NOW.with(|now| {
            now.set(now.get() + 1);
            now.get()
        })
    }

    fn work(units: u64) {
        NOW.with(|now| now.set(now.get() + units));
    }

    fn times(table: &StepTable, class: StepClass) -> [u64; 6] {
        Step::ALL.map(|step| table.sum(class, step).net(table.mark()))
    }

    /// A REGISTER with these times, and its time on the clock from begin to end.
    fn register(steps: &mut Steps, [parse, find, authenticate, add, format, rest]: [u64; 6]) -> u64 {
        steps.begin();
        let begun = NOW.with(Cell::get);
        steps.mark(Step::Rest);
        work(parse);
        steps.mark_parsed(|| StepClass::Register);
        work(rest);
        steps.mark(Step::Rest);
        work(authenticate / 2);
        steps.mark(Step::Authenticate);
        work(find);
        steps.mark(Step::FindUser);
        work(authenticate - authenticate / 2);
        steps.mark(Step::Authenticate);
        work(add);
        steps.mark(Step::AddUser);
        work(format);
        steps.mark(Step::Format);
        steps.end();
        NOW.with(Cell::get) - begun
    }

    #[test]
    fn each_step_gets_its_time_and_their_sum_is_the_whole() {
        let mut steps = Steps::default();
        steps.set_clock(Some(clock));
        let whole = register(&mut steps, [500, 60, 701, 300, 200, 90]);
        let whole = whole + register(&mut steps, [100, 10, 20, 30, 40, 50]);
        let table = steps.table().unwrap();
        assert_eq!(table.mark(), 1);
        assert_eq!(times(table, StepClass::Register), [600, 70, 721, 330, 240, 140]);
        assert_eq!(table.messages(StepClass::Register), 2);
        let sums = Step::ALL.map(|step| table.sum(StepClass::Register, step));
        assert_eq!(sums.iter().map(|sum| sum.time).sum::<u64>(), whole);
        assert_eq!(sums.map(|sum| sum.messages), [2; 6]);
        assert_eq!(sums.map(|sum| sum.marks), [2, 2, 4, 2, 2, 6]);
    }

    #[test]
    fn a_step_that_did_not_happen_has_no_message() {
        let mut steps = Steps::default();
        steps.set_clock(Some(clock));
        steps.begin();
        steps.mark(Step::Rest);
        steps.mark_parsed(|| StepClass::Response);
        work(7);
        steps.end();
        let table = steps.table().unwrap();
        let messages = Step::ALL.map(|step| table.sum(StepClass::Response, step).messages);
        assert_eq!(messages, [1, 0, 0, 0, 0, 1]);
        assert_eq!(times(table, StepClass::Response), [0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn marks_outside_a_message_and_of_one_that_was_dropped_count_nothing() {
        let mut steps = Steps::default();
        steps.set_clock(Some(clock));
        steps.mark(Step::Format);
        steps.mark_parsed(|| StepClass::Invite);
        steps.end();
        steps.begin();
        work(1000);
        steps.mark(Step::Rest);
        // The next message begins without the end of that one.
        register(&mut steps, [1, 2, 3, 4, 5, 6]);
        let table = steps.table().unwrap();
        assert_eq!(StepClass::ALL.map(|class| table.messages(class)).iter().sum::<u64>(), 1);
        assert_eq!(times(table, StepClass::Register), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_table_has_what_came_after_an_earlier_one() {
        let mut steps = Steps::default();
        steps.set_clock(Some(clock));
        register(&mut steps, [500, 60, 700, 300, 200, 90]);
        let mut before = StepTable::default();
        before.copy_class(steps.table().unwrap(), StepClass::Invite);
        assert_eq!(before.messages(StepClass::Register), 0);
        before.copy_class(steps.table().unwrap(), StepClass::Register);
        register(&mut steps, [1, 2, 3, 4, 5, 6]);
        let after = steps.table().unwrap().since(&before);
        assert_eq!(times(&after, StepClass::Register), [1, 2, 3, 4, 5, 6]);
        assert_eq!((after.messages(StepClass::Register), after.mark()), (1, 1));
    }

    #[test]
    fn shards_are_added_and_off_has_no_table() {
        let mut both = StepTable::default();
        for _ in 0..2 {
            let mut steps = Steps::default();
            assert!(steps.table().is_none());
            register(&mut steps, [9; 6]);
            assert!(steps.table().is_none());
            steps.set_clock(Some(clock));
            register(&mut steps, [5, 4, 3, 2, 1, 0]);
            steps.set_clock(Some(clock));
            both.add(steps.table().unwrap());
            steps.set_clock(None);
            assert!(steps.table().is_none());
        }
        assert_eq!(times(&both, StepClass::Register), [10, 8, 6, 4, 2, 0]);
        assert_eq!((both.messages(StepClass::Register), both.mark()), (2, 1));
    }
}
