"""What the core does without: each folder is a feature with its command and its analysis, and can be deleted whole.

A feature is registered where it is asked for, by a name and not by an import: its commands in
`orchestrator.commands.app.COMMANDS`, what it offers to Python in `orchestrator.api`, and the monitors that it adds to a
launch in `orchestrator.session.monitors.EXTRAS`. No extra imports another.
"""
