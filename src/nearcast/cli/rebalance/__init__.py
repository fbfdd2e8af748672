"""`nearcast rebalance`: spread load over the brokers."""
