"""`nearcast lab`: list, run and score the experiments."""
