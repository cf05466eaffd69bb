"""Plug-ins: what is registered under which name, where modules are imported from, and the modules of other people."""
