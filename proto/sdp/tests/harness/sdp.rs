//! Descriptions: a written description is parsed as the same one, within the limits, and every attribute can
//! be read.

use ringway_sdp::{Limits, MediaDescription, SessionDescription};
use std::string::String;
use std::vec::Vec;

pub(crate) fn run(data: &[u8]) {
    let limits = Limits { bytes_max: 4096, lines_max: 64, media_max: 4, attributes_max: 16, formats_max: 8 };
    for limits in [Limits::default(), limits] {
        let Ok(description) = SessionDescription::parse(data, &limits) else { continue };
        holds(&description, &limits);
        let mut written = Vec::new();
        description.write_to(&mut written);
        // A line that was missing may exceed the limits.
        let again = match SessionDescription::parse(&written, &Limits::default()) {
            Ok(again) => again,
            Err(malformed) if malformed.fault.is_limit() => continue,
            Err(malformed) => panic!("{malformed}: {}", String::from_utf8_lossy(&written)),
        };
        let mut twice = Vec::new();
        again.write_to(&mut twice);
        assert_eq!(twice, written, "written as it was parsed");
        assert_eq!(again.media().len(), description.media().len());
        for (one, two) in again.media().iter().zip(description.media()) {
            assert_eq!((one.medium(), one.port(), one.profile()), (two.medium(), two.port(), two.profile()));
            assert!(one.formats().eq(two.formats()));
            assert_eq!((one.connections(), one.attributes()), (two.connections(), two.attributes()));
            assert_eq!(one.other_lines().len(), two.other_lines().len(), "in the grammar's order");
        }
        assert_eq!(again.connection(), description.connection());
        assert_eq!(again.attributes(), description.attributes());
        assert_eq!((again.origin(), again.time()), (description.origin(), description.time()));
    }
}

fn holds(description: &SessionDescription, limits: &Limits) {
    assert!(description.media().len() <= limits.media_max);
    assert!(description.attributes().len() <= limits.attributes_max);
    for section in description.media() {
        assert!(section.attributes().len() <= limits.attributes_max);
        assert!(section.formats().count() <= limits.formats_max);
        assert!(
            section.port() == 0 || !section.connections().is_empty() || description.connection().is_some()
        );
        let _ = description.direction_of(section);
        attributes_of(section);
    }
}

fn attributes_of(section: &MediaDescription) {
    for payload_type in 0..=127 {
        if let Some(map) = section.rtpmap(payload_type) {
            assert!(!map.encoding.is_empty());
        }
    }
    assert_ne!(section.ptime_ms(), Some(0));
    assert_ne!(section.maxptime_ms(), Some(0));
    if let Some(rtcp) = section.rtcp() {
        assert!(rtcp.port != 0 && rtcp.address.is_none_or(|address| !address.is_multicast()));
    }
    for connection in section.connections() {
        assert!(connection.unicast().is_none_or(|address| !address.is_multicast()));
    }
    let _ = (section.profile(), section.has_several_ports(), section.zrtp_hash());
}
