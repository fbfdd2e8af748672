"""`nearcast subscription`: questions that people have put to channels."""
