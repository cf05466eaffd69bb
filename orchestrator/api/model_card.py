"""The model card of an exported model: data, frozen layers, scores and their spread over seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from orchestrator.analysis.describe import describe
from orchestrator.analysis.layer_strip import FreezeName
from orchestrator.config.quantities import points
from orchestrator.config.yaml_document import MAX_BYTES, parsed
from orchestrator.store import ResultStore
from orchestrator.store.schema import State
from orchestrator.store.specs import stored_spec
from trials.errors import ConfigError
from trials.escaping.untrusted_text import markdown
from trials.models.family import CAUSAL, is_causal
from trials.record import MISMATCHED
from trials.sources.cache import fetched_corpora
from trials.spec import TrialSpec
from trials.tasks import TASKS

Row = dict[str, Any]
_PIPELINES = {"tokens": "token-classification", "text": "text-classification"}


def model_card(spec: TrialSpec, row: Row, store: ResultStore, *, score: float, licence: str | None) -> str:
    """Markdown with the YAML header of the Hugging Face hub, from the row of a trial in a store.

    `score` is the dev score of the exported weights, 0 to 1, which may differ from the row's on a GPU. `licence` None
    means the licence in the encoder's own card, if it states one.
    """
    licence = licence or base_licence(Path(spec.model.path)) or "unknown"
    header = {
        "license": licence,
        "library_name": "transformers",
        "pipeline_tag": _PIPELINES[TASKS[spec.task].head],
        "base_model": spec.model.name,
        "datasets": [spec.data.name],
        "metrics": [name for name, _ in row["best_metrics"] or ()],
    }
    seeds = _replicates(spec, store)
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---",
        f"# {markdown(spec.model.name)}, fine-tuned for {spec.task} on {markdown(spec.data.name)}",
        f"Fine-tuned with Permafrost: trial `{spec.trial_id}`, seed {spec.seeds.label}."
        + (f" The encoder is {CAUSAL}" if is_causal(spec.model) else ""),
        "## Scores\n\n" + _scores(spec, row, score) + "\n\n" + _over_seeds(seeds),
        "## Freezing\n\n" + _freezing(spec, row),
        "## Data\n\n" + _data(spec),
        "## Training\n\n" + _training(spec, row),
        f"## Licence\n\n{markdown(licence)}. "
        "Both the encoder's and the data's licence apply: check that you may share this.",
        "## Use\n\n" + _use(spec),
    ]
    return "\n\n".join(parts) + "\n"


def base_licence(folder: Path) -> str | None:
    """The licence in the card of a model folder; None if it states none."""
    try:
        text = (folder / "README.md").read_text(encoding="utf-8")[:MAX_BYTES]
        header = parsed(text.split("---")[1], "README.md")[0] if text.startswith("---") else {}
        return str(header["license"]) if isinstance(header, dict) and header.get("license") else None
    except (OSError, UnicodeDecodeError, ConfigError):
        return None


def _replicates(spec: TrialSpec, store: ResultStore) -> list[Row]:
    """The completed trials of the same cell."""
    rows = [row for row in store.trials().to_pylist() if row["state"] == State.COMPLETED]
    return [row for row in rows if stored_spec(row["spec"], row["trial_id"]).cell_id == spec.cell_id]


def _scores(spec: TrialSpec, row: Row, score: float) -> str:
    best, test = dict(row["best_metrics"] or ()), dict(row["test_metrics"] or ())
    lines = ["| metric (points) | dev | test |", "|---|---|---|"]
    for name, value in (best or {"score": row["best_score"]}).items():
        lines.append(f"| {name} | {points(value)} | {points(test[name]) if name in test else ''} |")
    lines += [f"| {name} | | {points(value)} |" for name, value in test.items() if name.endswith(MISMATCHED)]
    chosen = spec.score or TASKS[spec.task].metrics[0]
    note = f"The weights are those of epoch {row['best_epoch']:g}, the best by dev {chosen}; test selected nothing."
    if score != row["best_score"]:
        note += f" Retrained for this folder, they score {points(score)} on dev."
    return "\n".join(lines) + f"\n\n{note}"


def _over_seeds(rows: list[Row]) -> str:
    if len(rows) < 2:
        return "One seed: the variation over seeds is not known."
    seeds = ", ".join(str(row["seed"]) for row in rows)
    scores = describe([row["best_score"] for row in rows])
    return (
        f"Dev score over the seeds {seeds}: {points(scores.mean)} ± {points(scores.std)} (mean ± standard deviation)."
    )


def _freezing(spec: TrialSpec, row: Row) -> str:
    n_layers = spec.model.n_layers
    name = FreezeName(spec.freeze.label, n_layers)
    strip = f" `{name.squares}` (first the embeddings)" if name.squares else ""
    share = 1 - row["trainable_params"] / row["total_params"]
    return (
        f"Frozen while it was trained:{strip} {name}, that is {name.heard}. "
        f"{row['trainable_params']:,} of {row['total_params']:,} parameters were trained ({100 * share:.1f} % saved)."
    )


def _data(spec: TrialSpec) -> str:
    sizes = dict(zip(("train", "dev", "test"), spec.data.sizes or (), strict=False))
    counts = ", ".join(f"{n:,} {split}" for split, n in sizes.items() if n)
    source = f" ({markdown(spec.data.source)})" if spec.data.source else ""
    fetched = next((corpus for corpus in fetched_corpora() if corpus.source == spec.data.source), None)
    licence = (fetched and fetched.licence) or _licence_beside(spec)
    return (
        f"{markdown(spec.data.name)}{source}: {counts or 'sizes not recorded'} items, of which "
        f"{spec.train_size:,} were used for training. Licence: {markdown(licence or 'not stated')}. "
        f"SHA-256 of the splits: `{spec.data.fingerprint}`."
    )


def _licence_beside(spec: TrialSpec) -> str | None:
    """The first line of a LICENSE file beside the train split, else the text after `Licence:` in a README there."""
    folder = Path(spec.data.train[0]).parent
    lines = [line.strip() for path in sorted(folder.glob("LICEN[SC]E*")) for line in _lines(path)]
    entries = [line.partition(":") for path in sorted(folder.glob("README*")) for line in _lines(path)]
    lines += [value.strip().rstrip(".") for key, _, value in entries if key.strip().lower() in ("licence", "license")]
    return next(filter(None, lines), None)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _training(spec: TrialSpec, row: Row) -> str:
    optim = ", ".join(f"{key} {value}" for key, value in spec.optim.model_dump(exclude_none=True).items())
    device = markdown(row["device"] or "an unknown device")
    versions = ", ".join(f"{name} {version}" for name, version in row["versions"] or ())
    return (
        f"AdamW: {optim}. Precision {spec.precision}, at most {spec.max_length} subwords"
        f"{', lower-cased' if spec.lowercase else ''}. {row['train_s']:.0f} s of training on {device}; "
        f"{markdown(versions)}."
    )


def _use(spec: TrialSpec) -> str:
    task = _PIPELINES[TASKS[spec.task].head]
    return (
        "```python\nfrom transformers import pipeline\n\n"
        f'pipeline("{task}", model="FOLDER")("A sentence.")\n```\n\n'
        "or, for whole files: `permafrost predict FOLDER INPUT`."
    )
