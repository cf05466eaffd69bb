"""The door of `python -m orchestrator.launch`; the command is `orchestrator.commands.launch_command`."""

from __future__ import annotations

from orchestrator.commands.launch_command import launch
from orchestrator.config.command_line import run

if __name__ == "__main__":
    run(launch)
