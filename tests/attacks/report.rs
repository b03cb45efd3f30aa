//! docs/attacks.md.

use crate::row::{Row, Seen};
use ringway_sansio::Defence;
use std::fmt::Write;

/// A row and its two results.
pub(crate) struct Tried {
    pub(crate) row: &'static Row,
    /// With the defence.
    on: Seen,
    /// Without it.
    off: Seen,
}

impl Tried {
    /// The attack fails with the defence, and succeeds without it.
    pub(crate) const fn is_proven(&self) -> bool {
        !self.on.succeeded && self.off.succeeded
    }
}

/// Tries attacks one after another: a defence is off for the whole process.
pub(crate) fn try_all(rows: &[&'static Row]) -> Vec<Tried> {
    let with = |row: &Row, off| {
        Defence::switch_off(off);
        let seen = (row.attack)();
        Defence::switch_off(None);
        seen
    };
    rows.iter().map(|row| Tried { row, on: with(row, None), off: with(row, Some(row.defence)) }).collect()
}

/// The page.
pub(crate) fn page(tried: &[Tried]) -> String {
    let proven = tried.iter().filter(|tried| tried.is_proven()).count();
    let mut page = format!("{HEAD}\n{proven} attacks.\n\n{TABLE}\n");
    for Tried { row, on, off } in tried.iter().filter(|tried| tried.is_proven()) {
        let cost = |seen: &Seen| match (seen.received_bytes, seen.sent_bytes) {
            (0, 0) => "–".to_owned(),
            (received, sent) => format!("{received} / {sent}"),
        };
        let cells = [row.door.name(), row.name, row.thesis.name(), row.defence.name(), &cost(on), &cost(off)];
        writeln!(page, "| {} |", cells.join(" | ")).expect("a string takes all");
    }
    page.push_str(NETWORK);
    page
}

const HEAD: &str = "# Attacks

Made by `cargo xtask attacks`. Each row is an attack that fails with a defence, and succeeds in a build in which that defence alone is
switched off ([0077](decisions/0077-proof-by-attack.md)). Both were tried when this page was made.

The bytes are those that the server received and sent in the attack, of all parties. The rows of tables 11 and 12 of the thesis on
signalling security have the names of their summary.
";

const TABLE: &str = "| door | attack | row of the thesis | defence | bytes in / out, fails | bytes in / out, succeeds |\n|---|---|---|---|---|---|";

/// Statements about the layers below SIP, which come from the code and not from attacks.
const NETWORK: &str = "
## Below SIP
The lower layers of tables 11 and 12, for the image without an operating system ([0006](decisions/0006-no-operating-system.md)); on Linux they are the kernel's. This table is not made
by attacks: its statements are those of `drivers/ethernet` and its tests.

| row of the thesis | layer | what the image does | what only the network can do |
|---|---|---|---|
| ARP cache poisoning | ARP | nothing keeps a forged packet from replacing an entry; at most 1,024 entries, and none that answered in the last minute is pushed out. TLS and SRTP keep the one in the middle from reading and changing | dynamic ARP inspection; a segment of its own |
| MAC spoofing | Ethernet | frames with an invalid source address are dropped and counted (`frames_damaged`); a valid one of somebody else is believed | port security, 802.1X |
| IP spoofing | IP | as on Linux: a nonce, a mark and the number of bytes are bound to the address (rows above) | filters at the edge (BCP 38) |
| DHCP starvation | DHCP | needs one address; with `ip=` none. At most 8 questions a second | DHCP snooping, a limit for each port |
| DHCP server insertion | DHCP | answers are taken only while a question waits for one; the first one wins. `ip=` takes none | DHCP snooping |
| ICMP floods | ICMP | echo to a broadcast address is not answered; an error ends a request only if it quotes the request's branch with its keyed check ([0021](decisions/0021-icmp-errors.md)). Echo to its own address is answered | rate limits before the link is full |
| TFTP server insertion | TFTP | TFTP has no proof of the server: users and settings are believed. `tftp=` names the server instead of DHCP, words of the boot loader's command line have precedence, and the private key never comes by TFTP | a segment of its own |
| buffer overflow | all | lengths are checked before they are used (rows above) | – |
";
