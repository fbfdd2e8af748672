"""`nearcast pipeline`: the process that runs feeds."""
