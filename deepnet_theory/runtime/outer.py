r"""The outer parts of somebody's model: where the streams start, and the head.

The rules take a stream to start at rms 1: a token's row has it, a position's
:math:`1/\sqrt2` of that. Logits of variance v raise the loss by v/2 above ln V: a head is drawn
by Xavier's law, or smaller where v/2 is more than a share of ln V.

A tied matrix E, entries σ, serves both: the stream is multiplied in the forward pass, and the
logits by :math:`1/(d\sigma)`, since a token's own is :math:`E_t \cdot x/\sigma \approx d\sigma`:
condition (H) of the width, a move of the features by 1 moves the logits by 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn

from deepnet_theory.spec.constants import Constants
from deepnet_theory.spec.results.reading import Logits, Reading
from deepnet_theory.spec.sublayer import Role

NEAR_ONE = 2.0  # a stream's rms within this factor of 1 is what the rules take it to be
EXCESS = 0.04  # of ln V, at most, that a head is drawn to add to the loss at the start
LOSS = 0.05  # of ln V, at most, that the loss may begin above it
SMALL = 0.5  # of the size that a head is drawn at: below it, a head is small
OF_A_TOKEN = {True: 1.0, False: math.sqrt(1 / 2)}  # the size of a table's rows against a token's


def outer_draws(found: Reading, c: Constants) -> Iterator[tuple[str, str, float]]:
    """Each table and head to draw: parameter, what it is, deviation; no tied or normed table."""
    named: set[str] = set()
    for stack in found.starts:
        tables = [t for t in found.tables if t.stack == stack]
        if any(t.name in found.head for t in tables):
            continue
        unit = 1 / math.sqrt(sum(OF_A_TOKEN[t.of_inputs] ** 2 for t in tables) or 1.0)
        for t in tables:
            if t.name and t.name not in named and t.times:
                named.add(t.name)
                yield t.name, "rows", OF_A_TOKEN[t.of_inputs] * unit / abs(t.times)
    if found.logits is not None and not is_tied(found):
        yield found.logits.head.name, "head", head_std(found.logits, c)


def head_std(logits: Logits, c: Constants | None = None) -> float:
    """Xavier's deviation at the constants' gain, less where the base's loss would begin high."""
    head, gain, width = logits.head, 1.0, logits.head.fan_in
    if c is not None:
        gain = c.parameter(c.parts[-1].name, None, "head", Role.HEAD).gain
        base = c.origin.get("base")
        width = base.get("width", width) if isinstance(base, dict) else width
    xavier_raises = width / (width + head.fan_out) / logits.even  # v/2 over ln V
    less = min(1.0, math.sqrt(EXCESS / xavier_raises))
    return gain * head.xavier * less / max(1.0, head.times * logits.state)


def is_small(logits: Logits, c: Constants | None = None) -> bool:
    return logits.head.size < SMALL * head_std(logits, c)


def is_tied(found: Reading) -> bool:
    return found.logits is not None and any(t.name == found.logits.head.name for t in found.tables)


def near_one(size: float) -> bool:
    return 1 / NEAR_ONE < size < NEAR_ONE


def keep_padding(model: nn.Module, name: str) -> None:
    """Make the row of padding 0 again, where a table has one."""
    owner = model.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, nn.Embedding) and owner.padding_idx is not None:
        with torch.no_grad():
            owner.weight[owner.padding_idx] = 0.0


def lines_of_code(found: Reading, c: Constants) -> Iterator[str]:
    """What the forward pass itself must do, as code: no initial size does it."""
    for stack, size in found.starts.items():
        if "sum" in found.stacks[stack][0].around or near_one(size) or not size:
            continue
        if tables := [t for t in found.tables if t.stack == stack]:
            size = math.hypot(*(t.times * t.size for t in tables))  # of all rows, not the batch's
            where = "behind " + " + ".join(dict.fromkeys(t.name for t in tables if t.name))
        else:
            where = f"where the {stack} starts"
        if tables or found.embeddings:
            yield f"x = x * {1 / size:.4g}  # {where}"
    yield from lines_of_logits(found, c)
    if c.scores != 1:
        yield f"scores = scores * {c.scores:.4g}  # beside 1/sqrt(head size)"
    logits = found.logits
    if logits is not None and "sum" in found.sublayers[-1].around and is_small(logits, c):
        yield (
            f"start_head_(head, counts)  # the bias of a head as small as {logits.head.name}, from "
            "the text's token counts"
        )


def lines_of_logits(found: Reading, c: Constants) -> Iterator[str]:
    """The numbers that logits are multiplied by in the forward pass."""
    logits, tied, times, before = found.logits, is_tied(found), multiplier_of(c), "before the loss"
    if tied and logits is not None and is_high(logits, _with_lines(found, logits.loss_at_one, c)):
        own = _of_a_token(found)
        if not _near(own, 1.0):
            base = ", at the base too" * (times != 1)
            yield f"logits = logits * {1 / own:.4g}  # {before}{base}: a token's own is {own:.3g}"
    elif times != 1 and _lacks_multiplier(found, c):
        rows = ", of rows as large as its own" * tied
        yield f"logits = logits * {times:.4g}  # {before}, as the base asks{rows}"


def multiplier_of(c: Constants) -> float:
    r"""What the logits of a model of one's own are multiplied by, relative to the base.

    By condition (H) :math:`m\,d\,\eta` stays, η the step of the head's entries. The rows of a tied
    matrix keep one size σ, brought to 1 in the forward pass: its step is the base's, and mdσ stays.
    """
    base = c.origin.get("base")
    if not (c.architecture.tied_head and c.outer and isinstance(base, dict)):
        return c.head_multiplier
    width = c.architecture.width
    return c.head_multiplier * math.sqrt(base.get("width", width) / width)


def _of_a_token(found: Reading) -> float:
    """The logit that a token's own row has of a tied head: mdσ times the rms of what enters."""
    logits = found.logits
    return logits.head.size * logits.state * logits.head.fan_in if logits is not None else 0.0


def _near(value: float, aim: float) -> bool:
    return math.isclose(value, aim, rel_tol=0.01)


def _lacks_multiplier(found: Reading, c: Constants) -> bool:
    """Whether the code multiplies the logits neither as the base asks nor to a token's own of 1."""
    logits = found.logits
    if logits is None:
        return True
    settled = is_tied(found) and _near(_of_a_token(found), 1.0)
    return not settled and not _near(logits.head.times, multiplier_of(c))


def _with_lines(found: Reading, loss: float, c: Constants) -> float:
    """A loss at the start once the multiplier of a base is written: v/2 falls as its square."""
    if found.logits is None or not _lacks_multiplier(found, c):
        return loss
    return found.logits.even + (loss - found.logits.even) * multiplier_of(c) ** 2


def starts_high(found: Reading, c: Constants) -> bool:
    """Whether the loss starts too high even once the multiplier of a base is written."""
    logits = found.logits
    return logits is not None and is_high(logits, _with_lines(found, logits.loss, c))


def is_high(logits: Logits, loss: float) -> bool:
    """Whether a loss at the start lies above ln V by more than a head drawn right may make it."""
    chance = 3 * math.sqrt(2 / logits.head.fan_out)  # the logits' variance over V outputs
    return loss > (1 + LOSS * (1 + chance)) * logits.even
