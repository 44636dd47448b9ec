//! What every adapter keeps, shown with recorded sessions and, where the laboratory is installed, with the real
//! agents.

#[path = "adapters/claude_code.rs"]
mod claude_code;
#[path = "adapters/codex.rs"]
mod codex;
#[path = "adapters/contract.rs"]
mod contract;
#[expect(dead_code, reason = "the tests of real devices use the rest")]
#[path = "adapters/driver.rs"]
mod driver;
#[path = "adapters/moves.rs"]
mod moves;
#[path = "adapters/opencode.rs"]
mod opencode;
#[path = "adapters/recorded.rs"]
mod recorded;
