"""The door of `python -m orchestrator.status`; the command is `orchestrator.commands.status_command`."""

from __future__ import annotations

from orchestrator.commands.status_command import status
from orchestrator.config.command_line import run

if __name__ == "__main__":
    run(status)
