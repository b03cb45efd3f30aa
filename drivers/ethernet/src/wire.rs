//! Link layer of a station: card, addresses and neighbours; its IP configuration. Sends datagrams as frames.

use crate::frame::{
    self, ARP_FRAME_BYTES, Datagram, FRAGMENT_HEADERS_BYTES, LinkAddresses, PAYLOAD_BYTES_MAX, Part,
};
use crate::neighbours::{NeighbourState, Neighbours};
use crate::{Card, StationCounters};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::time::Duration;
use ringway_sansio::{Instant, Token};
use smoltcp::wire::{EthernetAddress, Ipv4Cidr};

pub(crate) struct Wire<C> {
    pub(crate) card: C,
    pub(crate) neighbours: Neighbours,
    pub(crate) counters: StationCounters,
    lease: Option<Lease>,
    own: LinkAddresses,
    /// Identification of the next packet (RFC 791 §3.2).
    ident: u16,
    /// Buffer for a datagram that is fragmented.
    whole: Vec<u8>,
    /// Tokens of packets that could not be sent.
    pub(crate) unreachable: Vec<Token>,
}

impl<C: Card> Wire<C> {
    /// `ident` should be random, so that fragments sent before a restart are not mixed with new ones.
    pub(crate) fn new(card: C, ident: u16) -> Self {
        Self {
            own: LinkAddresses { hardware: EthernetAddress(card.address()), address: None, all: None },
            card,
            neighbours: Neighbours::default(),
            counters: StationCounters::default(),
            lease: None,
            ident,
            whole: Vec::new(),
            unreachable: Vec::new(),
        }
    }

    /// Applies an IP configuration; fails the packets that wait for ARP.
    pub(crate) fn set_lease(&mut self, lease: Option<Lease>) {
        self.own.address = lease.as_ref().map(|lease| lease.address);
        self.own.all = lease.as_ref().and_then(Lease::all);
        self.lease = lease;
        for waiting in self.neighbours.clear() {
            self.report(waiting.token);
        }
    }

    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    pub(crate) const fn own(&self) -> LinkAddresses {
        self.own
    }

    /// Sends a datagram from a local port. A failure is reported by the token.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        from_port: u16,
        to: SocketAddrV4,
        token: Token,
        payload: &[u8],
    ) {
        let Some(next_hop) = self.next_hop(*to.ip()) else {
            self.counters.no_route += 1;
            return self.report(token);
        };
        if payload.len() > PAYLOAD_BYTES_MAX || to.port() == 0 {
            self.counters.no_route += 1;
            return self.report(token);
        }
        match self.neighbours.find(now, next_hop) {
            NeighbourState::At(hardware) => self.send_to(hardware, from_port, to, token, payload),
            NeighbourState::Stale(hardware) => {
                self.send_to(hardware, from_port, to, token, payload);
                self.request(now, next_hop);
            }
            NeighbourState::Unknown => {
                if self.neighbours.wait(next_hop, (from_port, to), token, payload) {
                    self.request(now, next_hop);
                } else {
                    self.report(token);
                }
            }
        }
    }

    /// Stores the MAC address of a station of this link, and sends the packets that waited for it.
    pub(crate) fn learn(&mut self, now: Instant, address: Ipv4Addr, hardware: EthernetAddress) {
        if !self.lease.as_ref().is_some_and(|lease| lease.is_other_station(address)) {
            return;
        }
        for waiting in self.neighbours.learn(now, address, hardware) {
            self.send_to(hardware, waiting.from_port, waiting.to, waiting.token, &waiting.payload);
        }
    }

    /// Repeats ARP requests, and fails the packets whose next hop did not reply.
    pub(crate) fn expire(&mut self, now: Instant) {
        let Self { neighbours, card, own: LinkAddresses { hardware, .. }, lease, .. } = self;
        let Some(address) = lease.as_ref().map(|lease| lease.address) else { return };
        let given_up = neighbours.expire(now, |target| {
            send_arp_request(card, *hardware, address, target);
        });
        for waiting in given_up {
            self.counters.unanswered += 1;
            self.report(waiting.token);
        }
    }

    fn send_to(
        &mut self,
        next_hop: EthernetAddress,
        from_port: u16,
        to: SocketAddrV4,
        token: Token,
        payload: &[u8],
    ) {
        let Some(own) = self.own().address else { return self.report(token) };
        let datagram = Datagram { from: SocketAddrV4::new(own, from_port), to, payload };
        self.ident = self.ident.wrapping_add(1);
        let (hardware, ident) = (self.own.hardware, self.ident);
        let is_sent = match datagram.frame_bytes() {
            Some(bytes) => self.card.send(bytes, |room| datagram.write(room, hardware, next_hop, ident)),
            None => self.send_fragments(&datagram, next_hop),
        };
        if is_sent {
            self.counters.datagrams_out += 1;
        } else {
            // A lost datagram; SIP retransmits.
            self.counters.ring_full += 1;
        }
    }

    fn send_fragments(&mut self, datagram: &Datagram<'_>, next_hop: EthernetAddress) -> bool {
        let Self { card, own: LinkAddresses { hardware, .. }, ident, whole, .. } = self;
        datagram.write_whole(whole);
        Datagram::fragments(whole).all(|(offset, bytes, is_last)| {
            let part = Part { ident: *ident, offset, is_last };
            card.send(FRAGMENT_HEADERS_BYTES + bytes.len(), |room| {
                datagram.write_fragment(room, (*hardware, next_hop), bytes, part);
            })
        })
    }

    /// Next hop of a packet. `None`: there is no route.
    fn next_hop(&self, to: Ipv4Addr) -> Option<Ipv4Addr> {
        let lease = self.lease.as_ref()?;
        if to.is_unspecified()
            || to.is_broadcast()
            || to.is_multicast()
            || to.is_loopback()
            || to == lease.address
        {
            return None;
        }
        if !lease.is_on_link(to) { lease.gateway } else { Some(to).filter(|to| lease.is_other_station(*to)) }
    }

    fn request(&mut self, now: Instant, target: Ipv4Addr) {
        let Some(address) = self.own().address else { return };
        if self.neighbours.begin_request(now, target) {
            send_arp_request(&mut self.card, self.own.hardware, address, target);
        }
    }

    fn report(&mut self, token: Token) {
        self.counters.unreachable += 1;
        if token != Token::NONE {
            self.unreachable.push(token);
        }
    }
}

fn send_arp_request<C: Card>(card: &mut C, own: EthernetAddress, address: Ipv4Addr, target: Ipv4Addr) {
    // A lost request is repeated.
    card.send(ARP_FRAME_BYTES, |room| frame::write_arp_request(room, own, address, target));
}

/// IP configuration: leased by DHCP (RFC 2131) or fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Address of the station.
    pub address: Ipv4Addr,
    /// Length of the network prefix, 1 to 31 bits.
    pub prefix_bits: u8,
    /// Default gateway.
    pub gateway: Option<Ipv4Addr>,
    /// DNS servers, at most [`NAME_SERVERS_MAX`].
    pub name_servers: Vec<Ipv4Addr>,
    /// TFTP server: DHCP option 66 if it is an address, else `siaddr`, else the DHCP server.
    pub boot_server: Option<Ipv4Addr>,
    /// Boot file name of DHCP (option 67).
    pub boot_file: Option<alloc::string::String>,
    /// DHCP server; `None`: fixed configuration.
    pub dhcp_server: Option<Ipv4Addr>,
    /// Lease time. `None`: fixed configuration, or not given by the server.
    pub duration: Option<Duration>,
}

impl Lease {
    /// Creates a fixed configuration. `None`: the prefix is not 1 to 31 bits, or the address is not a host address.
    pub fn fixed(address: Ipv4Addr, prefix_bits: u8, gateway: Option<Ipv4Addr>) -> Option<Self> {
        let lease = Self {
            address,
            prefix_bits,
            gateway,
            name_servers: Vec::new(),
            boot_server: None,
            boot_file: None,
            dhcp_server: None,
            duration: None,
        };
        lease.is_usable().then_some(lease)
    }

    /// False for addresses that a host cannot have; both DHCP servers and users may give such addresses.
    pub(crate) fn is_usable(&self) -> bool {
        let address = self.address;
        (1..=31).contains(&self.prefix_bits)
            && !(address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || address.is_broadcast())
            && !self.is_all(address)
    }

    fn is_on_link(&self, address: Ipv4Addr) -> bool {
        self.cidr().contains_addr(&address)
    }

    /// True for an address that another station of this link can have.
    fn is_other_station(&self, address: Ipv4Addr) -> bool {
        // In numbers, because it is called for each packet.
        let host_mask = u32::MAX.checked_shr(u32::from(self.prefix_bits)).unwrap_or(0);
        let (own, other) = (self.address.to_bits(), address.to_bits());
        let host = other & host_mask;
        let is_all = self.prefix_bits < 31 && (host == 0 || host == host_mask);
        (own ^ other) & !host_mask == 0 && own != other && !is_all
    }

    fn is_all(&self, address: Ipv4Addr) -> bool {
        self.all().is_some_and(|all| all.contains(&address))
    }

    /// Network address and broadcast address, which no station has; a /31 has neither (RFC 3021).
    pub(crate) fn all(&self) -> Option<[Ipv4Addr; 2]> {
        let cidr = self.cidr();
        cidr.broadcast().map(|last| [cidr.network().address(), last])
    }

    pub(crate) fn cidr(&self) -> Ipv4Cidr {
        // `Ipv4Cidr::new` panics above 32.
        Ipv4Cidr::new(self.address, self.prefix_bits.min(32))
    }
}

/// Maximum number of DNS servers.
pub const NAME_SERVERS_MAX: usize = 3;
