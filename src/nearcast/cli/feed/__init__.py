"""`nearcast feed`: what goes into datasets by itself."""
