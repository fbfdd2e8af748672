"""A fleet of ordinary pub/sub servers as one system that keeps a latency promise per topic."""
