"""Files that the workers of one node share."""
