"""What the starter model's pre-training is worth: its card's eight figures, over five seeds.

python -m tests.lab.starter.figures TREEBANK_FOLDER [--model starter] [--seeds 0 1 2 3 4]

Fine-tunes the pre-trained encoder and the same architecture from random weights on the first 800 train sentences for 5
epochs (lr 1e-3; 5e-3 where only the head learns), embeddings frozen with the layers and frozen parts without dropout,
as in the starter sweep, and prints the dev accuracy on the first 500 dev sentences as a Markdown table. About ten
minutes on one core.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel

from trials.draft import Lookup, TrialDraft
from trials.run import run_trial
from trials.sources.places.model_draft import ModelDraft, find_model
from trials.starter import STARTER

FREEZES: dict[str, dict[str, Any]] = {
    "none": {"freeze": "none"},
    "first 2": {"freeze": {"strategy": "first_k", "depth": 2, "embeddings": True}},
    "first 4": {"freeze": {"strategy": "first_k", "depth": 4, "embeddings": True}},
    "all": {"freeze": {"strategy": "all_encoder", "embeddings": True}, "optim": {"lr": 5e-3}},
}


def write_random_model(source: Path, folder: Path) -> str:
    """The architecture and tokenizer of a model with weights nobody trained."""
    shutil.copytree(source, folder)
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.from_pretrained(source)).save_pretrained(folder)
    return str(folder)


def final_accuracy(data: dict[str, Any], model: str, freeze: dict[str, Any], seed: int) -> float:
    """Dev accuracy after the last epoch."""
    optim = {"lr": 1e-3, "epochs": 5, "batch_size": 16} | freeze.get("optim", {})
    content = {"data": data, "model": model, "seed": seed, "frozen_dropout": False, **freeze, "optim": optim}
    draft = TrialDraft.model_validate(content)
    return [record.score for record in run_trial(draft.resolve(Lookup()))][-1]


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank", help="folder of UD English-EWT")
    parser.add_argument("--model", default=STARTER)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sizes", type=int, nargs=2, default=[800, 500], metavar=("TRAIN", "DEV"))
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    data = {"folder": args.treebank, "first": {"train": args.sizes[0], "dev": args.sizes[1], "test": 0}}
    with tempfile.TemporaryDirectory() as name:
        source = Path(find_model(ModelDraft(folder=args.model)).path)
        models = {"pre-trained": args.model, "random weights": write_random_model(source, Path(name) / "random")}
        print(f"| weights | {' | '.join(FREEZES)} |\n|---|{'---|' * len(FREEZES)}")
        for weights, model in models.items():
            row = [[final_accuracy(data, model, freeze, seed) for seed in args.seeds] for freeze in FREEZES.values()]
            cells = (f"{statistics.fmean(scores):.3f} ± {statistics.stdev(scores):.3f}" for scores in row)
            print(f"| {weights} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
