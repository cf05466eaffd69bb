"""A store as tidy frames that follow it, and the selection that a URL asks for."""
