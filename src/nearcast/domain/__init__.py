"""Frozen values, the hash ring and the error tree: what every other package speaks in."""
