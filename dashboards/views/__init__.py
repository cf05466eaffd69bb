"""The views: each answers one question with its parts. A new view is a file with a `VIEW` and a line in `registry`."""
