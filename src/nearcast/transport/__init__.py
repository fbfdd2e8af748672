"""What touches the machine: clocks, and later connections, TLS and credentials."""
