"""The web server: access control, response headers, and serving the dashboard."""
