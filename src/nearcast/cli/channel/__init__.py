"""`nearcast channel`: questions that people subscribe to."""
