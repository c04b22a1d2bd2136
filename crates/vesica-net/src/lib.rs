//! Mutual TLS between parties: connect, multiplex lines, heartbeats.
