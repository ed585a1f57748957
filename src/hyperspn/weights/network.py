"""The external network on many small rows: linear layers with ReLU between them (section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ..kernel import array, kernel

WIDEST = 512


def relu_network(layers: Sequence[Any], x: Tensor) -> Tensor:
    """W_L relu(... relu(W_1 x + b_1) ...) + b_L, from a list of `nn.Linear`: (rows, inputs) -> (rows, outputs).

    In one pass through the cache where the kernel can: on the CPU, for layers that are not too wide.
    """
    weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
    if kernel is not None and x.device.type == "cpu" and max(weight.shape[0] for weight in weights) <= WIDEST:
        return FusedNetwork.apply(x, *weights, *biases)
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        x = functional.linear(x, weight, bias).relu()
    return functional.linear(x, weights[-1], biases[-1])


class FusedNetwork(torch.autograd.Function):
    """The same in C++; its activations are made again in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(x, *parameters)
        return torch.from_numpy(kernel.network_forward(*_arrays(x, *parameters), torch.get_num_threads()))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        arrays = _arrays(*ctx.saved_tensors)
        x, weights, biases = kernel.network_backward(*arrays, array(gradient), torch.get_num_threads())
        return tuple(torch.from_numpy(part) for part in (x, *weights, *biases))


def _arrays(x: Tensor, *parameters: Tensor) -> tuple[Any, list[Any], list[Any]]:
    """The rows, the weights and the biases, as the kernel takes them."""
    plain = [array(parameter) for parameter in parameters]
    return array(x), plain[: len(plain) // 2], plain[len(plain) // 2 :]
