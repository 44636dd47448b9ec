//! Secrets: device keys, signatures, pairing PAKE, sealed streams.
