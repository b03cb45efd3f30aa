//! Faults that a build with the feature `attack-control` can plant, one at a time: the checks of random stories must find them
//! (docs/decisions/0078).

use crate::switch::switches;

switches! {
    /// Mistake as a programmer could make it.
    PlantedFault {
        /// A REGISTER that removes a binding leaves it.
        RemovalIgnored = "removal-ignored";
        /// Bindings end a minute late.
        LateExpiry = "late-expiry";
        /// A further phone of a user replaces the first one.
        PhoneReplaced = "phone-replaced";
        /// One more contact is taken than the limit says.
        ContactTooMany = "contact-too-many";
        /// A refresh is confirmed and changes nothing.
        RefreshForgotten = "refresh-forgotten";
        /// Changed bindings are not stored.
        BindingNotStored = "binding-not-stored";
        /// An INVITE that is sent again is a new one.
        RetransmissionForked = "retransmission-forked";
        /// A next hop that says nothing is waited for without end.
        NoTimeout = "no-timeout";
        /// A failed INVITE is not acknowledged.
        AckForgotten = "ack-forgotten";
        /// The transaction of a failed INVITE waits for its ACK without end.
        AckAwaited = "ack-awaited";
        /// The failure of one phone ends a call that rings at another.
        EarlyFailure = "early-failure";
        /// A CANCEL goes to the first phone only.
        CancelForgotten = "cancel-forgotten";
        /// After an answer the other phones go on ringing.
        RingsOn = "rings-on";
        /// A phone may ring for ever.
        NoTimerC = "no-timer-c";
        /// The context of a call that was cancelled stays.
        ContextKept = "context-kept";
        /// The memory of a forked call is not given back.
        MemoryKept = "memory-kept";
        /// Requests do not lose a hop.
        HopsKept = "hops-kept";
        /// The record of a call that was cancelled has no end.
        RecordKept = "record-kept";
        /// A node keeps bindings that another one removed.
        RemovalUnread = "removal-unread";
        /// A node forgets that its update is still on the way.
        UpdateOvertaken = "update-overtaken";
    }
}

impl PlantedFault {
    /// False, unless a build with the feature `attack-control` planted it.
    #[cfg(not(feature = "attack-control"))]
    #[inline(always)]
    pub const fn is_planted(self) -> bool {
        false
    }

    /// True if it is planted.
    #[cfg(feature = "attack-control")]
    pub fn is_planted(self) -> bool {
        crate::switch::current().planted.is(self as usize)
    }

    /// Plants one fault in this process, and removes all others; `None`: there is none.
    #[cfg(feature = "attack-control")]
    pub fn plant(fault: Option<Self>) {
        crate::switch::current().planted.set(fault.map(|fault| fault as usize));
    }
}
