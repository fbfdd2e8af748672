"""The five papers' claims as experiments: each runs from a seed, measures, and says which claims hold."""
