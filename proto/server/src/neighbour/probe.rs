//! Text of the request by which a neighbour is probed.

use crate::Config;
use alloc::vec::Vec;
use ringway_sansio::Flow;
use ringway_sip::write_number;

/// Writes an OPTIONS for the neighbour itself: `Max-Forwards: 0` makes it answer (RFC 3261 §11).
pub(super) fn write_options(
    config: &Config,
    index: usize,
    flow: &Flow,
    call: u64,
    cseq: u32,
    branch: &[u8],
    out: &mut Vec<u8>,
) {
    let Some(neighbour) = config.neighbours.get(index) else { return };
    let (uri, domain) = (&neighbour.uri, config.domains.first().map_or("", |domain| domain.as_str()));
    let call = ringway_sip::hex16(call);
    let parts: [&[u8]; 5] = [
        b"OPTIONS ",
        uri.as_bytes(),
        b" SIP/2.0\r\nVia: SIP/2.0/",
        flow.transport.via_token().as_bytes(),
        b" ",
    ];
    parts.iter().for_each(|part| out.extend_from_slice(part));
    config.sent_by(flow.listener, flow.remote.ip()).write(out);
    let parts: [&[u8]; 11] = [
        if neighbour.offers_alias { b";alias;branch=" } else { b";branch=" },
        branch,
        b";rport\r\nMax-Forwards: 0\r\nFrom: <sip:",
        domain.as_bytes(),
        b">;tag=",
        &call,
        b"\r\nTo: <",
        uri.as_bytes(),
        b">\r\nCall-ID: ",
        &call,
        b"\r\nCSeq: ",
    ];
    parts.iter().for_each(|part| out.extend_from_slice(part));
    write_number(out, u64::from(cseq));
    out.extend_from_slice(b" OPTIONS\r\nContent-Length: 0\r\n\r\n");
}
