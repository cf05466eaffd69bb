"""The starter set: a small pretrained encoder and samples of two treebanks, so that a first sweep needs no download."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent

STARTER = "starter"  # the model's name in files and on the command line

BUNDLED_TREEBANKS = {
    "UD_English-EWT-sample": _HERE / "treebanks" / "UD_English-EWT-sample",
    "UD_Naija-NSC-sample": _HERE / "treebanks" / "UD_Naija-NSC-sample",
}


def model_path() -> Path:
    """Folder of the starter model, as `transformers.AutoModel.from_pretrained` takes it."""
    return _HERE / "model"


def treebank_path(name: str) -> Path:
    """Folder of a bundled treebank sample: `train.conllu`, `dev.conllu`, `test.conllu` and their licence."""
    return BUNDLED_TREEBANKS[name]
