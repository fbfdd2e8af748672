"""What runs on Spark. An extra: `pip install nearcast[spark]`, and Java 17 or newer."""
