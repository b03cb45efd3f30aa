//! NAPTR and SRV records as text.

use hickory_resolver::proto::rr::{RData, Record};
use ringway_resolve::{Naptr, Srv};

/// NAPTR record as text; a service or flag that is not UTF-8 is none of SIP.
pub(crate) struct NaptrText {
    order: u16,
    preference: u16,
    flags: String,
    service: String,
    regexp: String,
    replacement: String,
}

impl NaptrText {
    pub(crate) fn read(record: &Record) -> Option<Self> {
        let RData::NAPTR(naptr) = &record.data else { return None };
        Some(Self {
            order: naptr.order,
            preference: naptr.preference,
            flags: String::from_utf8(naptr.flags.to_vec()).ok()?,
            service: String::from_utf8(naptr.services.to_vec()).ok()?,
            // Without one a record still has its replacement.
            regexp: String::from_utf8(naptr.regexp.to_vec()).unwrap_or_default(),
            replacement: naptr.replacement.to_ascii(),
        })
    }

    pub(crate) fn bytes_len(&self) -> usize {
        let texts = [&self.flags, &self.service, &self.regexp, &self.replacement];
        size_of::<Self>() + texts.iter().map(|text| text.capacity()).sum::<usize>()
    }

    pub(crate) fn record(&self) -> Naptr<'_> {
        Naptr {
            order: self.order,
            preference: self.preference,
            flags: &self.flags,
            service: &self.service,
            regexp: &self.regexp,
            replacement: &self.replacement,
        }
    }
}

/// SRV record with its target as text.
pub(crate) struct SrvText {
    pub(crate) priority: u16,
    pub(crate) weight: u16,
    port: u16,
    target: String,
}

impl SrvText {
    pub(crate) fn read(record: &Record) -> Option<Self> {
        let RData::SRV(srv) = &record.data else { return None };
        let (priority, weight, port) = (srv.priority, srv.weight, srv.port);
        Some(Self { priority, weight, port, target: srv.target.to_ascii() })
    }

    pub(crate) fn bytes_len(&self) -> usize {
        size_of::<Self>() + self.target.capacity()
    }

    pub(crate) fn record(&self) -> Srv<'_> {
        Srv { priority: self.priority, weight: self.weight, port: self.port, target: &self.target }
    }
}
