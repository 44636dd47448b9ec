//! The words that are shown: short, common, without a second spelling or an unkind meaning. Sorted; the first four
//! letters tell each from the others, and no two differ in a single letter.

/// 512 words: nine bits each.
pub(super) const LIST: [&str; 512] = [
    "acorn", "actor", "adapt", "admit", "adobe", "agent", "agile", "album", "alder", "algae", "alley", "almond",
    "amber", "ample", "anchor", "angle", "annex", "april", "apron", "arcade", "arena", "armor", "aroma", "arrow",
    "artist", "ashen", "atlas", "atom", "attic", "audio", "august", "autumn", "awake", "award", "azure", "bacon",
    "badge", "bagel", "baker", "bamboo", "banana", "banjo", "basil", "beach", "berry", "birch", "bison", "blue",
    "board", "bobcat", "bonus", "border", "bowl", "brave", "bread", "broom", "bubble", "bucket", "budget", "bugle",
    "bulb", "bumper", "bundle", "bunny", "burlap", "bush", "butter", "cabin", "cadet", "camel", "canal", "candle",
    "canoe", "canyon", "carbon", "cargo", "carpet", "cashew", "castle", "cedar", "cello", "cement", "chalk", "cheese",
    "cider", "cinema", "citrus", "clay", "client", "clock", "clover", "coast", "cobalt", "cobra", "cocoa", "coffee",
    "coin", "collar", "comet", "condor", "coral", "corner", "cotton", "cougar", "coyote", "cradle", "crane", "creek",
    "crocus", "cube", "daisy", "dancer", "daring", "dawn", "debate", "decade", "deer", "delta", "depot", "dialog",
    "digit", "dinner", "disk", "dizzy", "dock", "domino", "door", "dove", "dragon", "drawer", "dream", "drum", "dune",
    "dust", "eagle", "early", "earth", "easel", "east", "echo", "edge", "editor", "eight", "elbow", "empire", "engine",
    "equal", "escape", "essay", "estate", "exit", "fabric", "falcon", "family", "farm", "fathom", "fellow", "fennel",
    "fern", "fiddle", "field", "filter", "fire", "fish", "flame", "flint", "flute", "foam", "focus", "forest",
    "fossil", "frost", "fruit", "fudge", "gadget", "galaxy", "gallop", "garden", "garlic", "gecko", "gentle", "giant",
    "glass", "globe", "goat", "goose", "gorge", "grain", "gravel", "green", "grid", "grove", "guitar", "gulf", "habit",
    "hair", "half", "hammer", "harbor", "hatch", "hazel", "heart", "helmet", "herald", "heron", "hidden", "hill",
    "hinge", "hobby", "hollow", "honey", "hood", "hotel", "hunter", "husky", "hybrid", "icicle", "icon", "igloo",
    "image", "impact", "inch", "index", "indigo", "inlet", "invent", "iris", "ivory", "jacket", "jaguar", "jeans",
    "jelly", "jewel", "jigsaw", "jockey", "juice", "jungle", "junior", "jury", "kayak", "kimono", "kite", "kiwi",
    "koala", "label", "lace", "ladder", "lamp", "laptop", "larch", "laser", "laurel", "lava", "leaf", "ledger",
    "lemon", "lens", "level", "lilac", "lime", "linen", "lion", "lizard", "llama", "local", "lotus", "lucky", "lumber",
    "lunar", "lynx", "maize", "mango", "mantle", "maple", "marble", "mask", "meadow", "melon", "memory", "merit",
    "meteor", "midday", "milk", "mimosa", "mint", "mirror", "mitten", "mobile", "modem", "moment", "motor", "muscle",
    "napkin", "native", "navy", "nectar", "needle", "nephew", "nest", "noble", "noodle", "north", "novel", "nugget",
    "nurse", "nylon", "oasis", "object", "ocean", "olive", "omelet", "onion", "opal", "opera", "optic", "orange",
    "orbit", "orchid", "organ", "otter", "oven", "oxygen", "oyster", "page", "paint", "panda", "paper", "parade",
    "pasta", "patio", "pecan", "pedal", "pencil", "pepper", "perch", "phone", "photo", "piano", "picnic", "pillow",
    "pilot", "pine", "pixel", "pizza", "planet", "plum", "poem", "pond", "poplar", "powder", "prism", "puddle",
    "pulley", "pupil", "purple", "quail", "quarry", "queen", "quick", "quilt", "rabbit", "radar", "rafter", "rail",
    "ranch", "rapid", "raven", "razor", "recipe", "reef", "regal", "relay", "remedy", "rescue", "ribbon", "rice",
    "ridge", "ring", "river", "road", "robin", "roof", "rose", "round", "ruby", "rudder", "rumba", "runway", "rustic",
    "saddle", "safari", "saga", "sailor", "salad", "salmon", "sandal", "satin", "sauce", "scuba", "season", "second",
    "select", "senior", "seven", "shadow", "shell", "ship", "shrimp", "siesta", "signal", "single", "siren", "sister",
    "slate", "sleeve", "slope", "smoke", "snail", "snow", "soap", "sofa", "soil", "solar", "south", "spark", "spice",
    "spoon", "spring", "squash", "star", "stone", "stream", "subway", "sugar", "sunset", "surf", "swan", "swift",
    "symbol", "syrup", "system", "table", "tactic", "talent", "tapir", "teapot", "temple", "tennis", "thorn", "ticket",
    "tiger", "timber", "tinsel", "tomato", "tonic", "topaz", "torch", "total", "tower", "tribe", "trophy", "truck",
    "tulip", "tundra", "tunnel", "tutor", "tuxedo", "twelve", "twig", "typist", "uncle", "unit", "upper", "urchin",
    "useful", "vacuum", "vault", "velvet", "verse", "vessel", "video", "viola", "vision", "vivid", "waffle", "wagon",
    "walnut", "walrus", "wander", "water", "wave", "whale", "wheat", "wicker", "widget", "window", "winter", "wisdom",
    "wolf", "yacht", "yard", "year", "yogurt", "young", "zebra", "zenith", "zero", "zinc", "zipper", "zodiac", "zone",
    "zoom",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::pairing::words::distance;

    #[test]
    fn list_is_sorted_and_told_apart_by_four_letters() {
        assert!(LIST.is_sorted_by(|a, b| a < b));
        let starts: BTreeSet<_> = LIST.iter().map(|word| &word[..4]).collect();
        assert_eq!(starts.len(), LIST.len());
        for word in LIST {
            assert!((4..=7).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word}");
        }
    }

    #[test]
    fn one_wrong_letter_never_makes_another_word() {
        for (at, word) in LIST.iter().enumerate() {
            for other in &LIST[at + 1..] {
                assert!(distance(word, other) > 1, "{word} {other}");
            }
        }
    }
}
