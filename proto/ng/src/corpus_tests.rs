//! Hostile datagrams: the corpus, changed answers, and bytes from a generator.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../tests/harness/datagram.rs"]
mod harness;

use alloc::vec::Vec;
use ringway_sansio::{Rng, Seed};

#[test]
fn the_corpus_does_no_harm() {
    corpus::replay("ng", Vec::new(), harness::run);
}

#[test]
fn changed_answers_do_no_harm() {
    let answer = b"0000000000000abc d3:sdp5:v=0\r\n4:tagsd1:ai-7e1:bl1:x1:yee6:result2:oke";
    let mut rng = Rng::new(&Seed::from_number(5));
    for _ in 0..20_000 {
        let mut bytes = answer.to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => bytes[at] = rng.next_u64() as u8,
                1 => bytes[at] = b"dlie:0123456789"[rng.below(15) as usize],
                _ => bytes.truncate(at + 1),
            }
        }
        harness::run(&bytes);
        harness::run(bytes.get(17..).unwrap_or_default());
    }
}
