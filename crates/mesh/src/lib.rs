//! Who is a peer: pairing, membership, admission.
