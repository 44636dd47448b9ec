//! Links between devices: QUIC, LAN discovery.
