"""The starter set: a model that `transformers` loads and that knows something, and samples of two treebanks."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer

from tests.examples import first
from trials.corpora.formats.conllu_reader import read_conllu
from trials.sources.places.corpus_draft import DataDraft
from trials.sources.places.model_draft import ModelDraft, find_model
from trials.spec import Columns
from trials.starter import BUNDLED_TREEBANKS, model_path, treebank_path


def test_the_model_is_a_small_distilbert_that_transformers_loads() -> None:
    model, tokenizer = AutoModel.from_pretrained(model_path()), AutoTokenizer.from_pretrained(model_path())
    config = model.config
    assert (config.n_layers, config.dim, config.n_heads, config.hidden_dim) == (6, 128, 4, 512)
    assert len(tokenizer) == config.vocab_size == 8_000
    assert tokenizer.tokenize("Hello") == tokenizer.tokenize("hello")
    assert sum(path.stat().st_size for path in model_path().iterdir()) < 10_000_000


def test_the_starter_model_is_found_by_its_word() -> None:
    spec = find_model(ModelDraft(folder="starter"))
    assert (spec.name, spec.family, spec.n_layers, spec.n_positions) == ("starter", "distilbert", 6, 128)


@pytest.mark.parametrize("name", first(1, BUNDLED_TREEBANKS))
def test_a_sample_has_800_500_500_sentences_its_licence_and_40_dev_documents_or_more_each_in_one_split(
    name: str,
) -> None:
    data = DataDraft(bundled=name).resolve()
    splits = [read_conllu(Path(path), Columns()) for path in (*data.train, *data.dev, *data.test)]
    assert [len(sentences) for sentences in splits] == [800, 500, 500]
    documents = [{sentence.document for sentence in sentences} for sentences in splits]
    assert len(documents[1]) >= 40
    assert len(set.union(*documents)) == sum(map(len, documents))
    assert "CC BY-SA 4.0" in (treebank_path(name) / "README.md").read_text(encoding="utf-8")
