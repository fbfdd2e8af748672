"""Network coordinates: where nodes are in a space whose distances are round-trip times."""
