#!/usr/bin/env python3
"""Prints test/golden/row_wise_torch.hpp: row-wise rules of packages for torch, on numbers as in row_wise.py.

    pip install --no-deps -r benchmarks/peers/requirements.txt    # and see cuda_stubs.sh there
    pip install --no-deps pytorch_optimizer==4.1.0 timm==1.0.31 torchvision pillow pyyaml safetensors
    pip install huggingface_hub
    python3 test/golden/row_wise_torch.py > test/golden/row_wise_torch.hpp

stable_adamw and novograd make three steps on one tensor, in double. The tables of FBGEMM have five rows of four floats;
a step touches some of the rows, with a rate of its own.
"""

from importlib.metadata import version

import numpy as np
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    CounterWeightDecayMode,
    CowClipDefinition,
    SplitTableBatchedEmbeddingBagsCodegen,
    WeightDecayMode,
)
from pytorch_optimizer import StableAdamW
from timm.optim import NvNovoGrad

RATE, STEPS, SIZE = 0.125, 3, 37
ROWS, WIDTH = 5, 4
TOUCHED = [[0, 1, 4], [1, 2], [0, 2], [1], [0, 1, 2, 3], [1, 3], [4]]
RATES = [0.5, 0.25, 0.25, 0.125, 0.5, 0.0625, 0.25]


def sequence(seed: int, size: int = SIZE) -> np.ndarray:
    i = np.arange(size)
    return ((i * i * 7 + i * 13 * seed + 5 * seed) % 257 - 128) / 64


def train(make) -> np.ndarray:
    torch.set_default_dtype(torch.float64)  # of the norm that NvNovoGrad keeps
    weight = torch.nn.Parameter(torch.tensor(sequence(1)))
    optimizer = make([weight])
    for step in range(STEPS):
        weight.grad = torch.tensor(sequence(step + 2))
        optimizer.step()
    torch.set_default_dtype(torch.float32)
    return weight.detach().numpy()


def table(**options) -> np.ndarray:
    """The rows after the steps, and then the numbers that each row keeps."""
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(ROWS, WIDTH, EmbeddingLocation.HOST, ComputeDevice.CPU)], learning_rate=RATES[0], **options
    )
    (weights,) = tables.split_embedding_weights()
    weights.copy_(torch.tensor(sequence(1, ROWS * WIDTH), dtype=torch.float32).reshape(ROWS, WIDTH))
    for step, (ids, rate) in enumerate(zip(TOUCHED, RATES)):
        tables.set_learning_rate(rate)
        gradient = sequence(step + 2, len(ids) * WIDTH).reshape(len(ids), WIDTH)
        out = tables(torch.tensor(ids), torch.arange(len(ids) + 1))
        out.backward(torch.tensor(gradient, dtype=torch.float32))
    slots = [slot.detach().numpy().ravel() for slot in tables.split_optimizer_states()[0]]
    return np.concatenate([weights.detach().numpy().ravel(), *slots])


def array(name: str, values: np.ndarray) -> str:
    numbers = ", ".join(float(x).hex() for x in values)
    return f"inline constexpr std::array<double, {len(values)}> {name}{{{numbers}}};"


def main() -> None:
    print("#pragma once")
    names = ", ".join(f"{name} {version(name)}" for name in ("torch", "pytorch_optimizer", "timm", "fbgemm-gpu-cpu"))
    print(f"/// Written by test/golden/row_wise_torch.py with {names}.")
    print("// clang-format off")
    print("#include <array>\n")
    print("namespace golden {\n")
    print("/// StableAdamW(lr=0.125, betas=(0.75, 0.875), eps=0.001, weight_decay=0.25)")
    numbers = {"betas": (0.75, 0.875), "eps": 0.001, "weight_decay": 0.25}
    print(array("stable_adamw", train(lambda p: StableAdamW(p, lr=RATE, **numbers))))
    print("/// NvNovoGrad with the same numbers")
    print(array("novograd", train(lambda p: NvNovoGrad(p, lr=RATE, **numbers))))
    print("/// CowClip: counter_halflife 2, coefficient 0.25, lower bound 0.125, eps 0.001; w, n, step of the last touch, c")
    clip = CowClipDefinition(
        counter_weight_decay_mode=CounterWeightDecayMode.DECOUPLE,
        counter_halflife=2,
        weight_norm_coefficient=0.25,
        lower_bound=0.125,
    )
    rows = table(
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        weight_decay_mode=WeightDecayMode.COWCLIP,
        cowclip_regularization=clip,
        eps=0.001,
    )
    print(array("cowclip_adagrad", rows))
    print("/// ROWWISE_RMSPROP_AR: ema_beta 0.75, eps 0.001, without and with ar_alpha 0.0625; w, v, step of the last touch")
    for name, alpha in (("rowwise_rmsprop", 0.0), ("rowwise_rmsprop_ar", 0.0625)):
        rows = table(
            optimizer=EmbOptimType.ROWWISE_RMSPROP_AR, ema_beta=0.75, ar_alpha=alpha, min_shrinkage=0.0, eps=0.001
        )
        print(array(name, rows))
    print("\n} // namespace golden\n// clang-format on")


if __name__ == "__main__":
    main()
