"""What the installed torch says of itself and of this machine's GPUs, for those who set a machine up."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from trials.hardware.machine import TORCH_S


@dataclass(frozen=True)
class TorchBuild:
    """A build of torch on this machine.

    Attributes:
        cuda: The version of CUDA that it was built for, e.g. `13.0`; None for a build without.
        warnings: Its warnings and errors when it starts CUDA, without their places in its source.
    """

    version: str
    cuda: str | None
    warnings: tuple[str, ...] = ()


# Warnings come once a process, so CUDA is started in one of its own; a driver may hang.
_START_CUDA = (sys.executable, "-P", "-c", """
import json, re, torch, warnings
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    try:
        if torch.cuda.is_available():
            torch.cuda.init()
    except Exception as error:
        warnings.warn(str(error))
said = [re.sub(r" \\(Triggered internally.*", "", " ".join(str(one.message).split())) for one in found]
print(json.dumps([torch.__version__, torch.version.cuda or torch.version.hip, list(dict.fromkeys(said))]))
""")  # fmt: skip


def torch_build(python_words: Sequence[str] = _START_CUDA) -> TorchBuild | None:
    """What torch says, asked in a process of its own; None if that fails."""
    try:
        done = subprocess.run(python_words, capture_output=True, text=True, timeout=TORCH_S, check=True)
        version, cuda, warnings = json.loads(done.stdout.strip().splitlines()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError):
        return None
    return TorchBuild(version, cuda, tuple(warnings))
