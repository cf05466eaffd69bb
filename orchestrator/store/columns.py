"""What each column of the store says, in words: the data dictionary that an export brings along."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from orchestrator.store.schema import SCHEMA_VERSION, TABLES, State
from trials.metrics.metric import METRICS
from trials.record import RECORD_COLUMNS

_ID = {
    "trial_id": "The trial: a digest of everything that decides its numbers.",
    "attempt": "Which attempt at it, from 1 on; 0 and below are attempts that a merge brought.",
}
_TOTALS = {name: column.about for name, column in RECORD_COLUMNS.items() if column.per_trial}

ABOUT = {
    "epochs": "A row an evaluation on dev, of each trial's newest attempt.",
    "trials": "A row a trial that has ended, by its newest attempt. Only `completed` ones belong in a mean.",
    "tags": "A row a label of each scored split, with the weights of the best epoch.",
    "predictions": "A row a sentence or text of each scored split, with the weights of the best epoch.",
    "contributions": "A row a scored split, with the weights of the best epoch: the score, sentence by sentence.",
    "notes": "A row a note that somebody wrote about a trial or a setting and nobody removed.",
    "probes": "A row a linear probe of the untouched encoder (`permafrost layers`): one train subset, one depth.",
    "drifts": "A row a part of the encoder of a trial with stored weights: how far training moved it.",
}

COLUMNS: dict[str, dict[str, str]] = {
    "epochs": {
        **_ID,
        **{name: column.about for name, column in RECORD_COLUMNS.items() if column.per_epoch},
        **{m.name: f"{m.about} On dev; empty where the task does not measure it." for m in METRICS.values()},
        "time": "When the evaluation ended, UTC.",
    },
    "trials": {
        **_ID,
        "state": f"How it ended: {', '.join(State)}.",
        "task": "The task.",
        "corpus": "What people call the corpus.",
        "model": "What people call the pretrained model.",
        "freeze_strategy": "The rule that says which layers are frozen.",
        "freeze_depth": "How many encoder layers are frozen.",
        "freeze_layers": "Which ones, counted from the embeddings.",
        "freeze_embeddings": "Whether the embedding tables are frozen.",
        "train_size": "Sentences or texts of the train subset.",
        "seed": "Seeds subset, initialisation, order and dropout; its `spec` may have other seeds for the last three.",
        "total_params": "Parameters of encoder and head.",
        "trainable_params": "Those of them that learn.",
        "best_score": "The largest score of its evaluations, on dev.",
        "best_epoch": "The epoch of it, the earliest of equals.",
        "last_epoch": "How far the attempt came.",
        "test_score": "The same metric on test with the weights of best_epoch; it selected nothing.",
        "best_metrics": "All metrics on dev at best_epoch.",
        "test_metrics": "All metrics on test with those weights; `_mismatched` ends those on the mismatched split.",
        "constant_score": "The score of the best constant prediction on dev; a trial at or below it has collapsed.",
        "loss_fall": "By what share of its first tenth the last tenth of the training loss lies lower.",
        **_TOTALS,
        "git_commit": "The commit of the code, with + where it was changed.",
        "versions": "Versions of Python and the packages.",
        "error": "Why it ended otherwise than completed.",
        "spec": "Everything that decides the trial, as JSON.",
        "time": "When it ended, UTC.",
        "row_counts": "How many rows this attempt has in each other table, and files of weights.",
        "row_digests": "A digest of those rows, whatever parts they are in. `permafrost store verify` compares both.",
    },
    "tags": {
        **_ID,
        "split": "dev, test or mismatched.",
        "level": "What is counted: token, span or class.",
        "tag": "The label.",
        "support": "How often it is the gold label.",
        "predicted": "How often it was predicted.",
        "correct": "How often both.",
        "precision": "correct / predicted; 0 where a share is of nothing.",
        "recall": "correct / support.",
        "f1": "Their harmonic mean.",
    },
    "predictions": {
        **_ID,
        "split": "dev, test or mismatched.",
        "sentence": "Number of the sentence or text, from 0, in the order of the corpus.",
        "forms": "The words; of a text the text, and its pair.",
        "gold": "The gold labels.",
        "predicted": "The predicted ones; empty where a word was cut off.",
        "probability": "Of each predicted label.",
    },
    "contributions": {
        **_ID,
        "split": "dev, test or mismatched.",
        "values": "What each sentence or text contributes to the score, in the order of the corpus; their mean is the "
        "score. Differences between two trials of one seed are what intervals over sentences are made of.",
    },
    "notes": {
        "note_id": "The note.",
        "trial_id": "The trial that it is about; of a setting, the trial at which it was written.",
        "setting": "The setting that it is about, with all its seeds; empty if it is about the trial alone.",
        "text": "What it says.",
        "labels": "Its labels.",
        "author": "Who wrote it, if known.",
        "time": "When it was written, UTC.",
        "removed": "Whether the row removes the note; never in an export.",
    },
    "probes": {
        "probe_id": "The setting, whatever is frozen: a digest of data, model, recipe and train size.",
        "subset_seed": "The seed of the train subset that it learned from.",
        "depth": "How many layers ran; 0 for the embeddings alone.",
        "n_layers": "Encoder layers of the model.",
        "task": "The task.",
        "corpus": "What people call the corpus.",
        "model": "What people call the pretrained model.",
        "metric": "What `score` is.",
        "train_size": "Sentences or texts of the train subset.",
        "n_places": "Words or texts that it learned from.",
        "score": "On dev, the larger the better.",
        "control_score": "On dev against control labels: accuracy, or `metric` where the task has no accuracy.",
        "selectivity": "The same metric on the task's own labels, less control_score.",
        "contributions": "What each sentence or text of dev contributes to score; their mean is the score.",
        "selectivity_contributions": "What each contributes to selectivity.",
        "seconds": "What fitting and scoring the probe and its control took.",
        "time": "When it was computed, UTC.",
    },
    "drifts": {
        "trial_id": "The trial.",
        "depth": "0 for the embeddings, k for the k-th layer.",
        "n_layers": "Encoder layers of the model.",
        "epoch": "The epoch of the weights: the best one, as no other is stored.",
        "weight_change": "|W - W0| / |W0| of the part against the pretrained model.",
        "cka": "Linear CKA of its output on dev before and after training; empty where the output is constant.",
        "time": "When it was computed, UTC.",
    },
}


def dictionary() -> str:
    """The data dictionary, in Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield f"# Columns\n\nOf store version {SCHEMA_VERSION}. `_s` are seconds, `_bytes` bytes, `_j` joules. In CSV a"
    yield "list is JSON; a map has a column a key (`best_metrics.accuracy`), and what is not there is an empty cell.\n"
    for table, schema in TABLES.items():
        yield f"## {table}\n\n{ABOUT[table]}\n\n| column | type | what |\n|---|---|---|"
        for field in schema:
            yield f"| `{field.name}` | {_type(field.type)} | {COLUMNS[table][field.name]} |"
        yield ""


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {kind.value_type}"
    return f"{kind.key_type} to {kind.item_type}" if pa.types.is_map(kind) else str(kind).replace("[us, tz=UTC]", "")
