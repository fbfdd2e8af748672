"""`nearcast topic`: where topics are."""
