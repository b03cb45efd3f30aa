//! Rendering of the short authentication string (RFC 6189 §5.1.6, §7), and the PGP word list (Juola and Zimmermann, 1996) of
//! the SAS type B256.

use crate::algorithm::SasType;
use alloc::string::String;

/// Renders the leftmost bits of the SAS hash: `pdo8`, or `topmost Istanbul`.
pub(crate) fn render(kind: SasType, value: [u8; 4]) -> String {
    match kind {
        SasType::B32 => base32(u32::from_be_bytes(value)),
        SasType::B256 => words(&value[..2]),
    }
}

fn base32(bits: u32) -> String {
    let character = |shift: u32| char::from(ALPHABET[(bits >> shift & 31) as usize]);
    [27, 22, 17, 12].into_iter().map(character).collect()
}

/// Words of two and of three syllables alternate, so that a missing or swapped word is noticed.
fn words(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (place, &byte) in bytes.iter().enumerate() {
        if place > 0 {
            text.push(' ');
        }
        text.push_str(if place % 2 == 0 { EVEN[usize::from(byte)] } else { ODD[usize::from(byte)] });
    }
    text
}

/// Alphabet without characters that are easily confused.
const ALPHABET: &[u8; 32] = b"ybndrfg8ejkmcpqxot1uwisza345h769";

/// Words of two syllables, for bytes at even offsets.
#[rustfmt::skip]
const EVEN: [&str; 256] = [
    "aardvark", "absurd", "accrue", "acme", "adrift", "adult", "afflict", "ahead", "aimless", "Algol",
    "allow", "alone", "ammo", "ancient", "apple", "artist", "assume", "Athens", "atlas", "Aztec", "baboon",
    "backfield", "backward", "banjo", "beaming", "bedlamp", "beehive", "beeswax", "befriend", "Belfast",
    "berserk", "billiard", "bison", "blackjack", "blockade", "blowtorch", "bluebird", "bombast",
    "bookshelf", "brackish", "breadline", "breakup", "brickyard", "briefcase", "Burbank", "button",
    "buzzard", "cement", "chairlift", "chatter", "checkup", "chisel", "choking", "chopper", "Christmas",
    "clamshell", "classic", "classroom", "cleanup", "clockwork", "cobra", "commence", "concert", "cowbell",
    "crackdown", "cranky", "crowfoot", "crucial", "crumpled", "crusade", "cubic", "dashboard", "deadbolt",
    "deckhand", "dogsled", "dragnet", "drainage", "dreadful", "drifter", "dropper", "drumbeat", "drunken",
    "Dupont", "dwelling", "eating", "edict", "egghead", "eightball", "endorse", "endow", "enlist", "erase",
    "escape", "exceed", "eyeglass", "eyetooth", "facial", "fallout", "flagpole", "flatfoot", "flytrap",
    "fracture", "framework", "freedom", "frighten", "gazelle", "Geiger", "glitter", "glucose", "goggles",
    "goldfish", "gremlin", "guidance", "hamlet", "highchair", "hockey", "indoors", "indulge", "inverse",
    "involve", "island", "jawbone", "keyboard", "kickoff", "kiwi", "klaxon", "locale", "lockup", "merit",
    "minnow", "miser", "Mohawk", "mural", "music", "necklace", "Neptune", "newborn", "nightbird", "Oakland",
    "obtuse", "offload", "optic", "orca", "payday", "peachy", "pheasant", "physique", "playhouse", "Pluto",
    "preclude", "prefer", "preshrunk", "printer", "prowler", "pupil", "puppy", "python", "quadrant",
    "quiver", "quota", "ragtime", "ratchet", "rebirth", "reform", "regain", "reindeer", "rematch", "repay",
    "retouch", "revenge", "reward", "rhythm", "ribcage", "ringbolt", "robust", "rocker", "ruffled",
    "sailboat", "sawdust", "scallion", "scenic", "scorecard", "Scotland", "seabird", "select", "sentence",
    "shadow", "shamrock", "showgirl", "skullcap", "skydive", "slingshot", "slowdown", "snapline",
    "snapshot", "snowcap", "snowslide", "solo", "southward", "soybean", "spaniel", "spearhead", "spellbind",
    "spheroid", "spigot", "spindle", "spyglass", "stagehand", "stagnate", "stairway", "standard", "stapler",
    "steamship", "sterling", "stockman", "stopwatch", "stormy", "sugar", "surmount", "suspense",
    "sweatband", "swelter", "tactics", "talon", "tapeworm", "tempest", "tiger", "tissue", "tonic",
    "topmost", "tracker", "transit", "trauma", "treadmill", "Trojan", "trouble", "tumor", "tunnel",
    "tycoon", "uncut", "unearth", "unwind", "uproot", "upset", "upshot", "vapor", "village", "virus",
    "Vulcan", "waffle", "wallet", "watchword", "wayside", "willow", "woodlark", "Zulu",
];

/// Words of three syllables, for bytes at odd offsets.
#[rustfmt::skip]
const ODD: [&str; 256] = [
    "adroitness", "adviser", "aftermath", "aggregate", "alkali", "almighty", "amulet", "amusement",
    "antenna", "applicant", "Apollo", "armistice", "article", "asteroid", "Atlantic", "atmosphere",
    "autopsy", "Babylon", "backwater", "barbecue", "belowground", "bifocals", "bodyguard", "bookseller",
    "borderline", "bottomless", "Bradbury", "bravado", "Brazilian", "breakaway", "Burlington",
    "businessman", "butterfat", "Camelot", "candidate", "cannonball", "Capricorn", "caravan", "caretaker",
    "celebrate", "cellulose", "certify", "chambermaid", "Cherokee", "Chicago", "clergyman", "coherence",
    "combustion", "commando", "company", "component", "concurrent", "confidence", "conformist",
    "congregate", "consensus", "consulting", "corporate", "corrosion", "councilman", "crossover",
    "crucifix", "cumbersome", "customer", "Dakota", "decadence", "December", "decimal", "designing",
    "detector", "detergent", "determine", "dictator", "dinosaur", "direction", "disable", "disbelief",
    "disruptive", "distortion", "document", "embezzle", "enchanting", "enrollment", "enterprise",
    "equation", "equipment", "escapade", "Eskimo", "everyday", "examine", "existence", "exodus",
    "fascinate", "filament", "finicky", "forever", "fortitude", "frequency", "gadgetry", "Galveston",
    "getaway", "glossary", "gossamer", "graduate", "gravity", "guitarist", "hamburger", "Hamilton",
    "handiwork", "hazardous", "headwaters", "hemisphere", "hesitate", "hideaway", "holiness", "hurricane",
    "hydraulic", "impartial", "impetus", "inception", "indigo", "inertia", "infancy", "inferno",
    "informant", "insincere", "insurgent", "integrate", "intention", "inventive", "Istanbul", "Jamaica",
    "Jupiter", "leprosy", "letterhead", "liberty", "maritime", "matchmaker", "maverick", "Medusa",
    "megaton", "microscope", "microwave", "midsummer", "millionaire", "miracle", "misnomer", "molasses",
    "molecule", "Montana", "monument", "mosquito", "narrative", "nebula", "newsletter", "Norwegian",
    "October", "Ohio", "onlooker", "opulent", "Orlando", "outfielder", "Pacific", "pandemic", "Pandora",
    "paperweight", "paragon", "paragraph", "paramount", "passenger", "pedigree", "Pegasus", "penetrate",
    "perceptive", "performance", "pharmacy", "phonetic", "photograph", "pioneer", "pocketful", "politeness",
    "positive", "potato", "processor", "provincial", "proximate", "puberty", "publisher", "pyramid",
    "quantity", "racketeer", "rebellion", "recipe", "recover", "repellent", "replica", "reproduce",
    "resistor", "responsive", "retraction", "retrieval", "retrospect", "revenue", "revival", "revolver",
    "sandalwood", "sardonic", "Saturday", "savagery", "scavenger", "sensation", "sociable", "souvenir",
    "specialist", "speculate", "stethoscope", "stupendous", "supportive", "surrender", "suspicious",
    "sympathy", "tambourine", "telephone", "therapist", "tobacco", "tolerance", "tomorrow", "torpedo",
    "tradition", "travesty", "trombonist", "truncated", "typewriter", "ultimate", "undaunted", "underfoot",
    "unicorn", "unify", "universe", "unravel", "upcoming", "vacancy", "vagabond", "vertigo", "Virginia",
    "visitor", "vocalist", "voyager", "warranty", "Waterloo", "whimsical", "Wichita", "Wilmington",
    "Wyoming", "yesteryear", "Yucatan",
];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn twenty_bits_are_four_characters() {
        assert_eq!(render(SasType::B32, [0, 0, 0, 0]), "yyyy");
        assert_eq!(render(SasType::B32, [0xff, 0xff, 0xff, 0xff]), "9999");
        // 1, 2, 3, 4 in groups of five bits, and unused bits.
        let bits: u32 = 1 << 27 | 2 << 22 | 3 << 17 | 4 << 12 | 0xfff;
        assert_eq!(render(SasType::B32, bits.to_be_bytes()), "bndr");
        // Only the leftmost 20 bits count.
        assert_eq!(render(SasType::B32, [0x12, 0x34, 0x50, 0]), render(SasType::B32, [0x12, 0x34, 0x5f, 9]));
    }

    #[test]
    fn sixteen_bits_are_two_words() {
        assert_eq!(render(SasType::B256, [0x00, 0x00, 9, 9]), "aardvark adroitness");
        assert_eq!(render(SasType::B256, [0xe5, 0x82, 0, 0]), "topmost Istanbul");
        assert_eq!(render(SasType::B256, [0xff, 0xff, 0, 0]), "Zulu Yucatan");
    }

    #[test]
    fn the_well_known_fingerprint_in_words() {
        let bytes = [
            0xe5, 0x82, 0x94, 0xf2, 0xe9, 0xa2, 0x27, 0x48, 0x6e, 0x8b, 0x06, 0x1b, 0x31, 0xcc, 0x52, 0x8f,
            0xd7, 0xfa, 0x3f, 0x19,
        ];
        assert_eq!(
            words(&bytes),
            "topmost Istanbul Pluto vagabond treadmill Pacific brackish dictator goldfish Medusa \
             afflict bravado chatter revolver Dupont midsummer stopwatch whimsical cowbell bottomless"
        );
    }

    #[test]
    fn no_word_occurs_twice_and_the_lists_are_sorted_except_for_one_pair() {
        let mut out_of_order = Vec::new();
        for list in [&EVEN, &ODD] {
            let lower: Vec<String> = list.iter().map(|word| word.to_lowercase()).collect();
            assert!((0..256).all(|place| !lower[place + 1..].contains(&lower[place])));
            out_of_order
                .extend(lower.windows(2).filter(|pair| pair[0] > pair[1]).map(|pair| pair[1].clone()));
        }
        assert_eq!(out_of_order, ["apollo"], "as it was published");
        assert!(EVEN.iter().all(|word| !ODD.contains(word)));
    }
}
