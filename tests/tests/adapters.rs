//! What every adapter keeps, shown with recorded sessions and, where the laboratory is installed, with the real
//! agents.

#[path = "adapters/claude_code.rs"]
mod claude_code;
#[path = "adapters/codex.rs"]
mod codex;
#[path = "adapters/contract.rs"]
mod contract;
#[path = "adapters/driver.rs"]
mod driver;
#[path = "adapters/moves.rs"]
mod moves;
#[path = "adapters/opencode.rs"]
mod opencode;
#[path = "adapters/recorded.rs"]
mod recorded;
