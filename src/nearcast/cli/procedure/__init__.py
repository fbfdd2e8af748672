"""`nearcast procedure`: statements over datasets, run once or again and again."""
