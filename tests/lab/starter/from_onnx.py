"""A model folder from an encoder that travels as an ONNX file, as paraphrase-MiniLM-L3-v2 of FreezeBench does.

python -m tests.lab.starter.from_onnx MODEL.onnx --like models/all-MiniLM-L6-v2 --out models/NAME

An export keeps the names of biases, norms and embeddings; weights of linear layers are constants without a name of
theirs, transposed, and the node that multiplies with one says whose it is. Configuration and tokenizer are copied from
a model of the same family and vocabulary (`--like`), with the number of layers of the file. What the new folder's model
says of two sentences is compared with what the ONNX file says. Needs `onnx` and `onnxruntime`, which nothing else does.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper
from safetensors.numpy import save_file
from transformers import AutoModel

TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def weights_of(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """Parameters by the names of the encoder they were exported from, linear weights as [out, in]."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = {short(name): array for name, array in constants.items() if not name.startswith("onnx::")}
    for node in graph.node:
        if node.op_type == "MatMul" and (constant := constants.get(node.input[1])) is not None:
            path = node.name.strip("/").removesuffix("/MatMul").replace("/", ".")
            weights[f"{short(path)}.weight"] = np.ascontiguousarray(constant.T)
    return weights


def short(name: str) -> str:
    return re.sub(r"^(.*\.)?(?=(embeddings|encoder)\.)", "", name)


def differs_by(folder: Path, file: Path) -> float:
    """The largest difference between what folder and file say of two sentences and of their tokens, where both do."""
    ids = torch.tensor([[101, 1996, 4937, 4823, 2006, 1996, 13523, 102], [101, 7632, 2045, 102, 0, 0, 0, 0]])
    mask = (ids != 0).long()
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    outputs = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder).eval()(input_ids=ids, attention_mask=mask).last_hidden_state
    pooled = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    expected = [states.numpy(), pooled.numpy()]
    return max(float(np.abs(given - own).max()) for given in outputs for own in expected if given.shape == own.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--like", type=Path, required=True, help="a model folder of the same family and vocabulary")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()

    weights = weights_of(onnx.load(arguments.file).graph)
    layers = 1 + max(int(n) for name in weights for n in re.findall(r"encoder\.layer\.(\d+)\.", name))
    arguments.out.mkdir(parents=True)
    for name in TOKENIZER:
        shutil.copy(arguments.like / name, arguments.out / name)
    config = json.loads((arguments.like / "config.json").read_text()) | {"num_hidden_layers": layers}
    (arguments.out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_file(weights, arguments.out / "model.safetensors", metadata={"format": "pt"})

    difference = differs_by(arguments.out, arguments.file)
    if difference > 1e-4:
        raise SystemExit(f"the folder's model differs from {arguments.file} by {difference:.1e}")
    print(f"{arguments.out}: {layers} layers, differs from {arguments.file.name} by at most {difference:.1e}")


if __name__ == "__main__":
    main()
