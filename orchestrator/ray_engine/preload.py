"""What a worker imports ahead of its first trial: what takes some four seconds of CPU, while the driver gets ready.

Modules leave half a million objects that stay. A collector that looks through them as they come takes a seventh of the
time, and would look through them again with each of a trial's.
"""

from __future__ import annotations

import gc

gc.disable()
try:
    import orchestrator.ray_engine.trainable  # noqa: F401
    import trials.run  # noqa: F401
finally:
    gc.freeze()
    gc.enable()
