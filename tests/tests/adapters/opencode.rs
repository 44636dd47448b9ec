//! opencode
