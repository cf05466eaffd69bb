"""Settings: what names them, what they freeze, and how much of their input was cut off.

The layer strip: a setting as a row of squares, filled where frozen; the embeddings, then the encoder's layers.

    first 2 + embeddings of 6 layers: ■ ■■□□□□

It is made from a setting's label, which every table and every answer has (`FreezeSpec.label`). A column of a table
holds `FreezeName`s: text, to which each kind of table adds the strip in its own way.

Settings and their replicates: which trials differ in their seeds alone, what names them, which scores compare.

A *cell* is one combination of all settings but the seeds (a "setting" to people); its trials are its replicates. Those
of two cells are paired by `Seeds.key`, i.e. by the seeds of subset, initialisation and order together.

What gradual unfreezing, or a rule of an earlier version, froze: `froze 0 to 4 of 6 layers, 3.2 on average over steps`.

Every table, card and sentence that says so takes these words.

What `max_length` cut off, a sentence for each corpus: scores of shortened sentences look worse than they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from orchestrator.config.quantities import counted
from trials.escaping import escaped
from trials.freeze.stored_rule import ADAPTIVE
from trials.freeze.strategies import look_of
from trials.record import COSTS
from trials.settings import FreezeSpec, LabelParts
from trials.spec import SEEDS, TrialSpec
from trials.tasks.task import head_of, score_name

if TYPE_CHECKING:  # `status --trials` needs no pandas
    import pandas as pd

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
FROZEN, TRAINED = "■", "□"
ALL = "all"  # layers
LEGEND = f"{FROZEN} frozen, {TRAINED} trained: first the embeddings, then the layers from the input up"
MOST_LAYERS = 48  # a longer strip is not taken in at a glance


class FreezeName(str):
    """What a setting freezes, spelled out for people: `first 4 + embeddings` for the label `first 4+E`.

    Attributes:
        squares: `■ ■■■■□□`; empty if there is none.
    """

    squares: str
    heard: str

    def __new__(cls, label: str, n_layers: int) -> Self:
        """The name of a setting in an encoder of `n_layers` layers."""
        made = super().__new__(cls, freeze_name(label, n_layers))
        made.squares, made.heard = layer_strip(label, n_layers), strip_in_words(label, n_layers)
        return made


def freeze_name(label: object, n_layers: int) -> str:
    """What a freeze label says, spelled out: `layers 0,1,4+E` is `layers 1 to 2, 5 + embeddings`.

    Sets of layers are counted from 1, as in the strip; in labels, as in YAML, they are counted from 0. What freezes all
    of `n_layers` layers is `all`, whichever strategy does; 0 where their number is not known.
    """
    parts = LabelParts.of(str(label))
    text = parts.word if parts.layers is None else _counted(list(parts.layers)) + parts.by
    if n_layers and (freeze := FreezeSpec.named(str(label), n_layers)) and freeze.depth == n_layers:
        text = ALL  # `first 6` and `last 6` of six layers freeze the same
    return escaped(text) + (" + embeddings" if parts.embeddings else "")


def strip_and_word(label: str, n_layers: int) -> str:
    """`■ ■■■■□□ first 4`, for narrow columns: the first square says whether the embeddings are frozen."""
    squares = layer_strip(label, n_layers)
    return f"{squares} {freeze_name(LabelParts.of(label).word, n_layers)}" if squares else freeze_name(label, n_layers)


def layer_strip(label: str, n_layers: int) -> str:
    """`■ ■■□□□□`; empty for an unknown label or an encoder with more than `MOST_LAYERS` layers."""
    freeze = FreezeSpec.named(label, n_layers) if 0 < n_layers <= MOST_LAYERS else None
    if freeze is None:
        return ""
    layers = "".join(FROZEN if layer in freeze.layers else TRAINED for layer in range(n_layers))
    return f"{FROZEN if freeze.embeddings else TRAINED} {layers}"


def strip_in_words(label: str, n_layers: int) -> str:
    """`layers 1 to 2 of 6 and the embeddings frozen`, for those who hear it; the label itself if it is unknown."""
    freeze = FreezeSpec.named(label, n_layers)
    if freeze is None:
        return label
    if len(freeze.layers) == n_layers:
        layers = f"all {n_layers} layers"
    elif freeze.layers:
        layers = f"{_counted(list(freeze.layers))} of {n_layers}"
    else:
        layers = ""
    phrase = " and ".join(filter(None, [layers, "the embeddings" if freeze.embeddings else ""]))
    return f"{phrase or f'none of {n_layers} layers'} frozen"


def parts(label: str, n_layers: int | None = None) -> str:
    """What a freeze label names: `first 4+E` is `the first 4 of 6 layers and the embeddings`; others stay.

    Sets of layers are counted from 1, as in the strip: `layers 0,3` is `layers 1, 4 of 6`, and so is what any other
    strategy freezes.
    """
    frozen = FreezeSpec.named(label, n_layers or MOST_LAYERS)
    phrase = look_of(frozen.strategy).phrase if frozen else ""
    if frozen and n_layers and frozen.depth == n_layers:
        return f"all {n_layers} layers" + (" and the embeddings" if frozen.embeddings else "")
    if frozen and phrase and (frozen.layers or not frozen.embeddings):
        of = counted(len(frozen.layers), "layer") if n_layers is None else f"{len(frozen.layers)} of {n_layers} layers"
        return phrase.format(layers=of) + (" and the embeddings" if frozen.embeddings else "")
    if frozen and not frozen.layers:
        return "the embeddings"
    if (named := LabelParts.of(label)).rule:
        return f"layers while training (rule: {named.rule})" + (" and the embeddings" * named.embeddings)
    return label if n_layers is None else strip_in_words(label, n_layers).removesuffix(" frozen")


def _counted(layers: list[int]) -> str:
    """`layer 3`, `layers 1 to 4`, `layers 1, 3, 5`: counted from 1."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    ranges = (f"{run[0] + 1}" if len(run) == 1 else f"{run[0] + 1} to {run[-1] + 1}" for run in runs)
    return f"{'layer' if len(layers) == 1 else 'layers'} {', '.join(ranges)}"


Group = tuple[str, str, str, int]  # objective group: task, metric, corpus, train size; scores compare inside it only

# Columns of the store's `trials` table that a frame holds, in the store's units.
MEASURED = (
    "best_score", "test_score", *COSTS, "total_params", "trainable_params", "constant_score", "loss_fall",
    "frozen_layers", "mean_frozen_layers",
)  # fmt: skip
TRIAL_COLUMNS = (
    "trial_id", "attempt", "state", "device", "gpus", "threads", "accumulation", "worker_slots", "padding_free",
    "step_mode", "dev_cut_off", "train_cut_off", *MEASURED,
)  # fmt: skip

TRAINING_COST, MEMORY = "training_cost_s", "peak_memory_bytes"
_SAVED = {
    TRAINING_COST: "training time",
    "trainable_params": "trainable parameters",
    **{name: column.saved for name, column in COSTS.items() if column.saved},
}
_FIRST = ("training_flops", TRAINING_COST, "train_s", "trainable_params", MEMORY)
SAVED = {name: _SAVED[name] for name in (*_FIRST, *_SAVED)}
"""What a sentence calls each cost that freezing may save, by column of a frame."""


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by their keys, in order of first appearance."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def by_cell(specs: Iterable[TrialSpec]) -> dict[str, list[TrialSpec]]:
    """The replicates of each cell by cell id."""
    return grouped(specs, lambda spec: spec.cell_id)


def objective_group(spec: TrialSpec) -> Group:
    """The trials that a score may be compared with."""
    return spec.task, score_name(spec.task, spec.score), spec.data.name, spec.train_size


def cell_columns(spec: TrialSpec) -> dict[str, object]:
    """The columns of a frame of trials that every replicate of a cell shares, and that the analyses group by."""
    task, metric, corpus, size = objective_group(spec)
    return {
        "cell": spec.cell_id,
        "baseline": spec.baseline_id,
        "group": f"{task} / {metric} / {corpus} / {size}",
        "task": task,
        "metric": metric,
        "corpus": corpus,
        "model": spec.model.name,
        "freeze": spec.freeze.label,
        "strategy": spec.freeze.strategy,
        "depth": spec.freeze.depth,
        "n_layers": spec.model.n_layers,
        "embeddings": spec.freeze.embeddings,
        "train_size": size,
        "folds": spec.data.folds or 0,
        "examples": sum(spec.data.sizes[:2]) if spec.data.sizes else 0,
    }


CELL_COLUMNS = (
    "cell", "baseline", "group", "task", "metric", "corpus", "model", "freeze", "strategy", "depth", "n_layers",
    "embeddings", "train_size", "folds", "examples",
)  # fmt: skip
"""Those of `cell_columns`."""


def varying_settings(specs: Iterable[TrialSpec]) -> list[str]:
    """The dotted settings, other than those every table shows, in which the cells of a sweep differ."""
    all_settings = [_settings(spec) for spec in specs]
    keys = dict.fromkeys(key for settings in all_settings for key in settings)
    return [key for key in keys if len({repr(settings[key]) for settings in all_settings}) > 1]


def cell_label(spec: TrialSpec, varying: Sequence[str]) -> str:
    """What tells a cell from the others of its sweep: its freeze, with the strip, and the settings that differ."""
    values = ((key.removesuffix(".name").rpartition(".")[2], setting(spec, key)) for key in varying)
    settings = (
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in values
        if value is not None
    )
    return " ".join([strip_and_word(spec.freeze.label, spec.model.n_layers), *settings])


def has_frozen_dropout(spec: TrialSpec) -> bool:
    """Whether the frozen parts of a trial have dropout while it trains."""
    return spec.frozen_dropout and spec.dropout != 0.0 and not spec.freeze.is_baseline


def dropout_sentence(with_dropout: bool) -> str:
    """Under which of two conditions a freeze was measured; scores differ by up to two points."""
    if with_dropout:
        return "Frozen layers ran with dropout, as in transformers.Trainer."
    return "Frozen layers ran without dropout; in other training code, put them in eval mode."


def dropout_of(specs: Iterable[TrialSpec]) -> str:
    """Below a table: under which of the two its settings were measured."""
    kinds = {has_frozen_dropout(spec) for spec in specs if not spec.freeze.is_baseline}
    return "frozen layers " + " or ".join("with dropout" if kind else "without dropout" for kind in sorted(kinds))


def setup_labels(specs: Mapping[str, TrialSpec]) -> dict[str, str]:
    """For each cell the settings that vary, except corpus, model, freeze and train size; "" if none does."""
    keys = [key for key in varying_settings(specs.values()) if key != "model.name"]
    return {
        cell: ", ".join(f"{key.rpartition('.')[2]}={_text(setting(spec, key))}" for key in keys)
        for cell, spec in specs.items()
    }


def _text(value: object) -> str:
    if value is None:
        return "default"
    return f"{value:g}" if isinstance(value, float) else str(value)


def setting(spec: TrialSpec, key: str) -> Any:
    """The value of a dotted setting; adapters are one setting, by their label."""
    return _settings(spec)[key]


def _settings(spec: TrialSpec) -> dict[str, Any]:
    shown = {"data", "model", "freeze", "train_size", "task", "score", "lora"} | SEEDS
    lora = spec.lora.label if spec.lora else None
    return {"model.name": spec.model.name, **flatten(spec.model_dump(mode="json", exclude=shown)), "lora": lora}


def flatten(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, by dotted names."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


_MEASURED = ["frozen_layers", "mean_frozen_layers"]
_COLUMNS = ["strategy", "depth", "n_layers", *_MEASURED]


def froze(spec: TrialSpec, row: dict[str, Any]) -> str:
    """What a trial froze, by its row of the store; empty if that never changed, or was not recorded."""
    return _words([cell_columns(spec) | {name: row[name] for name in _MEASURED}])


def froze_by(frame: pd.DataFrame, key: str) -> dict[str, str]:
    """The same by `trial_id`, or by `cell` over its trials, for those in which what is frozen changed.

    Args:
        frame: As of `trial_frame`.
        key: One of these columns.
    """
    if not set(_COLUMNS) <= set(frame.columns):
        return {}
    ended = frame["frozen_layers"]
    changing = frame[ended.notna() & ((frame["strategy"] == ADAPTIVE) | (ended != frame["depth"]))]
    rows = grouped(changing[[key, *_COLUMNS]].to_dict("records"), lambda row: row[key])
    return {name: _words(of) for name, of in rows.items()}


def _words(rows: Sequence[dict[str, Any]]) -> str:
    """Of trials that froze the same at first."""
    (first,), n_layers = {row["depth"] for row in rows}, rows[0]["n_layers"]
    ends, means = (
        [row[name] for row in rows if row[name] is not None and row[name] == row[name]] for name in _MEASURED
    )
    if not ends or (rows[0]["strategy"] != ADAPTIVE and {*ends} == {first}):
        return ""
    if {*ends} == {first}:
        return f"froze {first:g} of {n_layers} layers throughout"
    text = f"froze {first:g} to {max(ends, key=lambda end: abs(end - first)):g} of {n_layers} layers"
    if len({*ends}) > 1:
        text += f" ({min(ends):g} to {max(ends):g} at the end)"
    return text + (f", {sum(means) / len(means):.1f} on average over steps" if means else "")


def cut_off_notes(specs: Sequence[TrialSpec], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each corpus, model and `max_length` of which words of dev or train were cut off.

    Args:
        specs: The trials of a sweep.
        rows: Rows of the store's `trials` table with `cells.TRIAL_COLUMNS`; rows without counts say nothing.
    """
    by_id = {spec.trial_id: spec for spec in specs}
    most: dict[tuple[str, str, str, int], tuple[int, int]] = {}
    for row in rows:
        spec = by_id.get(row["trial_id"])
        if spec is not None and row["dev_cut_off"] is not None:
            key = spec.task, spec.data.name, spec.model.name, spec.max_length
            dev, train = most.get(key, (0, 0))
            most[key] = max(dev, row["dev_cut_off"]), max(train, row["train_cut_off"])
    return [_sentence(*key, *cut) for key, cut in most.items() if any(cut)]


def _sentence(task: str, corpus: str, model: str, max_length: int, dev: int, train: int) -> str:
    noun, end, fate = ("word", "", ", counted as errors,")
    if head_of(task) == "text":
        noun, end, fate = "text", "the end of ", ""
    return (
        f"{corpus}, {model}: max_length {max_length} cuts off {end}{counted(dev, noun)} of dev{fate} and "
        f"{'of ' if end else ''}up to {counted(train, noun)} of a train subset."
    )
