//! The only place that may say durable: journal, blobs, index.
