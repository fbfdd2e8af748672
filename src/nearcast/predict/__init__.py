"""How late topics are that are processed at one broker: what is learned of it, and what a queue tells."""
