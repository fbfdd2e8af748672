"""`nearcast dataset`: tables of records that feeds fill and channels read."""
