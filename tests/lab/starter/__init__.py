"""The scripts that made the starter set."""
