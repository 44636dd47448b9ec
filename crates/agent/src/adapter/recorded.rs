//! Small recorded-like sessions of each agent.
