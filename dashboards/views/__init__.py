"""The views: each answers one question with its parts. A new view is a file with `PARTS` and a line in `registry`."""
