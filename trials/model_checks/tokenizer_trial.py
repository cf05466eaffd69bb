"""Try a model's tokenizer on a few words within limits: python -P tokenizer_trial.py FOLDER BYTES SECONDS.

Some files of a few bytes give gigabytes, or never end. A signal ends the process there; any other error is left to the
plan, which words it. Imports nothing of ours, so that it starts in a tenth of a second.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

_WORDS = ["Nothing", "is", "lost", "on", "the", "way", "."]


def main(folder: Path, most_bytes: int, most_s: int) -> None:
    """Encode the words."""
    # Data, not addresses: libraries for CUDA and threads reserve many more of those than they use.
    for kind, most in ((resource.RLIMIT_DATA, most_bytes), (resource.RLIMIT_CPU, most_s), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    try:
        if (folder / "tokenizer.json").is_file():
            from tokenizers import Tokenizer

            Tokenizer.from_file(str(folder / "tokenizer.json")).encode_batch(_WORDS)
        else:
            from transformers import AutoTokenizer

            AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)(_WORDS)
    except MemoryError:
        os.abort()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
