//! A machine, the host at the other end of its cable, and a virtual clock.

use ringway_metal::{Hardware, Machine, Memory, Program, tables_with};
use ringway_sansio::{Instant, Seed};
use ringway_sim::SimLocks;
use ringway_test_support::ethernet::cable::{Frames, Host, OWN, Plug, cable};
use ringway_test_support::ethernet::dhcp_host::DhcpHost;
use smoltcp::iface::SocketHandle;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

pub(crate) struct World {
    pub(crate) machine: Machine<Plug>,
    pub(crate) host: Host,
    pub(crate) dhcp: Option<DhcpHost>,
    /// Files of the host's TFTP server.
    pub(crate) files: HashMap<String, Vec<u8>>,
    pub(crate) memory: Memory,
    pub(crate) now: Instant,
    /// Output of the serial line so far.
    pub(crate) serial: Vec<u8>,
    pub(crate) phone: SocketHandle,
    to_machine: Frames,
    from_machine: Frames,
    to_host: Frames,
    tftp: SocketHandle,
    transfer: SocketHandle,
    /// Rest of the file in transfer, and the number of its last block.
    sending: Option<(Vec<u8>, u16)>,
}

impl World {
    /// Creates a machine with this command line.
    pub(crate) fn new(command_line: &str) -> Self {
        Self::with_seed(command_line, Some(Seed::from_number(1)))
    }

    pub(crate) fn with_seed(command_line: &str, seed: Option<Seed>) -> Self {
        Self::with_boot_file(command_line, seed, None)
    }

    /// Creates a machine with a file on its boot medium.
    pub(crate) fn with_boot_file(
        command_line: &str,
        seed: Option<Seed>,
        boot_file: Option<&'static [u8]>,
    ) -> Self {
        let now = Instant::from_secs(1_800_000_000);
        let (plug, to_machine, from_machine) = cable();
        let to_host = Frames::default();
        let mut host = Host::at(&to_host, &to_machine, now);
        let (tftp, transfer, phone) = (host.udp(69), host.udp(3000), host.udp(5060));
        let hardware = Hardware {
            card_name: "a cable",
            version: "0.0.0",
            seed,
            tls_seed: seed.map(|seed| seed.part(99)),
            boot_file,
            words: &["fault"],
            tables: tables_with::<SimLocks>(),
            step_clock: None,
            sound: None,
        };
        Self {
            machine: Machine::start(plug, command_line, hardware, now),
            host,
            dhcp: Some(DhcpHost::new(OWN)),
            files: HashMap::new(),
            memory: Memory { used: 8 << 20, peak: 9 << 20, limit: 64 << 20, failures: 0 },
            now,
            serial: Vec::new(),
            phone,
            to_machine,
            from_machine,
            to_host,
            tftp,
            transfer,
            sending: None,
        }
    }

    pub(crate) fn with_file(mut self, name: &str, text: &str) -> Self {
        self.files.insert(name.to_owned(), text.as_bytes().to_vec());
        self
    }

    /// Runs both sides alternately in steps of 1 ms.
    pub(crate) fn pass(&mut self, milliseconds: u32) {
        for _ in 0..milliseconds {
            while self.machine.receive(self.now) != ringway_ethernet::Worked::Nothing {}
            self.machine.run(self.now, self.memory);
            let mut room = [0; 64];
            loop {
                let count = self.machine.serial_output(&mut room);
                if count == 0 {
                    break;
                }
                self.serial.extend(&room[..count]);
            }
            for frame in self.from_machine.borrow_mut().drain(..) {
                let answer = self.dhcp.as_mut().and_then(|dhcp| dhcp.answer(&frame));
                self.to_machine.borrow_mut().extend(answer);
                self.to_host.borrow_mut().push_back(frame);
            }
            self.host.poll(self.now);
            self.serve_files();
            self.now = self.now + Duration::from_millis(1);
        }
    }

    pub(crate) fn pass_seconds(&mut self, seconds: u32) {
        for _ in 0..seconds * 20 {
            self.now = self.now + Duration::from_millis(49);
            self.pass(1);
        }
    }

    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.serial).into_owned()
    }

    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.said().contains(text)
    }

    /// Sends a message from the host's port 5060 and returns the response.
    pub(crate) fn ask(&mut self, message: &str) -> String {
        self.host.send(self.phone, message.as_bytes());
        self.pass(20);
        let answer = self.host.received(self.phone);
        answer.map_or_else(String::new, |(bytes, _)| String::from_utf8(bytes).unwrap())
    }

    /// TFTP server without options (RFC 1350).
    fn serve_files(&mut self) {
        if let Some((asked, from)) = self.host.received(self.tftp) {
            let name = asked[2..].split(|byte| *byte == 0).next().unwrap();
            match self.files.get(std::str::from_utf8(name).unwrap()) {
                Some(file) => {
                    self.sending = Some((file.clone(), 0));
                    self.send_block(from);
                }
                None => self.host.send_to(self.transfer, b"\0\x05\0\x01File not found\0", from),
            }
        }
        if let Some((acknowledged, from)) = self.host.received(self.transfer)
            && acknowledged.starts_with(&[0, 4])
        {
            self.send_block(from);
        }
    }

    fn send_block(&mut self, to: SocketAddr) {
        let Some((rest, number)) = &mut self.sending else { return };
        *number += 1;
        let block: Vec<u8> = rest.drain(..rest.len().min(512)).collect();
        let mut data = vec![0, 3];
        data.extend(number.to_be_bytes());
        data.extend(&block);
        if block.len() < 512 {
            self.sending = None;
        }
        self.host.send_to(self.transfer, &data, to);
    }
}

pub(crate) const USERS: &str = "username,password\nalice,wonderland\nbob,builder\n";

/// REGISTER without credentials.
pub(crate) fn register(user: &str, cseq: u32, more: &str) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.2:5060;branch=z9hG4bK{user}{cseq}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:{user}@example.org>;tag=1\r\nTo: <sip:{user}@example.org>\r\n\
         Call-ID: {user}@192.0.2.2\r\nCSeq: {cseq} REGISTER\r\nContact: <sip:{user}@192.0.2.2:5060>\r\n\
         Expires: 3600\r\n{more}Content-Length: 0\r\n\r\n"
    )
}
