"""Which tensor a request was: products that fit, products that nearly do, and what is never guessed."""

from __future__ import annotations

import pytest

from firstfault.memory.tensor_match import MIB, Sizes, bounds, matches, tokens_of
from firstfault.units import parse_size

SIZES = Sizes(
    vocabulary=151_936,
    batch=4,
    length=1024,
    hidden=1024,
    heads=16,
    kv_heads=8,
    head_dim=128,
    inner=3072,
    layer=15_730_944,
    elements=596_049_920,
    matrices=(("the embedding", 151_936, 1024), ("down_proj", 1024, 3072)),
)


def read(printed, consumer, phase=None, sizes=SIZES):
    return [(one.tensor, one.arithmetic) for one in matches(parse_size(printed), consumer, phase, sizes)]


def test_logits_with_their_product():
    assert read("2.32 GiB", "lm_head_or_loss") == [("logits", "4 x 1,024 x 151,936 x 4 bytes = 2.32 GiB")]
    assert read("1.16 GiB", "lm_head_or_loss") == [("logits", "4 x 1,024 x 151,936 x 2 bytes = 1.16 GiB")]


def test_labels_of_a_shifted_loss_are_one_shorter():
    shifted = SIZES._replace(batch=64, length=100)
    assert read("3.59 GiB", "lm_head_or_loss", sizes=shifted) == [("logits", "64 x 99 x 151,936 x 4 bytes = 3.59 GiB")]


@pytest.mark.parametrize("printed", ["2.30 GiB", "2.34 GiB", "2.35 GiB", "1.20 GiB", "594.00 MiB"])
def test_a_near_miss_is_no_match(printed):
    assert read(printed, "lm_head_or_loss") == []


def test_printed_numbers_are_rounded_up_by_the_allocator():
    size = 3 * 1000 * 50_257 * 2
    segments = -(-size // (2 * MIB)) * 2
    known = Sizes(vocabulary=50_257, batch=3, length=1000)
    assert read(f"{segments}.00 MiB", "lm_head_or_loss", sizes=known) == [
        ("logits", "3 x 1,000 x 50,257 x 2 bytes = 288 MiB"),
    ]
    assert read(f"{segments + 4}.00 MiB", "lm_head_or_loss", sizes=known) == []
    assert read(f"{segments - 2}.00 MiB", "lm_head_or_loss", sizes=known) == []


@pytest.mark.parametrize("printed", ["20.00 MiB", "2.00 MiB", "512 bytes"])
def test_small_requests_have_no_size_of_their_own(printed):
    assert bounds(parse_size(printed)) is None
    assert read(printed, "optimizer_init") == []


def test_frames_of_another_consumer_contradict():
    assert read("2.32 GiB", "attention") == []
    assert read("2.32 GiB", "dp_scatter", "forward") == []
    assert read("2.32 GiB", None) == []


def test_a_number_of_devices_is_solved():
    known = SIZES._replace(batch=8, length=300)
    assert read("5.43 GiB", "dp_gather", sizes=known) == [
        ("gathered_logits", "4 x 8 x 300 x 151,936 x 4 bytes = 5.43 GiB or 8 x 8 x 300 x 151,936 x 2 bytes = 5.43 GiB")
    ]
    assert read("5.43 GiB", "dp_gather", sizes=known._replace(gpus=4)) == [
        ("gathered_logits", "4 x 8 x 300 x 151,936 x 4 bytes = 5.43 GiB")
    ]
    assert read("5.43 GiB", "dp_gather", sizes=known._replace(gpus=2)) == []


def test_a_hole_that_any_request_would_fill_stays_open():
    # With samples of one token nearly every size is a whole number of them.
    assert read("2.32 GiB", "lm_head_or_loss", sizes=SIZES._replace(batch=0, length=1)) == []
    assert read("2.32 GiB", "lm_head_or_loss", sizes=SIZES._replace(length=0)) == []
    assert read("2.32 GiB", "lm_head_or_loss", sizes=SIZES._replace(batch=0, length=1024, widths=(4,))) == [
        ("logits", "4 x 1,024 x 151,936 x 4 bytes = 2.32 GiB")
    ]


@pytest.mark.parametrize(
    ("printed", "consumer", "tensor"),
    [
        ("256.00 MiB", "attention", "attention_scores"),
        ("48.00 MiB", "activation", "mlp_activation"),
        ("594.00 MiB", "optimizer_init", "weight"),
        ("298.00 MiB", "from_pretrained", "weight"),
        ("62.00 MiB", "fsdp_unshard", "layer"),
        ("954.00 MiB", "zero_reduce", "reduce_bucket"),
        ("2.22 GiB", "zero_flatten", "all_parameters"),
    ],
)
def test_each_consumer_has_tensors_of_its_own(printed, consumer, tensor):
    assert [kind for kind, _ in read(printed, consumer)] == [tensor]


def test_backward_has_no_frames_and_may_be_several():
    twin = SIZES._replace(batch=1, length=1024)
    found = read("594.00 MiB", "other", "backward", twin)
    assert {kind for kind, _ in found} == {"logits", "weight"}


def test_an_exact_request_has_no_rounding_but_that_of_the_segment():
    size = 4 * 1024 * 151_936 * 4
    assert matches(size + MIB, "lm_head_or_loss", None, SIZES, printed=False)
    assert not matches(size - 1, "lm_head_or_loss", None, SIZES, printed=False)
    assert not matches(size + 2 * MIB, "lm_head_or_loss", None, SIZES, printed=False)


def test_tokens_to_three_digits():
    assert tokens_of(parse_size("4.64 GiB"), 151_936, 4) == 8200
    assert tokens_of(21 * MIB, 151_936, 4) == 0
