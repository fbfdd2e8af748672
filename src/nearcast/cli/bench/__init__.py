"""`nearcast bench`: figures of this machine, and no assertions."""
