"""What every test shares: property tests draw the same examples each time and know no deadline on a busy machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("project", derandomize=True, deadline=None, max_examples=50, database=None)
settings.load_profile("project")
