"""What the core does without: each folder is a feature with its command, analysis and page, and can be deleted whole.

What it adds to the core it declares in its `__init__.py` (`orchestrator.commands.app`). No extra imports another.
"""
