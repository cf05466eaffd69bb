"""Describe a model without loading it: its family, sizes and revision, and its weights by their files' headers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import model_validator
from safetensors import SafetensorError, safe_open

from trials.errors import ConfigError, ModelError
from trials.escaping import beginning, quoted
from trials.models.family import MODEL_FAMILIES, REFUSED
from trials.models.model_files import ADAPTER, INDEX, PICKLE, WEIGHTS, revision_of, shards
from trials.outside.plain_files import MOST_CONTENT, MOST_TEXT, opened, read_json, stamp_of
from trials.settings import Frozen, ModelSpec
from trials.sources.cache import Progress, no_progress
from trials.sources.hub_client import is_commit, is_path, is_repo_name, near_here
from trials.sources.hub_models import fetch_model
from trials.sources.split_files import absolute
from trials.starter import STARTER as STARTER
from trials.starter import model_path

_LENGTH_BYTES = 8  # of the number at the beginning of a file, the bytes of its header


def tensor_shapes(folder: Path, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor in the safetensors files of these names.

    Raises:
        ModelError: a file is truncated or not a safetensors file; says which of its tensors are missing.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for name in names:
        path = folder / name
        try:
            stamp_of(path)  # the library would open a pipe
            with safe_open(path, framework="np") as file:
                shapes |= {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118 - no dict
        except (SafetensorError, OSError, ValueError) as error:
            raise ModelError(
                f"{path}: {_fault(path) or f'not a safetensors file ({error})'}. Fetch or copy it again."
            ) from error
    return shapes


def _fault(path: Path) -> str | None:
    """What a truncated file lacks; None if it is not truncated."""
    with opened(path, MOST_CONTENT) as file:
        size = path.stat().st_size
        header_bytes = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        start = _LENGTH_BYTES + header_bytes
        if size < _LENGTH_BYTES:
            return f"is truncated: it has {size:,} bytes, no header"
        try:
            header = json.loads(file.read(header_bytes)) if start <= size and header_bytes <= MOST_TEXT else {}
            ends = {str(key): int(value["data_offsets"][1]) for key, value in header.items() if key != "__metadata__"}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
    lost = sorted(name for name, end in ends.items() if start + end > size)
    if not lost:
        return None
    whole = start + max(ends.values())
    return (
        f"is truncated: it has {size:,} of {whole:,} bytes, so {len(lost)} of {len(ends)} tensors are missing or cut "
        f"off ({', '.join(lost[:2])}{', ...' if len(lost) > 2 else ''})"
    )


MOST_LAYERS = 2_000  # also of experts; the deepest encoders have about 100 layers, the widest 512 experts
MOST_LABELS = 100_000  # of the head that the weights came with, which is not used; the library names each


class ModelDraft(Frozen):
    """A model as a YAML file declares it; a bare word is `starter`, a folder, or a repository of the hub.

    Attributes:
        folder: `starter`, or a folder with config.json, weights and a tokenizer.
        hub: A repository of the model hub, e.g. ``FacebookAI/roberta-base``.
        revision: Its commit, tag or branch; without one the newest commit. Only a commit never changes.
        allow_pickle: Whether weights may be a pickle, which can run arbitrary code when it is loaded.
    """

    folder: str | None = None
    hub: str | None = None
    revision: str | None = None
    allow_pickle: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> ModelDraft:
        if (self.folder is None) == (self.hub is None):
            raise ValueError("name the model in one way: `folder` or `hub`")
        if self.hub is None and self.revision is not None:
            raise ValueError("`revision` is of a repository of the `hub`")
        return self

    @property
    def is_pinned(self) -> bool:
        """Whether it means the same files tomorrow, as far as its name can say."""
        return self.hub is None or is_commit(self.revision)

    @property
    def asked(self) -> str:
        """The name and version of what is fetched, as somebody gave them."""
        return f"{self.hub}{f'@{self.revision}' if self.revision else ''}"

    def pinned(self, source: str | None) -> ModelDraft:
        """The same model at the version that `ModelSpec.source` says."""
        return self if source is None else named_model(source).model_copy(update={"allow_pickle": self.allow_pickle})


def named_model(name: str) -> ModelDraft:
    """The model that a name refers to: `starter`, a folder, or a repository of the hub, in this order.

    A repository is `NAME` or `OWNER/NAME`, after `hub:` or not, with `@REVISION` or not.

    Raises:
        ConfigError: after `hub:` there is no name, or after `@` no revision.
    """
    kind, colon, rest = name.partition(":")
    repository, at, revision = (rest if colon else name).partition("@")
    if kind != "hub" and (name == STARTER or colon or is_path(name) or not is_repo_name(repository)):
        return ModelDraft(folder=name)
    if not repository or (at and not revision):
        raise ConfigError(
            f"{name!r} lacks its {'revision' if repository else 'name'}. Write hub:OWNER/NAME, then @REVISION for "
            "another one than the newest."
        )
    return ModelDraft(hub=repository, revision=revision or None)


def find_model(draft: ModelDraft, *, offline: bool = False, progress: Progress = no_progress) -> ModelSpec:
    """The model that a YAML file declares, downloaded if necessary.

    Raises:
        ModelError: no such folder or repository, a file of it missing or broken, weights that are a pickle without
            `allow_pickle`, or an architecture that cannot be frozen layer by layer.
    """
    if draft.hub is not None:
        fetched = fetch_model(
            draft.hub, draft.revision, allow_pickle=draft.allow_pickle, offline=offline, check=_shape, progress=progress
        )
        name = fetched.at.name.rpartition("/")[2]
        model = _described(fetched.folder, name, allow_pickle=draft.allow_pickle)
        return model.model_copy(update={"source": fetched.at.source})
    assert draft.folder is not None
    if draft.folder == STARTER:
        return _described(model_path(), STARTER, allow_pickle=False)
    folder = absolute(draft.folder, ModelError, "a folder with config.json")
    if not folder.is_dir():
        raise ModelError(
            f"no model folder at {folder}.{near_here(draft.folder, [STARTER])} Give a folder with config.json, "
            f"{STARTER!r}, or a repository of the hub as NAME or OWNER/NAME."
        )
    return _described(folder, folder.name, allow_pickle=draft.allow_pickle)


def _described(folder: Path, name: str, *, allow_pickle: bool) -> ModelSpec:
    family, n_layers, n_positions = _shape(folder)
    pickle = _is_pickle(folder, allow_pickle=allow_pickle)
    return ModelSpec(
        name=name,
        path=str(folder),
        revision=revision_of(folder, pickle=pickle),
        family=family,
        n_layers=n_layers,
        n_positions=n_positions,
        pickle=pickle,
    )


def _shape(folder: Path) -> tuple[str, int, int]:
    """Family, layers and usable positions of a model, by its configuration. Raises ModelError if it is refused."""
    config = _config(folder)
    family = str(config.get("model_type", ""))
    _refuse_quantised(folder, config)
    _refuse_large(folder, config)
    if family in REFUSED:
        raise ModelError(f"{folder / 'config.json'}: {family} is refused: {REFUSED[family]}. Use another model.")
    if family in MODEL_FAMILIES:
        traits = MODEL_FAMILIES[family]
    else:
        from trials.models.unregistered import generic_family

        traits = generic_family(folder, config)
    taken = _padding(folder, config) + 1 if traits.positions_from_pad else traits.first_position
    n_positions = _number(folder, config, traits.positions_key)
    if n_positions <= taken:
        raise ModelError(
            f"{folder / 'config.json'}: {traits.positions_key}: {n_positions:,} positions, of which {taken:,} are used "
            "up by padding (pad_token_id). Use the configuration that belongs to the model."
        )
    return family, _number(folder, config, traits.layers_key), n_positions - taken


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        inner = sorted(path.parent for path in folder.glob("*/config.json"))
        listed = ", ".join(str(path) for path in inner[:3])
        way_out = f"There is one in {listed}: give that folder" if inner else "Give another folder"
        raise ModelError(
            f"{folder}: has no config.json, so it is no model. {way_out}, or write hub:OWNER/NAME for a repository of "
            "the hub."
        )
    try:
        config = read_json(path)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{path}: not a readable model configuration ({reason}).") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path}: not a model configuration, which is a JSON object.")
    return config


def _number(folder: Path, config: dict[str, Any], key: str) -> int:
    number = config.get(key)
    if not isinstance(number, int) or number < 1:
        raise ModelError(f"{folder / 'config.json'}: {key}: {quoted(number)} is not a positive whole number.")
    return number


def _refuse_large(folder: Path, config: dict[str, Any]) -> None:
    """Raise ModelError where reading the model, which makes an object for each layer and label, would not end."""
    for key, value in config.items():
        is_count = key.startswith(("num_", "n_")) or key.endswith("layers")
        is_bounded = is_count and any(part in key for part in ("layer", "expert", "label"))
        most = MOST_LABELS if "label" in key else MOST_LAYERS
        if is_bounded and isinstance(value, int) and value > most:
            raise ModelError(
                f"{folder / 'config.json'}: {beginning(key)}: {quoted(value)} is more than {most:,}, the "
                "most that a model may have. Use another model."
            )


def _refuse_quantised(folder: Path, config: dict[str, Any]) -> None:
    if how := config.get("quantization_config"):
        method = f" by {quoted(how['quant_method'])}" if isinstance(how, dict) and "quant_method" in how else ""
        raise ModelError(
            f"{folder / 'config.json'}: quantization_config: its weights are quantised{method}, so they cannot be "
            "trained. Use the model that they were made from, with weights in floating point."
        )
    if (folder / ADAPTER).is_file():
        raise ModelError(
            f"{folder / ADAPTER}: the weights are those of an adapter, not of a whole model. Merge it into its model "
            "(`merge_and_unload` of peft) and save that."
        )


def attention_note(folder: Path) -> str | None:
    """What the plan says if a model's configuration asks for an attention that trials do not use."""
    config = _config(folder)
    asked = [config.get(key) for key in ("attn_implementation", "_attn_implementation")]
    other = next((word for word in asked if word not in ("sdpa", "eager", None)), None)
    return None if other is None else f"config.json asks for the attention {quoted(other)}; trials use PyTorch's own."


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of a model whose weights are safetensors, read from the files' headers.

    Raises:
        ModelError: a file is truncated or broken, or lacks a tensor that the index of sharded weights places in it.
    """
    names = shards(folder) if not (folder / WEIGHTS).is_file() else []
    if not names:
        return tensor_shapes(folder, [WEIGHTS])
    placed: dict[str, str] = read_json(folder / INDEX)["weight_map"]
    shapes: dict[str, tuple[int, ...]] = {}
    for shard in names:
        here = tensor_shapes(folder, [shard])
        lost = sorted(name for name, file in placed.items() if file == shard and name not in here)
        if lost:
            raise ModelError(f"{folder / shard}: lacks {lost[0]}, which {INDEX} says it has. Fetch the model again.")
        shapes |= here
    return shapes


def _padding(folder: Path, config: dict[str, Any]) -> int:
    padding = config.get("pad_token_id") or 0
    if not isinstance(padding, int) or padding < 0:
        raise ModelError(f"{folder / 'config.json'}: pad_token_id: {quoted(padding)} is not a whole number.")
    return padding


def _is_pickle(folder: Path, *, allow_pickle: bool) -> bool:
    if (folder / WEIGHTS).is_file() or (folder / INDEX).is_file():
        return False
    if not (folder / PICKLE).is_file():
        raise ModelError(f"{folder}: has no {WEIGHTS}. Save the model with `save_pretrained`, as safetensors.")
    if not allow_pickle:
        raise ModelError(
            f"{folder}: its weights are a pickle ({PICKLE}), which can run arbitrary code when it is loaded. Save "
            "them as safetensors, or say `allow_pickle: true` if you trust where it came from."
        )
    return True
