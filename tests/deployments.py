"""Tests of deployments, which take minutes each: `make test-deploy` runs them, and CI has no time for them."""

from __future__ import annotations

import os

import pytest

DEPLOYMENT = pytest.mark.skipif(
    "PERMAFROST_DEPLOY" not in os.environ, reason="a deployment takes minutes; make test-deploy runs it"
)
