"""Turn the name of a user's data into the sweep file that finds out what to freeze on it."""
