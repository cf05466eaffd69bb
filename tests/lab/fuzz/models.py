"""Broken models by number: a small model after some accidents, planned and tried as a launch would."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.builders import write_tagged_treebank, write_texts
from tests.lab.fuzz.judging import Verdict, judged
from tests.lab.fuzz.mutations import mutated, mutated_json
from tests.trials.conftest import save_tiny_model, save_tiny_tokenizer, tiny_encoder
from trials.draft import Lookup, TrialDraft
from trials.errors import DivergedError, PermafrostError
from trials.run import run_trial

LIMIT_S = 60.0
FAMILIES = ("bert", "roberta", "gpt2", "modernbert", "ernie")
FILES = ("config.json", "config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "sharded")
# What people and programs write into these files, beside accidents.
CONFIG: dict[str, tuple[Any, ...]] = {
    "attn_implementation": ("flash_attention_2", "flex_attention", "eager", "sdpa", "no_such", 3, {"": "eager"}),
    "_attn_implementation": ("flash_attention_3", "paged|sdpa", ""),
    "quantization_config": ({"quant_method": "gptq", "bits": 4}, {"load_in_8bit": True}, {}, None, "gptq", [1]),
    "return_dict": (False,), "output_attentions": (True,), "output_hidden_states": (True,), "torchscript": (True,),
    "is_decoder": (True,), "is_encoder_decoder": (True,), "add_cross_attention": (True,), "use_cache": (True, False),
    "pad_token_id": (None, -1, 0, 7, 31, 140, 10**9), "vocab_size": (0, 1, 10, 141, 10**6, 10**12, -5),
    "hidden_size": (0, 15, 16, 32, 10**7, -16), "num_attention_heads": (0, 1, 3, 16, 17, -2),
    "num_hidden_layers": (0, 1, 2, 3, 5, 1999, 10**9), "intermediate_size": (0, 1, 33, 10**9),
    "max_position_embeddings": (0, 1, 2, 5, 32, 10**7, 10**18), "type_vocab_size": (0, 1, 2, 50),
    "model_type": ("roberta", "distilbert", "gpt2", "llama", "t5", "clip", "vit", "mamba", "gpt_neox", "", None, 3),
    "architectures": (None, [], ["NoSuch"], "x"),
    "auto_map": ({"AutoModel": "evil.Evil"}, {"AutoConfig": "evil--a.B"}), "hidden_act": ("relu", "no_such", None),
    "dtype": ("bfloat16", "float8_e4m3fn", "nonsense", 3), "num_labels": (0, 1, 10**9),
    "id2label": ({"0": "A"}, {}, None, {"x": "y"}), "problem_type": ("regression", "x"),
    "hidden_dropout_prob": (1.0, 2.0, -1, "0.1", None), "layer_norm_eps": (0, -1, None, "x"),
    "tie_word_embeddings": (False,), "layer_types": ([], ["full_attention"], None),
    "initializer_range": (0, None, 1e+30), "pruned_heads": ({"0": [0]}, {"9": [9]}),
    "rope_scaling": ({"type": "yarn", "factor": 4.0}, {"type": "x"}, 3), "chunk_size_feed_forward": (1, 7, -1),
    "transformers_weights": ("other.safetensors", "../../etc/passwd"),
    "fusion_config": ({"patch_embeddings": True}, {"x": 1}), "gradient_checkpointing": (True,),
    "summary_type": ("last", "x"), "position_embedding_type": ("relative_key", "x"),
}  # fmt: skip
TOKENIZER: dict[str, tuple[Any, ...]] = {
    "pad_token": (None, "[PAD]", "<none>", "", 3, {"content": "[PAD]"}),
    "tokenizer_class": (
        "BertTokenizer", "GPT2Tokenizer", "CanineTokenizer", "LayoutLMv3Tokenizer", "T5Tokenizer", "TapasTokenizer",
        "NoSuch", None, 3,
    ),
    "padding_side": ("left", "right", "x"), "truncation_side": ("left", "x"),
    "model_max_length": (1, 2, 10**30, -1, "x"), "unk_token": (None,),
    "cls_token": (None, "[SEP]"), "add_prefix_space": (True, False), "do_lower_case": (True,),
    "extra_special_tokens": ({}, ["<a>"], {"x": "<x>"}), "auto_map": ({"AutoTokenizer": ["evil.T", None]},),
    "added_tokens_decoder": ({"500": {"content": "<far>", "special": True}}, {"x": 3}, {"3": {"content": "[PAD]"}}),
    "model_input_names": (["input_ids"], ["pixel_values"], []), "backend": ("tokenizers", "x"),
}  # fmt: skip


class BrokenModel(NamedTuple):
    """A model one of whose files had an accident."""

    kind: str
    family: str
    file: str
    content: bytes
    task: str


class Models:
    """Whole models in a folder, each of which is copied, broken and tried in turn."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed, self._work = seed, folder / "work"
        self._models = {family: save_tiny_model(family, folder / family) for family in FAMILIES}
        for family in FAMILIES:
            sharded = save_tiny_tokenizer(folder / f"{family}-sharded")
            tiny_encoder(family).save_pretrained(sharded, max_shard_size="20KB")
            self._models[f"{family}-sharded"] = sharded
        bank = write_tagged_treebank(folder / "bank", train=8, dev=3, test=3)
        texts = write_texts(folder / "texts", train=8, dev=4, test=4)
        self._data = {"pos": {"folder": str(bank)}, "sst2": {"folder": str(texts)}}

    def make(self, number: int) -> BrokenModel:
        """The broken model of this number, always the same; files come in turn."""
        rng = random.Random(f"model {self.seed} {number}")
        file, family = FILES[number % len(FILES)], rng.choice(FAMILIES)
        kind, task = file, rng.choice(("pos", "sst2"))
        if file == "sharded":
            family = f"{family}-sharded"
            file = rng.choice(sorted(path.name for path in self._models[family].glob("model*")))
        content = (self._models[family] / file).read_bytes()
        return BrokenModel(kind, family, file, _broken(rng, file, content), task)

    def try_out(self, broken: BrokenModel) -> Verdict:
        """Plan a trial of it and, unless that is refused, run it: nothing may fail that the plan could have found."""
        shutil.rmtree(self._work, ignore_errors=True)
        model = shutil.copytree(self._models[broken.family], self._work / "model")
        (model / broken.file).write_bytes(broken.content)
        return judged(lambda: self._run(model, broken.task), limit_s=LIMIT_S)

    def _run(self, model: Path, task: str) -> None:
        draft = {
            "task": task, "data": self._data[task], "model": str(model), "max_length": 16, "train_size": 4,
            "freeze": {"strategy": "first_k", "depth": 1, "embeddings": True}, "optim": {"batch_size": 4, "epochs": 2},
        }  # fmt: skip
        spec = TrialDraft.model_validate(draft).resolve(Lookup(offline=True))
        try:
            records = list(run_trial(spec, device=torch.device("cpu")))
        except DivergedError:  # weights of any value are weights
            return
        except PermafrostError as error:
            raise AssertionError(f"planned well, but the trial ends with: {error}") from error
        assert records[-1].last


def _broken(rng: random.Random, file: str, content: bytes) -> bytes:
    entries = {"config.json": CONFIG, "tokenizer_config.json": TOKENIZER}.get(file)
    if entries and rng.random() < 0.7:
        whole = json.loads(content)
        for key in rng.sample(sorted(entries), rng.choice((1, 1, 2))):
            whole[key] = rng.choice(entries[key])
        return json.dumps(whole).encode()
    return mutated_json(rng, content) if file.endswith(".json") else mutated(rng, content)
