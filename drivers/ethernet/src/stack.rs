//! smoltcp's part of a station: ARP replies, ICMP, fragments, DHCP, DNS and TCP sockets.

use crate::frame;
use crate::{Card, FRAME_BYTES_MAX, Lease, NAME_SERVERS_MAX};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use core::time::Duration;
use ringway_sansio::{HostNameId, Instant, LocatedServers, Target};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{dhcpv4, dns, udp};
use smoltcp::time::Duration as StackDuration;
use smoltcp::wire::{DhcpPacket, DnsQueryType, EthernetAddress, HardwareAddress, IpAddress, IpCidr};

pub(crate) struct Stack {
    pub(crate) interface: Interface,
    pub(crate) sockets: SocketSet<'static>,
    dhcp: Option<SocketHandle>,
    dhcp_requests: DhcpRequests,
    dns: SocketHandle,
    queries: Vec<Query>,
    /// Received frame for the next call of smoltcp.
    rx_frame: Vec<u8>,
}

/// A running DNS lookup.
struct Query {
    query: u64,
    target: Target,
    handle: dns::QueryHandle,
}

/// State and rate limit of DHCP requests.
#[derive(Default)]
struct DhcpRequests {
    /// True from a request until a server leased an address.
    is_pending: bool,
    /// The second of the last request, and the number of requests sent in it.
    second: i64,
    sent: u32,
}

/// Change of the DHCP lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A first or a different lease.
    Leased(Lease),
    /// The lease expired or was refused.
    Lost,
}

impl Stack {
    pub(crate) fn new<C: Card>(card: &mut C, seed: u64, now: Instant) -> Self {
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(card.address())));
        config.random_seed = seed;
        let mut device =
            CardDevice { card, rx_frame: &mut Vec::new(), dhcp_requests: &mut DhcpRequests::default() };
        let mut interface = Interface::new(config, &mut device, stack_time(now));
        interface.set_reassembly_timeout(REASSEMBLY_TIME);
        let mut sockets = SocketSet::new(Vec::new());
        let dns = sockets.add(dns::Socket::new(&[], Vec::new()));
        Self {
            interface,
            sockets,
            dhcp: None,
            dhcp_requests: DhcpRequests::default(),
            dns,
            queries: Vec::new(),
            rx_frame: Vec::with_capacity(FRAME_BYTES_MAX),
        }
    }

    /// Starts the DHCP client.
    pub(crate) fn start_dhcp(&mut self) {
        let mut socket = dhcpv4::Socket::new();
        let mut retry = dhcpv4::RetryConfig::default();
        // RFC 2131 §4.1 begins with 4 s; shorter timeouts make booting quicker while the link is not up yet.
        retry.discover_timeout = StackDuration::from_secs(1);
        retry.initial_request_timeout = StackDuration::from_secs(1);
        socket.set_retry_config(retry);
        socket.set_parameter_request_list(WANTED_OPTIONS);
        // Leaked once for the lifetime of the machine.
        socket.set_receive_packet_buffer(Box::leak(vec![0; FRAME_BYTES_MAX].into_boxed_slice()));
        self.dhcp = Some(self.sockets.add(socket));
    }

    /// Applies an IP configuration.
    pub(crate) fn apply(&mut self, lease: Option<&Lease>) {
        self.interface.update_ip_addrs(|addresses| {
            addresses.clear();
            if let Some(lease) = lease {
                // The list has a capacity of two.
                let _ = addresses.push(IpCidr::Ipv4(lease.cidr()));
            }
        });
        self.interface.routes_mut().remove_default_ipv4_route();
        if let Some(gateway) = lease.and_then(|lease| lease.gateway) {
            // The table has a capacity for this only route.
            let _ = self.interface.routes_mut().add_default_ipv4_route(gateway);
        }
        let servers: Vec<IpAddress> = lease
            .into_iter()
            .flat_map(|lease| &lease.name_servers)
            .take(NAME_SERVERS_MAX)
            .map(|server| IpAddress::Ipv4(*server))
            .collect();
        self.sockets.get_mut::<dns::Socket<'_>>(self.dns).update_servers(&servers);
    }

    /// Opens a UDP socket, which receives the reassembled datagrams of a port.
    pub(crate) fn open_datagrams(&mut self, port: u16, bytes: usize) -> Option<SocketHandle> {
        let buffer = |bytes| udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 8], vec![0; bytes]);
        let mut socket = udp::Socket::new(buffer(bytes), buffer(SMALL_BYTES));
        socket.bind(port).ok()?;
        Some(self.sockets.add(socket))
    }

    pub(crate) fn close_datagrams(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
    }

    pub(crate) fn datagrams(&mut self, handle: SocketHandle) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Stores a copy of a frame for [`Stack::ingest`].
    pub(crate) fn store(&mut self, frame: &[u8]) {
        self.rx_frame.clear();
        self.rx_frame.extend_from_slice(frame);
    }

    /// Processes the stored frame.
    pub(crate) fn ingest<C: Card>(&mut self, card: &mut C, now: Instant) {
        if !self.rx_frame.is_empty() {
            let mut device =
                CardDevice { card, rx_frame: &mut self.rx_frame, dhcp_requests: &mut self.dhcp_requests };
            self.interface.poll_ingress_single(stack_time(now), &mut device, &mut self.sockets);
            self.rx_frame.clear();
        }
    }

    /// Runs timers and sends pending frames.
    pub(crate) fn poll<C: Card>(&mut self, card: &mut C, now: Instant) {
        self.interface.poll_maintenance(stack_time(now));
        let mut device =
            CardDevice { card, rx_frame: &mut self.rx_frame, dhcp_requests: &mut self.dhcp_requests };
        self.interface.poll_egress(stack_time(now), &mut device, &mut self.sockets);
    }

    /// True from a DHCP request to the lease. At other times frames of DHCP servers are dropped (RFC 2131 §4.4, figure
    /// 5): otherwise any host of the link could revoke the lease with one packet.
    pub(crate) fn awaits_dhcp(&self) -> bool {
        self.dhcp_requests.is_pending
    }

    /// Next change of the lease.
    pub(crate) fn take_change(&mut self) -> Option<Change> {
        let socket = self.sockets.get_mut::<dhcpv4::Socket<'_>>(self.dhcp?);
        match socket.poll()? {
            dhcpv4::Event::Deconfigured => Some(Change::Lost),
            dhcpv4::Event::Configured(config) => {
                let lease = lease_of(&config);
                if lease.is_usable() {
                    self.dhcp_requests.is_pending = false;
                    return Some(Change::Leased(lease));
                }
                // The lease is unusable; the client starts again.
                socket.reset();
                Some(Change::Lost)
            }
        }
    }

    /// Starts a DNS lookup. False: too many are running, the name is invalid, or there is no address or name server.
    pub(crate) fn resolve(&mut self, query: u64, target: Target) -> bool {
        if self.queries.len() >= QUERIES_MAX || self.interface.ipv4_addr().is_none() {
            return false;
        }
        let socket = self.sockets.get_mut::<dns::Socket<'_>>(self.dns);
        match socket.start_query(self.interface.context(), &target.host, DnsQueryType::A) {
            Ok(handle) => {
                self.queries.push(Query { query, target, handle });
                true
            }
            Err(_) => false,
        }
    }

    /// Next completed lookup: its query, and the server at the first address.
    pub(crate) fn take_resolved(&mut self) -> Option<(u64, LocatedServers)> {
        let socket = self.sockets.get_mut::<dns::Socket<'_>>(self.dns);
        for (index, Query { handle, .. }) in self.queries.iter().enumerate() {
            let address = match socket.get_query_result(*handle) {
                Err(dns::GetQueryResultError::Pending) => continue,
                Err(dns::GetQueryResultError::Failed) => None,
                Ok(addresses) => addresses.first().map(|address| match address {
                    IpAddress::Ipv4(v4) => IpAddr::V4(*v4),
                }),
            };
            let Query { query, target, .. } = self.queries.swap_remove(index);
            let server = address.map(|ip| target.server_at(ip, HostNameId::NONE));
            return Some((query, server.into_iter().collect()));
        }
        None
    }
}

/// smoltcp's view of the card. Received frames are passed one at a time in `rx_frame`.
struct CardDevice<'a, C> {
    card: &'a mut C,
    rx_frame: &'a mut Vec<u8>,
    dhcp_requests: &'a mut DhcpRequests,
}

struct RxFrame<'a>(&'a [u8]);

struct TxFrame<'a, C> {
    card: &'a mut C,
    now: smoltcp::time::Instant,
    dhcp_requests: &'a mut DhcpRequests,
}

impl<C: Card> Device for CardDevice<'_, C> {
    type RxToken<'a>
        = RxFrame<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = TxFrame<'a, C>
    where
        Self: 'a;

    fn receive(&mut self, now: smoltcp::time::Instant) -> Option<(RxFrame<'_>, TxFrame<'_, C>)> {
        if self.rx_frame.is_empty() {
            return None;
        }
        Some((RxFrame(self.rx_frame), TxFrame { card: self.card, now, dhcp_requests: self.dhcp_requests }))
    }

    fn transmit(&mut self, now: smoltcp::time::Instant) -> Option<TxFrame<'_, C>> {
        Some(TxFrame { card: self.card, now, dhcp_requests: self.dhcp_requests })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME_BYTES_MAX;
        capabilities
    }
}

impl DhcpRequests {
    /// Counts a request. False: [`REQUESTS_PER_SECOND_MAX`] is reached; the client then repeats the request after a
    /// second. Without this limit a server that refuses every request would be queried in a loop.
    fn count_request(&mut self, now: smoltcp::time::Instant) -> bool {
        if self.second != now.secs() {
            (self.second, self.sent) = (now.secs(), 0);
        }
        self.sent += 1;
        self.is_pending |= self.sent <= REQUESTS_PER_SECOND_MAX;
        self.sent <= REQUESTS_PER_SECOND_MAX
    }
}

impl RxToken for RxFrame<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl<C: Card> TxToken for TxFrame<'_, C> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, f: F) -> R {
        let mut room = [0; FRAME_BYTES_MAX];
        let bytes = bytes.min(room.len());
        let bytes = room.split_at_mut(bytes).0;
        let result = f(bytes);
        // If the ring is full the frame is lost.
        if !frame::is_to_dhcp(bytes) || self.dhcp_requests.count_request(self.now) {
            self.card.send(bytes.len(), |to| to.copy_from_slice(bytes));
        }
        result
    }
}

fn lease_of(config: &dhcpv4::Config<'_>) -> Lease {
    let packet = config.packet.as_ref();
    let option = |kind: u8| {
        packet
            .and_then(|packet| packet.options().find(|option| option.kind == kind).map(|option| option.data))
    };
    let named = option(OPTION_TFTP_SERVER).and_then(text).and_then(|text| text.parse::<Ipv4Addr>().ok());
    let next = packet.map(DhcpPacket::server_ip).filter(|address| !address.is_unspecified());
    let file = option(OPTION_BOOT_FILE).and_then(text).map(String::from);
    let seconds = option(OPTION_LEASE_TIME)
        .and_then(|bytes| bytes.first_chunk())
        .map(|bytes| u32::from_be_bytes(*bytes));
    Lease {
        address: config.address.address(),
        prefix_bits: config.address.prefix_len(),
        gateway: config.router,
        name_servers: config.dns_servers.iter().copied().take(NAME_SERVERS_MAX).collect(),
        boot_server: named.or(next).or(Some(config.server.identifier)),
        boot_file: file,
        dhcp_server: Some(config.server.identifier),
        duration: seconds.map(|seconds| Duration::from_secs(u64::from(seconds))),
    }
}

/// Visible ASCII up to the first zero byte.
fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = core::str::from_utf8(bytes.get(..end)?).ok()?;
    Some(text).filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Converts an endpoint of smoltcp.
pub(crate) fn socket_address(endpoint: smoltcp::wire::IpEndpoint) -> SocketAddrV4 {
    let IpAddress::Ipv4(address) = endpoint.addr;
    SocketAddrV4::new(address, endpoint.port)
}

pub(crate) fn stack_time(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros(i64::try_from(now.as_nanos() / 1000).unwrap_or(i64::MAX))
}

/// RFC 2132: subnet mask, router, name servers, lease time, TFTP server, boot file.
const WANTED_OPTIONS: &[u8] = &[1, 3, 6, OPTION_LEASE_TIME, OPTION_TFTP_SERVER, OPTION_BOOT_FILE];
const OPTION_LEASE_TIME: u8 = 51;
const OPTION_TFTP_SERVER: u8 = 66;
const OPTION_BOOT_FILE: u8 = 67;

/// Maximum number of DHCP requests in a second: four refused offers.
const REQUESTS_PER_SECOND_MAX: u32 = 8;

/// Time limit of a reassembly. RFC 1122 §3.3.2 recommends a minute; but there are only four buffers, and four incomplete
/// packets would block all others for that time. Fragments of a packet arrive back to back.
const REASSEMBLY_TIME: StackDuration = StackDuration::from_secs(5);

/// Maximum number of concurrent DNS lookups.
const QUERIES_MAX: usize = 4;

/// Size of the send buffer of a socket that sends little.
const SMALL_BYTES: usize = 2048;
