from itertools import pairwise

import pytest
import torch

from torch import nn

from hyperspn.weights import network


def layers_of(*widths, dtype=torch.float64):
    torch.manual_seed(0)
    return [nn.Linear(a, b, dtype=dtype) for a, b in pairwise(widths)]


def plain(layers, x):
    for layer in layers[:-1]:
        x = layer(x).relu()
    return layers[-1](x)


@pytest.mark.parametrize("rows", [0, 1, 7, 64, 65, 128, 300, 1000])
@pytest.mark.parametrize("widths", [(5, 20, 20, 25), (3, 4), (1, 1, 1), (8, 10, 10, 40), (6, 30, 7)])
def test_the_fused_network_equals_the_plain_one(widths, rows):
    layers = layers_of(*widths)
    x = torch.randn(rows, widths[0], dtype=torch.float64, requires_grad=True)
    wanted = [x, *(parameter for layer in layers for parameter in layer.parameters())]
    seed = torch.randn(rows, widths[-1], dtype=torch.float64)
    found, expected = network.relu_network(layers, x), plain(layers, x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, wanted, seed), torch.autograd.grad(expected, wanted, seed))


def test_it_works_in_single_precision_on_strided_rows_and_on_several_threads():
    layers = layers_of(5, 20, 20, 25, dtype=torch.float32)
    x = torch.randn(5, 3001).T
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            torch.testing.assert_close(network.relu_network(layers, x), plain(layers, x))
    finally:
        torch.set_num_threads(threads)


def test_wide_networks_are_left_to_torch(monkeypatch):
    layers = layers_of(4, 6, network.WIDEST + 1)
    monkeypatch.setattr(network.FusedNetwork, "apply", None)
    x = torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(network.relu_network(layers, x), plain(layers, x))


def test_the_kernel_checks_shapes():
    rows, weight, bias = torch.zeros(3, 4), torch.zeros(5, 4), torch.zeros(5)
    for arguments in (
        (rows, [], []),
        (rows, [weight], []),
        (rows, [weight[:, :3].contiguous()], [bias]),
        (rows, [weight], [bias[:4].contiguous()]),
        (rows, [weight.double()], [bias]),
        (rows.long(), [weight], [bias]),
    ):
        with pytest.raises(ValueError, match="expected"):
            network.kernel.network_forward(*arguments)
