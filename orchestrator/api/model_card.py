"""The model card of an exported model: data, frozen layers, scores and their spread over seeds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from orchestrator.analysis.describe import LEAST_FOR_INTERVAL, describe, mean_interval
from orchestrator.analysis.freeze_names import FreezeName, dropout_sentence, freeze_changes
from orchestrator.config.quantities import amount, points
from orchestrator.config.yaml_document import MAX_BYTES, parse_yaml
from orchestrator.store import ResultStore
from orchestrator.store.plans import is_beside, stored_spec
from trials.errors import ConfigError
from trials.escaping import markdown
from trials.models.family import CAUSAL, is_causal
from trials.outside.plain_files import read_text
from trials.record import MISMATCHED, State
from trials.sources.cache import fetched_corpora
from trials.sources.hub_client import Repo
from trials.sources.places.model_draft import named_model
from trials.spec import ModelSpec, TrialSpec
from trials.tasks import TASKS
from trials.tasks.task import score_name

Row = dict[str, Any]
_PIPELINES = {"tokens": "token-classification", "text": "text-classification"}
_UNKNOWN = "unknown"  # the hub's own word for a licence that nobody stated
_SNAPSHOT = re.compile(r"models--([\w.-]+?)--([\w.-]+)/snapshots/([0-9a-f]{40})$")  # of the hub's cache
_HUB_DATA = re.compile(r"hub:([\w.-]+/[\w.-]+)(?:/[^@]*)?@([0-9a-f]{40})")


def model_card(
    spec: TrialSpec,
    row: Row,
    store: ResultStore,
    *,
    score: float,
    licence: str | None,
) -> str:
    """Markdown with the YAML header of the Hugging Face hub, from the row of a trial in a store.

    `score` is the dev score of the exported weights, 0 to 1, which may differ from the row's on a GPU. `licence` None
    means the licence in the encoder's own card, if it states one.
    """
    licence = licence or base_licence(Path(spec.model.path)) or _UNKNOWN
    rows = store.trials().to_pylist()
    done = [row for row in rows if row["state"] == State.COMPLETED]
    seeds = [row for row in done if stored_spec(row["spec"], row["trial_id"]).cell_id == spec.cell_id]
    header = _header(spec, row, licence)
    parts = [
        f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---",
        f"# {markdown(spec.model.name)}, fine-tuned for {spec.task} on {markdown(spec.data.name)}",
        f"Fine-tuned with Permafrost: trial `{spec.trial_id}`, seed {spec.seeds.label}."
        + (f" The encoder is {CAUSAL}" if is_causal(spec.model) else ""),
        "## Scores\n\n" + _scores(spec, row, score) + "\n\n" + _seeds_text(seeds),
        "## Freezing\n\n" + _freezing(spec, row) + _against_baseline(spec, rows, store),
        "## Data\n\n" + _data(spec),
        "## Training\n\n" + _training(spec, row),
        f"## Licence\n\n- Encoder, {markdown(spec.model.name)}: {markdown(licence)}\n"
        f"- Data, {markdown(spec.data.name)}: {markdown(_data_licence(spec) or _UNKNOWN)}\n\n"
        "Both apply: check that you may share this.",
        "## Use\n\n" + _use(spec),
    ]
    return "\n\n".join(parts) + "\n"


def _header(spec: TrialSpec, row: Row, licence: str) -> Row:
    """The card's metadata. Only what is on the hub is named as one of its models or datasets."""
    base, data = hub_model(spec.model), _HUB_DATA.fullmatch(spec.data.source or "")
    pipeline = _PIPELINES[TASKS[spec.task].head]
    dataset: Row = {"type": data[1] if data else spec.data.name, "name": spec.data.name}
    dataset |= {"revision": data[2]} if data else {}
    best = dict(row["best_metrics"] or ())
    results: list[Row] = [
        {
            "task": {"type": pipeline, "name": spec.task},
            "dataset": {**dataset, "split": split},
            "metrics": [
                {"type": name, "name": f"{name} (points)", "value": round(100 * value, 2)} for name, value in scores
            ],
        }
        for split, scores in (("dev", best.items()), ("test", row["test_metrics"] or ()))
        if scores
    ]
    return {
        "license": licence,
        "library_name": "transformers",
        "pipeline_tag": pipeline,
        **({"base_model": base.name} if base else {}),
        **({"datasets": [data[1]]} if data else {}),
        "metrics": list(best),
        "model-index": [{"name": f"{spec.model.name}, {spec.freeze.label} frozen, seed {spec.seeds.label}",
                         "results": results}],
    }  # fmt: skip


def _scores(spec: TrialSpec, row: Row, score: float) -> str:
    best, test = dict(row["best_metrics"] or ()), dict(row["test_metrics"] or ())
    lines = ["| metric (points) | dev | test |", "|---|---|---|"]
    for name, value in (best or {"score": row["best_score"]}).items():
        lines.append(f"| {name} | {points(value)} | {points(test[name]) if name in test else ''} |")
    lines += [f"| {name} | | {points(value)} |" for name, value in test.items() if name.endswith(MISMATCHED)]
    chosen = score_name(spec.task, spec.score)
    note = f"The weights are those of epoch {row['best_epoch']:g}, the best by dev {chosen}; test selected nothing."
    if score != row["best_score"]:
        note += f" Retrained for this folder, they score {points(score)} on dev."
    return "\n".join(lines) + f"\n\n{note}"


def _seeds_text(rows: list[Row]) -> str:
    if len(rows) < 2:
        return "One seed: the variation over seeds is not known."
    seeds = ", ".join(str(row["seed"]) for row in rows)
    dev = [row["best_score"] for row in rows]
    test = [row["test_score"] for row in rows if row["test_score"] is not None]
    scores, sentences = describe(dev), [f"Dev score over the seeds {seeds}: "]
    sentences[0] += (
        f"{points(scores.mean)} ± {points(scores.std)} (mean ± standard deviation){_interval(dev, 'score')}."
    )
    if len(test) > 1:
        scores = describe(test)
        sentences.append(f"Test: {points(scores.mean)} ± {points(scores.std)}{_interval(test, 'test_score')}.")
    return " ".join(sentences)


def _interval(scores: Sequence[float], column: str) -> str:
    if len(scores) < LEAST_FOR_INTERVAL:
        return ""
    low, high = mean_interval(np.asarray(scores, dtype=np.float64), column)
    return f", 95 % interval of the mean {points(low)} to {points(high)}"


def _against_baseline(spec: TrialSpec, rows: Sequence[Row], store: ResultStore) -> str:
    """What the freezing costs, paired by seed, in the newest sweep that asked and has this setting, on as much of train
    as it has; nothing where there is no baseline beside it. The sweep of a trained model asks nothing.
    """
    from orchestrator.analysis.decide import loss_table
    from orchestrator.analysis.setting_phrases import loss_phrase

    if spec.freeze.is_baseline:
        return ""
    plans = sorted(store.sweeps(), key=lambda plan: -plan.time)
    names = {plan.name for plan in plans}
    stored = [stored_spec(row["spec"], row["trial_id"]) for row in rows]
    of_sweeps = [(plan.decision_plan, plan.specs) for plan in plans if not is_beside(plan.name, names)]
    for asks, specs in (*of_sweeps, (None, stored)):
        settings = [other for other in specs if _is_same_recipe(other, spec)]
        if not settings:
            continue
        setting = max(settings, key=lambda other: (other.cell_id == spec.cell_id, other.train_size))
        alike = [other for other in specs if setting.baseline_id in (other.cell_id, other.baseline_id)]
        table = loss_table(store.evidence(alike).frame, plan=asks)
        own = table[(table["cell"] == setting.cell_id) & (table["n_pairs"] > 0)]
        if not own.empty:
            row = own.iloc[0]
            pairs = amount(int(row["n_pairs"]), "paired seed")
            size_part = "" if setting.train_size == spec.train_size else f" trained on {setting.train_size:,} items"
            why_none = f", {row['why_none']}" if row["why_none"] else ""
            return f" Against nothing frozen, over {pairs}{size_part}: on dev it {loss_phrase(row)}{why_none}."
    return ""


def _is_same_recipe(other: TrialSpec, spec: TrialSpec) -> bool:
    """Whether two trials differ in their seeds and their share of the corpus only."""
    return (other.task, other.freeze, other.model, other.optim, other.data.name) == (
        spec.task, spec.freeze, spec.model, spec.optim, spec.data.name
    )  # fmt: skip


def _freezing(spec: TrialSpec, row: Row) -> str:
    n_layers = spec.model.n_layers
    name = FreezeName(spec.freeze, n_layers)
    strip = f" `{name.squares}` (first the embeddings)" if name.squares else ""
    share, changing = 1 - row["trainable_params"] / row["total_params"], freeze_changes(spec, row)
    what = f"{name}. Training {changing}" if changing else f"{name}, that is {name.heard}"
    return (
        f"Frozen while it was trained:{strip} {what}. "
        f"{row['trainable_params']:,} of {row['total_params']:,} parameters were trained ({100 * share:.1f} % saved)."
        + ("" if spec.freeze.is_baseline else f" {dropout_sentence(spec.has_frozen_dropout)}")
    )


def _data(spec: TrialSpec) -> str:
    sizes = dict(zip(("train", "dev", "test"), spec.data.sizes or (), strict=False))
    counts = ", ".join(f"{n:,} {split}" for split, n in sizes.items() if n)
    source = f" ({markdown(spec.data.source)})" if spec.data.source else ""
    return (
        f"{markdown(spec.data.name)}{source}: {counts or 'sizes not recorded'} items, of which "
        f"{spec.train_size:,} were used for training. SHA-256 of the splits: `{spec.data.fingerprint}`."
    )


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
    return f'```python\nfrom transformers import pipeline\n\npipeline("{task}", model="FOLDER")("A sentence.")\n```'


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
        header = parse_yaml(text.split("---")[1], "README.md")[0] if text.startswith("---") else {}
        return str(header["license"]) if isinstance(header, dict) and header.get("license") else None
    except (OSError, UnicodeDecodeError, ConfigError):
        return None


def _data_licence(spec: TrialSpec) -> str | None:
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
