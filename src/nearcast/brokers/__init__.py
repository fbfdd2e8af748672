"""Links to brokers: one protocol, and one adapter per kind of server."""
