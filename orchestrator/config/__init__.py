"""YAML documents with line numbers, validation messages, and the console."""
