"""The door of `python -m orchestrator.launch`, which is `permafrost launch`."""

from __future__ import annotations

from orchestrator.commands.app import run

if __name__ == "__main__":
    run("launch")
