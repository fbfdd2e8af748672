"""`nearcast model`: how late topics are that are processed together, measured, learned and foretold."""
