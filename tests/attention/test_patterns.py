"""The static patterns: which cells they see, and which sizes they refuse."""

import math

import pytest
import torch
from attention.common import qkv

from forecast.attention.fixed import FixedAttention
from forecast.attention.logsparse import LogSparseAttention
from forecast.attention.strided import StridedAttention

# Rows are steps, columns keys, 16 of each.
# the plain pattern; local attention with the default window of 4; a restart every 8 steps with a window of 1
LOGSPARSE = """
#...............  #...............  #...............
##..............  ##..............  ##..............
###.............  ###.............  ###.............
.###............  ####............  ####............
#.###...........  #####...........  #.###...........
.#.###..........  ######..........  .#.###..........
..#.###.........  #######.........  ..#.###.........
...#.###........  ########........  ...#.###........
#...#.###.......  .#.######.......  #...#.###.......
.#...#.###......  ..#.######......  ##...#.###......
..#...#.###.....  ...#.######.....  ###...#.###.....
...#...#.###....  #...#.######....  .###...#.###....
....#...#.###...  .#...#.######...  #.###...#.###...
.....#...#.###..  ..#...#.######..  .#.###...#.###..
......#...#.###.  ...#...#.######.  ..#.###...#.###.
.......#...#.###  ....#...#.######  ...#.###...#.###
"""
# blocks of 4: the local part, the distant part, the distant part when not causal
STRIDED = """
#...............  #...............  #...#...#...#...
##..............  .#..............  .#...#...#...#..
###.............  ..#.............  ..#...#...#...#.
####............  ...#............  ...#...#...#...#
.####...........  #...#...........  #...#...#...#...
..####..........  .#...#..........  .#...#...#...#..
...####.........  ..#...#.........  ..#...#...#...#.
....####........  ...#...#........  ...#...#...#...#
.....####.......  #...#...#.......  #...#...#...#...
......####......  .#...#...#......  .#...#...#...#..
.......####.....  ..#...#...#.....  ..#...#...#...#.
........####....  ...#...#...#....  ...#...#...#...#
.........####...  #...#...#...#...  #...#...#...#...
..........####..  .#...#...#...#..  .#...#...#...#..
...........####.  ..#...#...#...#.  ..#...#...#...#.
............####  ...#...#...#...#  ...#...#...#...#
"""
FIXED = """
#...............  #...............  #..#...#...#...#
##..............  .#..............  .#.#...#...#...#
###.............  ..#.............  ..##...#...#...#
####............  ...#............  ...#...#...#...#
....#...........  ...##...........  ...##..#...#...#
....##..........  ...#.#..........  ...#.#.#...#...#
....###.........  ...#..#.........  ...#..##...#...#
....####........  ...#...#........  ...#...#...#...#
........#.......  ...#...##.......  ...#...##..#...#
........##......  ...#...#.#......  ...#...#.#.#...#
........###.....  ...#...#..#.....  ...#...#..##...#
........####....  ...#...#...#....  ...#...#...#...#
............#...  ...#...#...##...  ...#...#...##..#
............##..  ...#...#...#.#..  ...#...#...#.#.#
............###.  ...#...#...#..#.  ...#...#...#..##
............####  ...#...#...#...#  ...#...#...#...#
"""


def drawn(text):
    """The pictures side by side in a text, each (16, 16)."""
    return [
        torch.tensor([[cell == "#" for cell in row] for row in picture])
        for picture in zip(*(line.split() for line in text.split("\n")[1:-1]), strict=True)
    ]


def allowed(kind, length, *, causal=True, **sizes):
    return kind(causal=causal, layer=0, **sizes).allowed(length)


def test_logsparse_at_16_steps_sees_exactly_these_cells():
    sizes = [{"window": 1}, {}, {"sub_len": 8, "window": 1}]
    for size, picture in zip(sizes, drawn(LOGSPARSE), strict=True):
        assert torch.equal(allowed(LogSparseAttention, 16, **size), picture)
        both_ways = allowed(LogSparseAttention, 16, causal=False, **size)
        assert torch.equal(both_ways, picture | picture.T)


@pytest.mark.parametrize("kind, text", [(StridedAttention, STRIDED), (FixedAttention, FIXED)])
def test_strided_and_fixed_at_16_steps_see_exactly_these_cells(kind, text):
    local, distant, distant_both_ways = drawn(text)
    assert torch.equal(allowed(kind, 16, heads="per_head"), torch.stack((local, distant)))
    assert torch.equal(allowed(kind, 16), local | distant)
    both_ways = torch.stack((local | local.T, distant_both_ways))
    assert torch.equal(allowed(kind, 16, causal=False, heads="per_head"), both_ways)
    assert torch.equal(allowed(kind, 16, causal=False), both_ways.any(0))


@pytest.mark.parametrize(
    "kind, length, count, longest_row",
    [
        (StridedAttention, 16, 82, 7),
        (StridedAttention, 96, 1329, 19),
        (StridedAttention, 100, 1405, 19),
        (FixedAttention, 16, 64, 7),
        (FixedAttention, 96, 930, 18),
        (FixedAttention, 100, 1000, 19),
    ],
)
def test_causal_cells_per_pattern_and_per_row(kind, length, count, longest_row):
    merged = allowed(kind, length)
    assert (merged.sum(), merged.sum(1).max()) == (count, longest_row)


def test_summaries_stop_growing_with_the_block():
    """An eighth of the block without a bound would be L / 8 keys a step."""
    longer = allowed(FixedAttention, 1600, causal=False)
    assert (longer.sum(1) == 40 + 39 * 4).all()


@pytest.mark.parametrize("length, count", [(16, 3), (96, 9), (100, 9)])
def test_rows_before_the_first_summary_of_fixed_attention_see_themselves(length, count):
    distant = allowed(FixedAttention, length, heads="per_head")[1]
    summary = torch.arange(length) % (count + 1) == count
    assert distant.diagonal().all()
    assert int(((distant & summary).sum(1) == 0).sum()) == count


@pytest.mark.parametrize(
    "length, sub_len, density, longest_row",
    [(96, 96, 0.25, 14), (96, 48, 0.35, 24), (336, 64, 0.23, 70), (720, 96, 0.17, 111)],
)
def test_share_of_the_past_that_logsparse_sees(length, sub_len, density, longest_row):
    mask = allowed(LogSparseAttention, length, sub_len=sub_len)
    assert round(float(mask.sum()) / (length * (length + 1) / 2), 2) == density
    assert mask.sum(1).max() == longest_row


def test_a_logsparse_restart_includes_the_step_it_restarts_from():
    """flow-forecast leaves it out: row 50 of 96 steps restarts at step 2."""
    assert allowed(LogSparseAttention, 96, sub_len=48)[50, :3].all()


@pytest.mark.parametrize("length, layers", [(8, 3), (64, 6), (96, 6), (720, 9)])
def test_so_many_layers_of_plain_logsparse_reach_the_whole_past(length, layers):
    mask = allowed(LogSparseAttention, length, window=1)
    assert mask.sum(1).max() <= math.floor(math.log2(length)) + 2
    past = torch.ones(length, length).tril() > 0
    reached = mask
    for _ in range(layers - 1):
        assert not torch.equal(reached, past)
        reached = (reached.float() @ mask.float()) > 0
    assert torch.equal(reached, past)
    assert layers <= math.floor(math.log2(length)) + 1


@pytest.mark.parametrize("length", [16, 50, 96, 97])
def test_two_layers_of_strided_and_of_fixed_reach_the_whole_past(length):
    past = torch.ones(length, length).tril() > 0
    local, distant = allowed(StridedAttention, length, heads="per_head").float()
    assert torch.equal((local @ distant) > 0, past)
    merged = allowed(FixedAttention, length).float()
    assert torch.equal((merged @ merged) > 0, past)


@pytest.mark.parametrize(
    "kind, sizes, message",
    [
        (LogSparseAttention, {"sub_len": 4, "window": 5}, "window=5 and sub_len=4; window must be at most sub_len"),
        (FixedAttention, {"block": 4, "summary": 5}, "summary=5 in blocks of 4 steps; summary must be at most"),
    ],
)
def test_a_size_that_fits_no_length_is_refused_when_built(kind, sizes, message):
    with pytest.raises(ValueError, match=message):
        kind(causal=True, layer=0, **sizes)


@pytest.mark.parametrize(
    "kind, sizes, message",
    [
        (LogSparseAttention, {"sub_len": 12}, "LogSparse attention got sub_len=12 on a sequence of 11 steps"),
        (LogSparseAttention, {"window": 12}, "window must be at most the sequence length 11 here .a distilled encoder"),
        (StridedAttention, {"window": 12}, "strided attention got window=12 on a sequence of 11 steps"),
        (FixedAttention, {"block": 12}, "block must be at most the sequence length 11 here .a distilled encoder"),
        (FixedAttention, {"summary": 5}, "fixed attention got summary=5 in blocks of 4 steps"),
    ],
)
def test_a_size_larger_than_the_sequence_is_refused_wherever_a_length_is_known(kind, sizes, message):
    mechanism = kind(causal=True, layer=0, **sizes)
    q, k, v = qkv(11, 11)
    for call in (
        lambda: mechanism(q, k, v),
        lambda: mechanism.allowed(11),
        lambda: mechanism.last_rows(q, k, v, length=11),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    # the length that counts is the one the sequence will have
    assert mechanism.last_rows(q, k, v, length=30).isfinite().all()
