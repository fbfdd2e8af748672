"""`nearcast broker`: the servers of the fleet."""
