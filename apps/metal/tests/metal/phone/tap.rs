//! An eavesdropper on the cable: reads SIP, and with the keys in it the sound, which is why that is called weak.

use ringway_media::g711;
use ringway_media::rtp::RtpPacket;
use ringway_sdp::Codec;
use ringway_sdp::sdes::CryptoLine;
use ringway_srtp::SrtpReceiver;
use ringway_test_support::tone::share_at;
use smoltcp::wire::{EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet, TcpPacket, UdpPacket};
use std::net::Ipv4Addr;

#[derive(Default)]
pub(crate) struct Tap {
    /// SIP messages: from where, and the text. Over TCP: segments.
    pub(crate) sip: Vec<(Ipv4Addr, String)>,
    /// Datagrams to the port of RTP, in order.
    pub(crate) rtp: Vec<(Ipv4Addr, Vec<u8>)>,
}

impl Tap {
    pub(crate) fn see(&mut self, frame: &[u8]) {
        let Ok(ethernet) = EthernetFrame::new_checked(frame) else { return };
        if ethernet.ethertype() != EthernetProtocol::Ipv4 {
            return;
        }
        let Ok(packet) = Ipv4Packet::new_checked(ethernet.payload()) else { return };
        let from = packet.src_addr();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match packet.next_header() {
            IpProtocol::Udp => {
                let Ok(datagram) = UdpPacket::new_checked(packet.payload()) else { return };
                match datagram.dst_port() {
                    5060 => self.sip.push((from, text(datagram.payload()))),
                    16_384 => self.rtp.push((from, datagram.payload().to_vec())),
                    _ => {}
                }
            }
            IpProtocol::Tcp => {
                let Ok(segment) = TcpPacket::new_checked(packet.payload()) else { return };
                self.sip.push((from, text(segment.payload())));
            }
            _ => {}
        }
    }

    /// Messages that begin so.
    pub(crate) fn messages(&self, beginning: &str) -> impl Iterator<Item = &str> {
        self.sip.iter().map(|(_, text)| text.as_str()).filter(move |text| text.starts_with(beginning))
    }

    /// Sound from an address, opened with the keys of its last description, and how many packets there were.
    pub(crate) fn sound(&self, from: Ipv4Addr) -> (Vec<i16>, usize) {
        let mut receivers = self.receivers(from);
        let mut sound = Vec::new();
        let mut count = 0;
        for (_, packet) in self.rtp.iter().filter(|(source, _)| *source == from) {
            let mut packet = packet.clone();
            let opened = receivers.iter_mut().find_map(|receiver| receiver.unprotect_rtp(&mut packet).ok());
            let len = if receivers.is_empty() { Some(packet.len()) } else { opened };
            let Some(Ok(rtp)) = len.map(|len| RtpPacket::parse(&packet[..len])) else { continue };
            if rtp.header().payload_type == 0 {
                let mut block = vec![0; rtp.payload().len()];
                g711::decode(Codec::Pcmu, rtp.payload(), &mut block);
                sound.extend(block);
                count += 1;
            }
        }
        (sound, count)
    }

    /// The share of the last second's energy from an address that is at one frequency.
    pub(crate) fn share_at(&self, from: Ipv4Addr, frequency_hz: f64) -> f64 {
        let (sound, count) = self.sound(from);
        assert!(sound.len() >= 8000, "{count} packets of sound from {from}");
        share_at(&sound[sound.len() - 8000..], frequency_hz)
    }

    /// One for each key in the last description from an address.
    fn receivers(&self, from: Ipv4Addr) -> Vec<SrtpReceiver> {
        let described =
            self.sip.iter().rev().find(|(source, text)| *source == from && text.contains("\r\nm=audio"));
        let Some((_, text)) = described else { return Vec::new() };
        let lines = text.lines().filter_map(|line| line.strip_prefix("a=crypto:"));
        lines
            .map(|line| {
                let line = CryptoLine::parse(line.trim().as_bytes()).unwrap();
                SrtpReceiver::new(line.suite, &line.key).unwrap()
            })
            .collect()
    }
}
