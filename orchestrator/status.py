"""The door of `python -m orchestrator.status`, which is `permafrost status`."""

from __future__ import annotations

from orchestrator.commands.app import run

if __name__ == "__main__":
    run("status")
