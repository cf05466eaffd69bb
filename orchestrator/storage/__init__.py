"""Folders and object stores behind one interface."""
