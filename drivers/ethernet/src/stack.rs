//! smoltcp's half of a station: ARP answers, ICMP, fragments, DHCP, DNS and the sockets of TCP.

use crate::frame;
use crate::{Card, FRAME_BYTES_MAX, Lease, NAME_SERVERS_MAX};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use core::time::Duration;
use ringway_sansio::Instant;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{dhcpv4, dns, udp};
use smoltcp::time::Duration as StackDuration;
use smoltcp::wire::{DhcpPacket, DnsQueryType, EthernetAddress, HardwareAddress, IpAddress, IpCidr};

pub(crate) struct Stack {
    pub(crate) interface: Interface,
    pub(crate) sockets: SocketSet<'static>,
    dhcp: Option<SocketHandle>,
    asking: Asking,
    dns: SocketHandle,
    queries: Vec<Query>,
    /// The frame that is handed to the stack next.
    inlet: Vec<u8>,
}

/// A look-up under way.
struct Query {
    query: u64,
    handle: dns::QueryHandle,
}

/// Our questions to DHCP servers.
#[derive(Default)]
struct Asking {
    /// True from a question until a server gave an address.
    is_open: bool,
    /// The second of the last question, and how many went out in it.
    second: i64,
    sent: u32,
}

/// What the program is told of its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is one now, or another one.
    Leased(Lease),
    /// There is none any more.
    Lost,
}

impl Stack {
    pub(crate) fn new<C: Card>(card: &mut C, seed: u64, now: Instant) -> Self {
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(card.address())));
        config.random_seed = seed;
        let mut door = Door { card, inlet: &mut Vec::new(), asking: &mut Asking::default() };
        let mut interface = Interface::new(config, &mut door, stack_time(now));
        interface.set_reassembly_timeout(REASSEMBLY_TIME);
        let mut sockets = SocketSet::new(Vec::new());
        let dns = sockets.add(dns::Socket::new(&[], Vec::new()));
        Self {
            interface,
            sockets,
            dhcp: None,
            asking: Asking::default(),
            dns,
            queries: Vec::new(),
            inlet: Vec::with_capacity(FRAME_BYTES_MAX),
        }
    }

    /// Asks for an address by DHCP from now on.
    pub(crate) fn start_dhcp(&mut self) {
        let mut socket = dhcpv4::Socket::new();
        let mut retry = dhcpv4::RetryConfig::default();
        // RFC 2131 §4.1 begins with 4 s; a network that is up answers at once, and one that is not is asked often.
        retry.discover_timeout = StackDuration::from_secs(1);
        retry.initial_request_timeout = StackDuration::from_secs(1);
        socket.set_retry_config(retry);
        socket.set_parameter_request_list(WANTED_OPTIONS);
        // Once in the life of the machine.
        socket.set_receive_packet_buffer(Box::leak(vec![0; FRAME_BYTES_MAX].into_boxed_slice()));
        self.dhcp = Some(self.sockets.add(socket));
    }

    /// Uses these addresses.
    pub(crate) fn apply(&mut self, lease: Option<&Lease>) {
        self.interface.update_ip_addrs(|addresses| {
            addresses.clear();
            if let Some(lease) = lease {
                // It has room for two.
                let _ = addresses.push(IpCidr::Ipv4(lease.cidr()));
            }
        });
        self.interface.routes_mut().remove_default_ipv4_route();
        if let Some(gateway) = lease.and_then(|lease| lease.gateway) {
            // The only route there is.
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

    /// Opens a UDP socket for a port: fragments of datagrams to it are put together here.
    pub(crate) fn open_datagrams(&mut self, port: u16, bytes: usize) -> Option<SocketHandle> {
        let buffer = |bytes| udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 8], vec![0; bytes]);
        let mut socket = udp::Socket::new(buffer(bytes), buffer(SMALL_BYTES));
        socket.bind(port).ok()?;
        Some(self.sockets.add(socket))
    }

    /// Closes such a socket.
    pub(crate) fn close_datagrams(&mut self, handle: SocketHandle) {
        self.sockets.remove(handle);
    }

    /// Such a socket.
    pub(crate) fn datagrams(&mut self, handle: SocketHandle) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Keeps a copy of a frame for [`Stack::ingest`].
    pub(crate) fn offer(&mut self, frame: &[u8]) {
        self.inlet.clear();
        self.inlet.extend_from_slice(frame);
    }

    /// Lets the stack work on the frame that it was offered.
    pub(crate) fn ingest<C: Card>(&mut self, card: &mut C, now: Instant) {
        if !self.inlet.is_empty() {
            let mut door = Door { card, inlet: &mut self.inlet, asking: &mut self.asking };
            self.interface.poll_ingress_single(stack_time(now), &mut door, &mut self.sockets);
            self.inlet.clear();
        }
    }

    /// Lets the stack send what it has, and do what is due.
    pub(crate) fn poll<C: Card>(&mut self, card: &mut C, now: Instant) {
        self.interface.poll_maintenance(stack_time(now));
        let mut door = Door { card, inlet: &mut self.inlet, asking: &mut self.asking };
        self.interface.poll_egress(stack_time(now), &mut door, &mut self.sockets);
    }

    /// True while a DHCP server was asked and gave no address yet. Who has one passes over what such servers send (RFC 2131
    /// §4.4, figure 5): anybody on the link could take the address away with one packet.
    pub(crate) fn awaits_dhcp(&self) -> bool {
        self.asking.is_open
    }

    /// What DHCP brought since the last call.
    pub(crate) fn take_change(&mut self) -> Option<Change> {
        let socket = self.sockets.get_mut::<dhcpv4::Socket<'_>>(self.dhcp?);
        match socket.poll()? {
            dhcpv4::Event::Deconfigured => Some(Change::Lost),
            dhcpv4::Event::Configured(config) => {
                let lease = lease_of(&config);
                if lease.is_usable() {
                    self.asking.is_open = false;
                    return Some(Change::Leased(lease));
                }
                // A server that offers nonsense is asked again.
                socket.reset();
                Some(Change::Lost)
            }
        }
    }

    /// Looks a name up. False: too many are looked up already, or it is no name, or nobody can be asked.
    pub(crate) fn resolve(&mut self, query: u64, host: &str) -> bool {
        if self.queries.len() >= QUERIES_MAX || self.interface.ipv4_addr().is_none() {
            return false;
        }
        let socket = self.sockets.get_mut::<dns::Socket<'_>>(self.dns);
        match socket.start_query(self.interface.context(), host, DnsQueryType::A) {
            Ok(handle) => {
                self.queries.push(Query { query, handle });
                true
            }
            Err(_) => false,
        }
    }

    /// The next look-up that ended, with what came of it.
    pub(crate) fn take_resolved(&mut self) -> Option<(u64, Option<IpAddr>)> {
        let socket = self.sockets.get_mut::<dns::Socket<'_>>(self.dns);
        for (place, Query { query, handle }) in self.queries.iter().enumerate() {
            let address = match socket.get_query_result(*handle) {
                Err(dns::GetQueryResultError::Pending) => continue,
                Err(dns::GetQueryResultError::Failed) => None,
                Ok(addresses) => addresses.first().map(|address| match address {
                    IpAddress::Ipv4(v4) => IpAddr::V4(*v4),
                }),
            };
            let query = *query;
            self.queries.swap_remove(place);
            return Some((query, address));
        }
        None
    }
}

/// How smoltcp reaches the card. Frames for it come one at a time, through the inlet.
struct Door<'a, C> {
    card: &'a mut C,
    inlet: &'a mut Vec<u8>,
    asking: &'a mut Asking,
}

struct Inlet<'a>(&'a [u8]);

struct Outlet<'a, C> {
    card: &'a mut C,
    now: smoltcp::time::Instant,
    asking: &'a mut Asking,
}

impl<C: Card> Device for Door<'_, C> {
    type RxToken<'a>
        = Inlet<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Outlet<'a, C>
    where
        Self: 'a;

    fn receive(&mut self, now: smoltcp::time::Instant) -> Option<(Inlet<'_>, Outlet<'_, C>)> {
        if self.inlet.is_empty() {
            return None;
        }
        Some((Inlet(self.inlet), Outlet { card: self.card, now, asking: self.asking }))
    }

    fn transmit(&mut self, now: smoltcp::time::Instant) -> Option<Outlet<'_, C>> {
        Some(Outlet { card: self.card, now, asking: self.asking })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME_BYTES_MAX;
        capabilities
    }
}

impl Asking {
    /// False: too many questions went out in this second. This one is lost then, and asked again a second later. Without that, a
    /// server that refuses everything would be asked as fast as it refuses.
    fn may_ask(&mut self, now: smoltcp::time::Instant) -> bool {
        if self.second != now.secs() {
            (self.second, self.sent) = (now.secs(), 0);
        }
        self.sent += 1;
        self.is_open |= self.sent <= QUESTIONS_MAX;
        self.sent <= QUESTIONS_MAX
    }
}

impl RxToken for Inlet<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl<C: Card> TxToken for Outlet<'_, C> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, f: F) -> R {
        let mut room = [0; FRAME_BYTES_MAX];
        let bytes = bytes.min(room.len());
        let bytes = room.split_at_mut(bytes).0;
        let result = f(bytes);
        // A full ring loses it, as any wire can.
        if !frame::is_to_dhcp(bytes) || self.asking.may_ask(self.now) {
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

/// `address:port` for an endpoint of smoltcp's.
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

/// Questions to DHCP servers in a second: four offers that are refused.
const QUESTIONS_MAX: u32 = 8;

/// How long the rest of a fragmented packet is waited for. RFC 1122 §3.3.2 recommends a minute; but there is room for four at a
/// time, and four that never become whole would keep all others out for so long. Fragments come right behind each other.
const REASSEMBLY_TIME: StackDuration = StackDuration::from_secs(5);

/// Look-ups at the same time.
const QUERIES_MAX: usize = 4;

/// The sending side of a socket through which hardly anything is sent.
const SMALL_BYTES: usize = 2048;
