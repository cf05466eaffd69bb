"""Where the encoder and the corpus of a trial come from, and the licences that they state."""

from __future__ import annotations

import re
from pathlib import Path

from orchestrator.config.yaml_document import MAX_BYTES, parsed
from trials.errors import ConfigError
from trials.outside.plain_files import read_text
from trials.settings import ModelSpec
from trials.sources.cache import fetched_corpora
from trials.sources.hub_client import Repo
from trials.sources.places.model_draft import named_model
from trials.spec import TrialSpec

_SNAPSHOT = re.compile(r"models--([\w.-]+?)--([\w.-]+)/snapshots/([0-9a-f]{40})$")  # of the hub's cache


def hub_model(model: ModelSpec) -> Repo | None:
    """The repository of an encoder that came from the hub, by its source, in older rows by its folder in the hub's
    cache; None for any other.
    """
    if model.source is not None:
        named = named_model(model.source)
        return Repo("models", str(named.hub), str(named.revision))
    match = _SNAPSHOT.search(model.path)
    return Repo("models", f"{match[1]}/{match[2]}", match[3]) if match else None


def base_licence(folder: Path) -> str | None:
    """The licence in the card of a model folder; None if it states none."""
    try:
        text = read_text(folder / "README.md")[:MAX_BYTES]
        header = parsed(text.split("---")[1], "README.md")[0] if text.startswith("---") else {}
        return str(header["license"]) if isinstance(header, dict) and header.get("license") else None
    except (OSError, UnicodeDecodeError, ConfigError):
        return None


def data_licence(spec: TrialSpec) -> str | None:
    """The licence that the source of a corpus stated, or a file beside it; None if neither did."""
    fetched = next((corpus for corpus in fetched_corpora() if corpus.source == spec.data.source), None)
    return (fetched and fetched.licence) or _licence_beside(spec)


def _licence_beside(spec: TrialSpec) -> str | None:
    """The first line of a LICENSE file beside the train split, else the text after `Licence:` in a README there."""
    folder = Path(spec.data.train[0]).parent
    lines = [line.strip() for path in sorted(folder.glob("LICEN[SC]E*")) for line in _lines(path)]
    entries = [line.partition(":") for path in sorted(folder.glob("README*")) for line in _lines(path)]
    lines += [value.strip().rstrip(".") for key, _, value in entries if key.strip().lower() in ("licence", "license")]
    return next(filter(None, lines), None)


def _lines(path: Path) -> list[str]:
    try:
        return read_text(path, errors="replace").splitlines()
    except OSError:
        return []
