"""`nearcast demo`: topics that move between real servers while messages flow."""
