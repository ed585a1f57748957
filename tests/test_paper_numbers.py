"""The parameter counts of Tables 1 and 2, for every data set: (variables, weight decay, HyperSPN)."""

import pytest
import torch

from hyperspn import EiNet
from hyperspn.structures import binary_trees, poon_domingos
from hyperspn.weights.direct import DirectWeights
from hyperspn.weights.hyper import HyperWeights
from hyperspn.weights.sectors import Sectors

TABLE_1 = {
    "nltcs": (16, 40050, 9115),
    "msnbc": (17, 42550, 9615),
    "kdd": (64, 160050, 33115),
    "plants": (69, 172550, 35615),
    "baudio": (100, 250050, 51115),
    "jester": (100, 250050, 51115),
    "bnetflix": (100, 250050, 51115),
    "accidents": (111, 277550, 56615),
    "tretail": (135, 337550, 68615),
    "pumsb_star": (163, 407550, 82615),
    "dna": (180, 450050, 91115),
    "kosarek": (190, 475050, 96115),
    "msweb": (294, 735050, 148115),
    "book": (500, 1250050, 251115),
    "tmovie": (500, 1250050, 251115),
    "cwebkb": (839, 2097550, 420615),
    "cr52": (889, 2222550, 445615),
    "c20ng": (910, 2275050, 456115),
    "bbc": (1058, 2645050, 530115),
    "ad": (1556, 3890050, 779115),
}
TABLE_2 = {
    "amzn_apparel": (100, 250050, 50655),
    "amzn_bath": (100, 250050, 50655),
    "amzn_bedding": (100, 250050, 50655),
    "amzn_carseats": (34, 85050, 17655),
    "amzn_diaper": (100, 250050, 50655),
    "amzn_feeding": (100, 250050, 50655),
    "amzn_furniture": (32, 80050, 16655),
    "amzn_gear": (100, 250050, 50655),
    "amzn_gifts": (16, 40050, 8655),
    "amzn_health": (62, 155050, 31655),
    "amzn_media": (58, 145050, 29655),
    "amzn_moms": (16, 40050, 8655),
    "amzn_safety": (36, 90050, 18655),
    "amzn_strollers": (40, 100050, 20655),
    "amzn_toys": (62, 155050, 31655),
}
ROWS = [(*row, 20) for row in TABLE_1.values()] + [(*row, 10) for row in TABLE_2.values()]


@pytest.mark.parametrize(("n", "stored", "learnable", "h"), ROWS, ids=[*TABLE_1, *TABLE_2])
def test_published_counts(n, stored, learnable, h):
    r, k = 50, 5
    sectors = Sectors(binary_trees(n, replicas=r), layer_size=k, leaf_widths=[2] * n)
    with torch.device("meta"):
        direct = DirectWeights(sectors)
        hyper = HyperWeights(sectors, embedding_dim=5, hidden=(20, h))
    assert direct.num_parameters + r == sectors.num_weights == stored
    assert hyper.num_parameters + r == learnable
    assert sectors.num_used_weights == r * (2 * n * k + (n - n.bit_count() - 1) * k**2 + k) + r


def test_used_count_is_the_formula_of_section_2_1_for_powers_of_two():
    r, k = 3, 7
    for n in (2, 4, 64, 256):
        sectors = Sectors(binary_trees(n, replicas=r), layer_size=k, leaf_widths=[2] * n)
        assert sectors.num_used_weights == r * ((n - 2) * k**2 + (2 * n + 1) * k) + r


def test_hand_crafted_counts_of_table_3():
    for k, expected in ((5, 640050), (2, 102450)):
        sectors = Sectors(binary_trees(256), layer_size=k, leaf_widths=[2] * 256)
        assert sectors.num_weights == expected


def test_counts_of_the_svhn_einet():
    structure = poon_domingos((32, 32), axes=[1], delta=8, channels=3)
    with torch.device("meta"):
        direct, hyper = (EiNet(structure, layer_size=40, weights=weights) for weights in ("direct", "hyper"))
    assert direct.sectors.num_used_weights == 452_963
    assert direct.sectors.num_sectors == 11_327
    assert direct.sectors.num_weights == direct.weights.num_parameters == 11_327 * 40
    assert hyper.weights.embeddings.numel() == 90_616
    assert hyper.weights.num_parameters == 91_256
    assert direct.leaves.raw[0].numel() == 245_760
    assert hyper.num_parameters == 91_256 + 245_760
