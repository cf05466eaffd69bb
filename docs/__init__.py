"""The documentation: `mkdocs.yml`, its pages, and what generates the reference from the code (`make docs`)."""
