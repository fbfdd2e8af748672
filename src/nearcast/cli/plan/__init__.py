"""`nearcast plan`: the ring and the routes over it."""
