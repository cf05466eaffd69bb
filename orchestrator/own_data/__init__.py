"""From a name of somebody's data to the sweep file that finds out what to freeze on it."""
