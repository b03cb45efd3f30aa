//! Datagrams that the kernel drops before they are queued (`SO_ATTACH_FILTER`): [`Shedding`] as a program of the classic Berkeley Packet Filter.

use ringway_sansio::Shedding;
use socket2::{SockFilter, SockRef};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// Makes the kernel drop what `shedding` does not keep, from now on; what is in the socket already stays there.
pub fn attach_filter(socket: BorrowedFd<'_>, shedding: &Shedding) -> io::Result<()> {
    let program: Vec<_> = program(shedding)
        .iter()
        .map(|of| SockFilter::new(of.code, of.then, of.otherwise, of.operand))
        .collect();
    SockRef::from(&socket).attach_filter(&program)
}

/// Ends the effect of [`attach_filter`].
pub fn detach_filter(socket: BorrowedFd<'_>) -> io::Result<()> {
    SockRef::from(&socket).detach_filter()
}

/// The instructions for [`Shedding::keeps`]. They see a datagram from its UDP header on. A load beyond its end would drop it, so all are within
/// [`Shedding::BYTES_MIN`].
fn program(of: &Shedding) -> Vec<Instruction> {
    let mut program = Vec::new();
    put(&mut program, LOAD_LENGTH, 0);
    program.push(Instruction::jump(JUMP_IF_NOT_LESS, 1, 0, UDP_HEADER + Shedding::BYTES_MIN as u32));
    put(&mut program, RETURN, KEEP);
    when(&mut program, &bytes_at(ABSOLUTE, UDP_HEADER, Shedding::START), &[instruction(JUMP, 1)]);
    put(&mut program, RETURN, KEEP);
    let keep = [instruction(RETURN, KEEP)];
    for user in of.spared_users.iter().take(Shedding::ENTRIES_MAX) {
        let user = user.get(..Shedding::USER_BYTES_MAX).unwrap_or(user);
        when(&mut program, &bytes_at(ABSOLUTE, USER, user), &keep);
    }
    for (network, bits) in of.spared_networks.iter().take(Shedding::ENTRIES_MAX) {
        when(&mut program, &source_in(*network, *bits), &keep);
    }
    for source in of.spared_sources.iter().take(Shedding::ENTRIES_MAX) {
        let mut wanted = source_in(source.ip().to_canonical(), 128);
        wanted.push(Wanted { load: ABSOLUTE | HALF, at: 0, mask: u32::MAX, value: source.port().into() });
        when(&mut program, &wanted, &keep);
    }
    find_host(&mut program, of);
    put(&mut program, SET, of.kept.into());
    put(&mut program, STORE, KEPT);
    for source in of.many_from.iter().take(Shedding::MANY_MAX) {
        let bits = if source.is_ipv4() { 32 } else { 64 };
        let set = [instruction(SET, of.kept_of_many.into()), instruction(STORE, KEPT)];
        when(&mut program, &source_in(*source, bits), &set);
    }
    hash(&mut program, of.salt);
    put(&mut program, LOAD_INDEX, KEPT);
    program.push(Instruction::jump(JUMP_IF_NOT_LESS_THAN_INDEX, 0, 1, 0));
    put(&mut program, RETURN, DROP);
    put(&mut program, RETURN, KEEP);
    program
}

/// Instruction of the filter; a jump has the instructions that it skips if its condition holds, and otherwise.
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    then: u8,
    otherwise: u8,
    operand: u32,
}

impl Instruction {
    const fn jump(code: u16, then: u8, otherwise: u8, operand: u32) -> Self {
        Self { code, then, otherwise, operand }
    }
}

/// Bits of a datagram that a branch wants.
struct Wanted {
    /// Instruction that loads them, and its operand.
    load: u16,
    at: u32,
    mask: u32,
    value: u32,
}

/// Executes `then` if all that is wanted is there, and goes on behind it.
fn when(program: &mut Vec<Instruction>, wanted: &[Wanted], then: &[Instruction]) {
    let mut left = wanted.len() * 4 + then.len();
    for Wanted { load, at, mask, value } in wanted {
        left -= 4;
        put(program, *load, *at);
        put(program, AND, *mask);
        program.push(Instruction::jump(JUMP_IF_EQUAL, 1, 0, *value));
        put(program, JUMP, left as u32);
    }
    program.extend_from_slice(then);
}

/// These bytes at an offset, with an addressing mode.
fn bytes_at(mode: u16, at: u32, bytes: &[u8]) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (size, len) = match rest.len() {
            1 => (BYTE, 1),
            2..=3 => (HALF, 2),
            _ => (WORD, 4),
        };
        let (part, after) = rest.split_at(len);
        let value = word_of(part);
        let at = at + (bytes.len() - rest.len()) as u32;
        wanted.push(Wanted { load: mode | size, at, mask: u32::MAX, value });
        rest = after;
    }
    wanted
}

/// Up to four bytes as the filter loads them.
fn word_of(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// A source address in a network.
fn source_in(network: IpAddr, bits: u8) -> Vec<Wanted> {
    let (version, at, octets) = match network {
        IpAddr::V4(ip) => (VERSION_4, SOURCE_V4, ip.octets().to_vec()),
        IpAddr::V6(ip) => (VERSION_6, SOURCE_V6, ip.octets().to_vec()),
    };
    let mut wanted = vec![version];
    for ((word, first), at) in octets.chunks_exact(4).zip((0..).step_by(32)).zip((at..).step_by(4)) {
        let bits = u32::from(bits).saturating_sub(first).min(32);
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        let value = word_of(word) & mask;
        wanted.push(Wanted { load: ABSOLUTE | WORD, at, mask, value });
    }
    wanted
}

/// Keeps the datagram unless one of the hosts is behind the `@`.
fn find_host(program: &mut Vec<Instruction>, of: &Shedding) {
    let mut left = Shedding::USER_BYTES_MAX as u8 * 3 + 1;
    for at in (USER..).take(Shedding::USER_BYTES_MAX) {
        left -= 3;
        put(program, SET_INDEX, at + 1);
        put(program, ABSOLUTE | BYTE, at);
        program.push(Instruction::jump(JUMP_IF_EQUAL, left, 0, u32::from(b'@')));
    }
    put(program, RETURN, KEEP);
    let hosts = of.hosts.iter().take(Shedding::ENTRIES_MAX);
    let hosts: Vec<_> = hosts
        .map(|host| bytes_at(INDEXED, 0, host.get(..Shedding::HOST_BYTES_MAX).unwrap_or(host)))
        .collect();
    let mut left = hosts.iter().map(|wanted| wanted.len() * 4 + 1).sum::<usize>() + 1;
    for wanted in &hosts {
        left -= wanted.len() * 4 + 1;
        when(program, wanted, &[instruction(JUMP, left as u32)]);
    }
    put(program, RETURN, KEEP);
}

/// The hash of [`Shedding`] of a datagram that has its upper 16 bits in the accumulator afterwards.
fn hash(program: &mut Vec<Instruction>, salt: u32) {
    put(program, SET, salt);
    put(program, STORE, HASH);
    let words = |at: u32, count: u32| (0..count).map(move |word| instruction(ABSOLUTE | WORD, at + word * 4));
    when(program, &[VERSION_4], &mixed(&words(SOURCE_V4, 1).collect::<Vec<_>>()));
    when(program, &[VERSION_6], &mixed(&words(SOURCE_V6, 4).collect::<Vec<_>>()));
    for load in std::iter::once(instruction(ABSOLUTE | HALF, 0)).chain(words(USER, Shedding::WORDS as u32)) {
        program.extend(mixed(&[load]));
    }
    put(program, LOAD_STORED, HASH);
    put(program, SHIFT_RIGHT, 16);
}

/// Mixes words into the hash: all of them together, then the factor.
fn mixed(loads: &[Instruction]) -> Vec<Instruction> {
    let mut program = Vec::new();
    for load in loads {
        program.push(*load);
        put(&mut program, TO_INDEX, 0);
        put(&mut program, LOAD_STORED, HASH);
        put(&mut program, XOR_INDEX, 0);
        put(&mut program, STORE, HASH);
    }
    put(&mut program, LOAD_STORED, HASH);
    put(&mut program, MULTIPLY, Shedding::FACTOR);
    put(&mut program, STORE, HASH);
    program
}

fn put(program: &mut Vec<Instruction>, code: u16, operand: u32) {
    program.push(instruction(code, operand));
}

const fn instruction(code: u16, operand: u32) -> Instruction {
    Instruction::jump(code, 0, 0, operand)
}

const UDP_HEADER: u32 = 8;
/// Offset of the user part.
const USER: u32 = UDP_HEADER + Shedding::START.len() as u32;

/// `SKF_NET_OFF`: offset of the IP header.
const IP_HEADER: u32 = (-0x10_0000_i32).cast_unsigned();
const SOURCE_V4: u32 = IP_HEADER + 12;
const SOURCE_V6: u32 = IP_HEADER + 8;
const VERSION_4: Wanted = Wanted { load: ABSOLUTE | BYTE, at: IP_HEADER, mask: 0xF0, value: 0x40 };
const VERSION_6: Wanted = Wanted { load: ABSOLUTE | BYTE, at: IP_HEADER, mask: 0xF0, value: 0x60 };

/// Words of the filter's memory: the hash, and the part that is kept.
const HASH: u32 = 0;
const KEPT: u32 = 1;

const KEEP: u32 = u32::MAX;
const DROP: u32 = 0;

// Codes of instructions (linux/bpf_common.h): class, then size or operation, then mode or source.
const ABSOLUTE: u16 = 0x20;
const INDEXED: u16 = 0x40;
const WORD: u16 = 0x00;
const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;
const SET: u16 = 0x00;
const SET_INDEX: u16 = 0x01;
const LOAD_STORED: u16 = 0x60;
const LOAD_INDEX: u16 = 0x61;
const LOAD_LENGTH: u16 = 0x80;
const STORE: u16 = 0x02;
const TO_INDEX: u16 = 0x07;
const MULTIPLY: u16 = 0x24;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const XOR_INDEX: u16 = 0xAC;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_NOT_LESS: u16 = 0x35;
const JUMP_IF_NOT_LESS_THAN_INDEX: u16 = 0x3D;
const RETURN: u16 = 0x06;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{Instant, source_of};
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::Duration;

    /// The kernel keeps what [`Shedding::keeps`] keeps.
    fn assert_same(to: &str, from: &str, change: impl Fn(&mut Shedding, SocketAddr)) {
        let receiver = UdpSocket::bind(to).unwrap();
        let sender = UdpSocket::bind(from).unwrap();
        let source = sender.local_addr().unwrap();
        let mut shedding = Shedding {
            kept: 20_000,
            salt: 12_345,
            until: Instant::FAR,
            hosts: vec![b"one.example".to_vec(), b"example.org".to_vec()],
            spared_users: vec![b"112".to_vec(), b"911".to_vec()],
            kept_of_many: 5_000,
            ..Shedding::default()
        };
        change(&mut shedding, source);
        attach_filter(receiver.as_fd(), &shedding).unwrap();
        let mut expected = Vec::new();
        let port = receiver.local_addr().unwrap().port();
        let target = SocketAddr::new(source.ip(), port);
        for number in 0..150 {
            let users = [format!("u{number:07}"), format!("{number}"), "112".to_owned(), "x".repeat(number)];
            for (user, host) in users
                .iter()
                .flat_map(|user| ["example.org", "one.example", "b.example"].map(|host| (user, host)))
            {
                let pad = if number % 10 == 9 { 1 } else { 150 };
                let bytes = format!("INVITE sip:{user}@{host} SIP/2.0\r\nVia: {:pad$}", number).into_bytes();
                if shedding.keeps(source, &bytes) {
                    expected.push(bytes.clone());
                }
                sender.send_to(&bytes, target).unwrap();
                let mut room = [0; 2048];
                receiver.set_nonblocking(true).unwrap();
                while let Ok((count, _)) = receiver.recv_from(&mut room) {
                    assert_eq!(expected.first().map(Vec::as_slice), room.get(..count));
                    expected.remove(0);
                }
            }
        }
        detach_filter(receiver.as_fd()).unwrap();
        receiver.set_nonblocking(false).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        sender.send_to(b"last", target).unwrap();
        let mut room = [0; 2048];
        loop {
            let (count, _) = receiver.recv_from(&mut room).unwrap();
            if room.get(..count) == Some(b"last") {
                break;
            }
            assert_eq!(expected.first().map(Vec::as_slice), room.get(..count));
            expected.remove(0);
        }
        assert!(expected.is_empty());
    }

    #[test]
    fn the_kernel_drops_what_is_not_kept() {
        for (to, from) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::]:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")]
        {
            assert_same(to, from, |_, _| ());
            assert_same(to, from, |of, _| of.kept = 0);
            assert_same(to, from, |of, source| of.many_from.push(source_of(source.ip())));
            assert_same(to, from, |of, source| {
                of.kept = 0;
                of.spared_sources.push(source);
            });
            for network in ["127.0.0.0", "128.0.0.0", "::", "8000::"] {
                assert_same(to, from, |of, _| {
                    of.kept = 0;
                    of.spared_networks.push((network.parse().unwrap(), 7));
                });
            }
        }
    }

    #[test]
    fn the_longest_program_is_one_that_the_kernel_takes() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let network = ("2001:db8::1".parse().unwrap(), 128);
        let shedding = Shedding {
            kept: 1,
            salt: 1,
            until: Instant::FAR,
            hosts: vec![vec![b'h'; Shedding::HOST_BYTES_MAX]; Shedding::ENTRIES_MAX],
            spared_users: vec![vec![b'1'; Shedding::USER_BYTES_MAX]; Shedding::ENTRIES_MAX],
            spared_networks: vec![network; Shedding::ENTRIES_MAX],
            spared_sources: vec!["[2001:db8::1]:5060".parse().unwrap(); Shedding::ENTRIES_MAX],
            kept_of_many: 1,
            many_from: vec![network.0; Shedding::MANY_MAX],
        };
        attach_filter(receiver.as_fd(), &shedding).unwrap();
    }
}
