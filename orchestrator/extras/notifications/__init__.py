"""Messages to a webhook when a sweep is done, failed or stalled."""
