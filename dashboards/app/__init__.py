"""The Dash app: its shell, controls, callbacks and the pages of a view."""
