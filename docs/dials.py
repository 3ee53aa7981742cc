"""Writes the tables of docs/dials.md: for 8 times the batch, and powers of batch and shapes.

    python docs/dials.py [--check]

``--check`` only says whether the page is current. Nothing in its tables is typed in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from deepnet_theory.definitions.optimizer import OPTIMIZERS, optimizer
from deepnet_theory.definitions.selection import GRADIENT_NOISE, SHAPES, Selection
from deepnet_theory.sizes.batch import POWERS
from deepnet_theory.sizes.monomial import ONE, Monomial
from deepnet_theory.sizes.table import HEAD
from deepnet_theory.sizes.update import FULL, powers
from deepnet_theory.sizes.width import (
    Scale,
    places,
    role_table,
    row_of,
    rule_point,
    share,
    written,
)

PAGE = Path(__file__).parent / "dials.md"
HEADING = "## What each optimizer takes\n"
TEXT = """
The tables are made by `python docs/dials.py`, for the matrices of a layer. B is the new batch over
the old one. Each entry is a factor, and "-" stands where an optimizer has no such number. *Rate
with it*: where 1 − β takes its factor too, the learning rate takes this one. It differs where a sum
is not damped (torch's momentum) and where an update is taken of the average (Lion, LAMB, Muon). For
your own update: `derive --update "…" --across batch`. The best rate between the two tables:
`--curve`.
"""
REGIMES = {
    "dominant": "The batch is far below B_noise, so that noise dominates the gradient:",
    "none": "The batch is far above B_noise. Stability limits the rate, and more samples gain "
    "nothing:",
}
NAMES = ("learning rate", "weight decay", "coupled decay", "ε", "1 − β", "rate with it")
SHAPE_TEXT = """
## Heads, hidden units, tokens, experts, adapters

`derive --across heads|head-size|kv-heads|ffn|vocab|experts|top-k|rank` prints what each role takes
as one of these grows and the width stays, for any update; `--across width,ffn,experts,batch`
multiplies the powers. A role that is not in the table takes 1.

- h: heads of one size, queries, keys and values alike. k: the size of a head (`head-size`).
- G: key and value heads (`kv-heads`), at one number of query heads. Each is read by 1/G of these.
- m: hidden units (`ffn`), also of each expert. Half as wide experts, twice as many, and twice as
  many for a token: `--across ffn,experts,top-k`, with m halved and E and K doubled.
- V: tokens of the vocabulary.
- E: experts; a token takes as many as before. K: experts for a token (`top-k`), whose gates add up
  to one. A shared expert sees every token, as a dense feed-forward does: it takes 1 in E and in K.
- r: rank of an adapter BA with no factor in front (with α/r, B takes what A takes under Adam).

Rows and columns of a matrix grow apart in these only: in `ffn` for fc1, gate and fc2, in `heads`,
`head-size` and `kv-heads` for attention, in `vocab`, in `rank`, and in `experts` for the router. So
Muon's factor of the shape and LAMB's norms are in the table.

A map that gathers what grew, such as fc2, starts as 1/m. Aligned moves of all its inputs by one
then change its output by one. A start of m^(−1/2) is in use too: `--alignment none`. Each expert
and each token sees its share of the batch, so that their gradients fall, and ε with them. SGD
makes up for that in the rate, Adam and Muon do not need to. The powers are those of a batch above
B_noise. `--across experts,batch` has those below: there a group that sees the share s of the
tokens, K/E for an expert, takes s^((1+p)/2) besides, p the power of g in the update. That is √s
under Adam and Muon and s under SGD. B_noise by group says which it is
([measured](findings/width/README.md#width-experts-root)).

Across the width a router is read as the head is: initial size 1/d, learning rate 1/d under Adam.
"""
MORE_TEXT = """
## You have 4 times more experts

1. Give the numbers of the model that you tuned, and the shapes that it had. Other sizes may differ
   in the same command: `--base-shape experts=8,top-k=2,ffn=1024,vocab=32000,kv-heads=2`.

    ```sh
    deepnet-theory export --optimizer adamw --depth 12 --layer attention,ffn-swiglu@2/32 \\
      --base-shape experts=8 -o constants.json
    ```

2. Step your model with the tuned numbers. `parameter_groups` reads the factors of the file; with
   `base=(512, 12, {"experts": 8})` it takes a file without a base.

    ```python
    groups = parameter_groups(model, lr=3e-4, eps=1e-8, constants="constants.json")
    ```

3. Measure the noise of your gradient by group: `measure mymodel.py:make --noise`. Is your batch
   below B_noise of the experts? Export with `--batch 64 --base-batch 64`, with your own batches.
   The rates of experts then follow their share of the tokens.

Each factor below is what the constants have. Matrices start as they are built, of m inputs as
m^(−1/2). The weight decay of AdamW and Muon takes 1 over the factor of the learning rate. Every
role that is not in a row takes 1: attention, norms, a shared expert.
"""
MORE = {
    "4 times the experts": {"experts": 4.0},
    "4 times the experts, 4 times as many for a token": {"experts": 4.0, "top-k": 4.0},
    "the same, each a quarter as wide": {"experts": 4.0, "top-k": 4.0, "ffn": 0.25},
    "each expert 4 times as wide": {"ffn": 4.0},
    "4 times the vocabulary": {"vocab": 4.0},
    "a quarter of the key and value heads": {"kv-heads": 0.25},
}
PAPER_TEXT = """
## What is published, entry by entry

*Derived* is computed, and *agrees* compares it with the published entry. An entry is a factor of
Adam's learning rate. Entries are those of the abstracts. 2601.20205, 2508.09752 and 2605.15290 say
there that one rate works, or does not. The factors in their texts, and in 2605.14200, are not
compared. The rates of 2407.05872 are [on the page of the width](width.md).

One step on explicit matrices decides where papers differ, in a claim on each of these:

- [experts and granularity](findings/width/README.md#width-experts-finer), and the
  [noise of experts](findings/width/README.md#width-experts-root)
- [grouped keys and values](findings/width/README.md#width-gqa)
- [embedding against hidden](findings/width/README.md#width-embedding-vocab)
- [rank of an adapter](findings/width/README.md#width-adapter-rank)
"""
PAPERS: tuple[tuple[str, str, str, Callable[[], Monomial]], ...] = (
    ("2601.20205", "experts, at one share K/E", "1", lambda: taken("experts,top-k", "fc2")),
    ("2508.09752", "number of experts, under μP", "1", lambda: taken("experts", "fc2")),
    (
        "2508.09752",
        "granularity (units of an expert), under μP",
        "not 1",
        lambda: taken("ffn", "fc2"),
    ),
    ("2605.15290", "repetition of keys and values", "1", lambda: taken("kv-heads", "value")),
    (
        "2506.15025",
        "embedding over hidden, few tokens",
        "d",
        lambda: taken("width", "token-embedding") / taken("width", "fc1"),
    ),
    (
        "2506.15025",
        "embedding over hidden, large vocabulary",
        "d^(1/2)",
        lambda: taken("width", "token-embedding", "none") / taken("width", "fc1", "none"),
    ),
    ("2602.06204", "rank, no factor: B", "1/r", lambda: taken("rank", "lora-b")),
    (
        "2602.06204",
        "rank, factor α/r: B",
        "1",
        lambda: taken("rank", "lora-b") * Monomial.of("r") ** -powers(optimizer("adam"))["eta"],
    ),
    ("2606.12921", "rank, AdamW for each factor: B", "not 1", lambda: taken("rank", "lora-b")),
    (
        "2402.12354",
        "width, B over A",
        "not 1",
        lambda: taken("width,rank", "lora-b").put({"r": ONE}) / taken("width,rank", "lora-a"),
    ),
)
HEAD_TEXT = """
## Queries, keys and values: one matrix, or head by head

Under a polar factor or a norm the matrix that the optimizer sees decides the rate. The table has
the learning rate in powers of the width d, at a fixed head size. A head alone is a map from d
inputs to as many outputs at every width.

- **nanochat** steps `c_q`, `c_k` and `c_v` each as a whole: `muon`.
- **Megatron** splits a packed `linear_qkv` (`muon_split_qkv`, on by default) and steps queries,
  keys and values each as a whole, with √max(rows, columns) (`muon_scale_mode` "spectral"):
  `muon-moonlight`. "shape_scaling" is `muon`. A mode for each head (`muon_split_qkv_per_head`) is
  proposed there: the lower row.
- **DeepSpeed** steps the parameter that you give it as a whole: `muon`. With `num_heads` it steps
  each head alone, with √max(1, rows/columns) of the head, which is 1: the lower row. Multiply the
  rate of queries, keys and values by √(base width/width) there. `parameter_groups` does not do so
  by itself.
- **LAMB and LARS** take a norm of the matrix; a norm for each head changes no power of the width.

A packed matrix that is stepped as one takes the same powers of the width, but its gradient is
shared: see [packed queries, keys and values](apply.md).
"""
LARGER, TUNED = 8, ("adamw", "muon", "lamb", "lion", "sgd", "momentum")
FIRST = "| optimizer | learning rate | weight decay | ε | 1 − β | learning rate with it |\n"
SHOWN = ("adam", "sgd", "lamb", "muon")
BY_HEAD = ("muon", "muon-moonlight", "muon-spectral", "muon-plain", "lamb", "lars")


def section() -> str:
    """The headings, the texts and their tables."""
    batch = [HEADING + TEXT.rstrip(), *(line for n in GRADIENT_NOISE for line in table(n))]
    papers = [PAPER_TEXT, *published()]
    return "\n".join(
        [*batch, MORE_TEXT, *factors(), SHAPE_TEXT, *shapes(), *papers, HEAD_TEXT, *by_head()]
    )


def power(size: Monomial | None) -> str:
    """A size as a cell."""
    return "0" if size is None else written(size).replace("**", "^")


def taken(across: str, role: str, alignment: str = FULL) -> Monomial:
    """The learning rate of a role under Adam, in powers of a shape."""
    selection = Selection(optimizer="adam", layer="attention,ffn-swiglu@2/8")
    rate = role_table(selection, across, alignment).row(role).rate
    assert rate is not None
    return rate


def published() -> Iterator[str]:
    """A line for each published entry, with the derived one beside it."""
    yield from ("| arXiv | entry | published | derived | agrees |", "|---" * 5 + "|")
    for paper, entry, said, of in PAPERS:
        rate = power(of())
        agrees = rate != "1" if said == "not 1" else rate == said
        yield f"| {paper} | {entry} | {said} | {rate} | {'yes' if agrees else 'no'} |"


def factors() -> Iterator[str]:
    """A line for each change and role: rates above and below B_noise, and ε under AdamW."""
    names = ("adamw", "muon", "sgd")
    rates = " | ".join(f"{name}: rate | below B_noise" for name in names)
    yield from (f"| change | role | adamw: ε | {rates} |", "|---" * 9 + "|")
    for words, grown in MORE.items():
        scale, alike = Scale({"d": (1, 1)}, grown), dict[tuple[str, ...], list[str]]()
        cells: dict[str, list[str]] = {}
        for name in names:
            selection = Selection(optimizer=name, layer="attention,ffn-swiglu@2/8")
            of_batch = role_table(selection, "batch")
            for row in role_table(selection, ",".join(grown), built=True).rows:
                if row.place.is_matrix and row.role != "tied-head" and row.rate is not None:
                    seen = scale.ratio(share(",".join(grown), row.place))
                    power = of_batch.row(row.role).rate.exponent("B")
                    if name == "adamw":
                        cells[row.role] = [f"{scale.ratio(row.epsilon):.3g}"]
                    rate = scale.ratio(row.rate)
                    cells[row.role] += [f"{rate:.3g}", f"{rate * seen**power:.3g}"]
        for role, numbers in cells.items():
            alike.setdefault(tuple(numbers), []).append(role)
        for numbers, roles in alike.items():
            yield f"| {words} | {', '.join(roles)} | {' | '.join(numbers)} |"


def shapes() -> Iterator[str]:
    """A line for each shape and role: initial size, rates, and ε under Adam."""
    rates = " | ".join(f"{name}: rate" for name in SHOWN)
    yield from (f"| across | role | initial size | {rates} | adam: ε |", "|---" * 8 + "|")
    for across in SHAPES:
        tables = [
            role_table(Selection(optimizer=name, layer="attention,ffn-swiglu@2/8"), across).rows
            for name in SHOWN
        ]
        alike: dict[tuple[str, ...], list[str]] = {}
        for rows in zip(*tables, strict=True):
            first = rows[0]
            if first.place.is_matrix:
                cells = power(first.init), *(power(r.rate) for r in rows), power(first.epsilon)
                alike.setdefault(cells, []).append(first.role)
        for cells, roles in alike.items():
            yield f"| {across} | {', '.join(roles)} | {' | '.join(cells)} |"


def by_head() -> Iterator[str]:
    """The rate of queries in the width, stepped as a whole and head by head."""
    yield from (f"| stepped | {' | '.join(BY_HEAD)} |", "|---" * (len(BY_HEAD) + 1) + "|")
    whole, alone = [], []
    for name in BY_HEAD:
        selection = Selection(optimizer=name)
        roles = {place.role: place for place in places(selection)}
        point, query = rule_point(roles, FULL, "forward"), roles["query"]
        whole.append(power(row_of(query, point, selection, FULL).rate))
        head = replace(query, shape=HEAD)
        own = row_of(head, point, selection, FULL, Monomial.of("d") ** -1)
        alone.append(power(own.rate))
    yield from (f"| as a whole | {' | '.join(whole)} |", f"| head by head | {' | '.join(alone)} |")


def larger() -> Iterator[str]:
    """The factors of a larger batch, which noise dominates, for the matrices of a layer."""
    yield FIRST + "|---" * 6 + "|"
    for name in TUNED:
        row = role_table(Selection(optimizer=name, placement="pre-ln"), "batch").row("fc1")
        sizes = row.rate, row.decay, row.epsilon, row.memory, row.memory_rate
        cells = ("-" if s is None else f"× {s.at(B=LARGER):.3g}" for s in sizes)
        yield f"| {name} | {' | '.join(cells)} |"


def table(noise: str) -> Iterator[str]:
    """Optimizers of the same powers in one row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in OPTIMIZERS:
        selection = Selection(optimizer=name, placement="pre-ln")
        row = role_table(selection, "batch", gradient_noise=noise).row("fc1")
        sizes = tuple(getattr(row, power) for power, _ in zip(POWERS, NAMES, strict=True))
        cells = ("-" if s is None else str(s).replace("**", "^") for s in sizes)
        alike.setdefault(tuple(cells), []).append(name)
    yield from ("", REGIMES[noise], "", f"| optimizer | {' | '.join(NAMES)} |", "|---" * 7 + "|")
    for cells, names in alike.items():
        yield f"| {', '.join(names)} | {' | '.join(cells)} |"


def main() -> int:
    """Write the section, or say whether it is current."""
    old = PAGE.read_text(encoding="utf-8")
    before, _, after = old.partition(HEADING)[0].partition(FIRST)
    after = "\n".join(larger()) + "\n\n" + after.partition("\n\n")[2]
    new = f"{before}{after.rstrip()}\n\n{section()}\n"
    if "--check" in sys.argv[1:]:
        state = "current" if new == old else "stale: python docs/dials.py"
        print(f"docs/dials.md is {state}")
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
