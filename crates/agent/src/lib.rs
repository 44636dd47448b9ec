//! Coding agents and the working tree.
