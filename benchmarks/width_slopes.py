r"""What one update through each role moves against the width, under many updates.

    python benchmarks/width_slopes.py [--widths 128,256] [-o benchmarks/results/width.md]

For every update and parametrisation the exponent in d of each role's own output :math:`c\,\Delta W
x` and of the loss :math:`\langle g, \Delta W\rangle`, beside the derived one. Finished work is kept
in the user's cache, where the same command takes it up again. Half an hour on one core.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from arguments import output, whole, wholes

import deepnet_theory as dt
from deepnet_theory.definitions.measurement import Exponent, Result

UPDATES = (
    "sgd", "adam", "lamb", "lars", "adafactor", "muon", "muon-plain", "-eta*g/norm(g)",
    "-eta*sign(g)*abs(g)**(1/2)", "-eta*abs(theta)*sign(g)",
)  # fmt: skip
RULES = ("rule", "sp", "ntp")
NEAR = 0.1  # of the derived exponent
LOSS = " on the loss"
HEAD = """\
# One update through each role, against the width

The exponent in d of what one update through each role moves, measured (derived): a post-LN encoder
of {layers} layers, widths {widths}, {tokens} tokens, {seeds} seeds of {draws} draws. Made by
`{command}`.

Of {count} exponents {near} lie within {limit} of the derived one, {share:.1%}: {own} of the roles'
own outputs, {loss} of the loss.
"""
CAPTIONS = {
    "rule": "The derived rule",
    "sp": "Standard parametrisation, one learning rate",
    "ntp": "Neural tangent parametrisation, one learning rate",
}


def missed(exponent: Exponent) -> bool:
    """Whether the estimate is further from the derived exponent than it should be."""
    assert exponent.predicted is not None
    return not abs(exponent.estimate - exponent.predicted) <= NEAR


def cell(exponent: Exponent | None) -> str:
    """An exponent as a table has it; a miss is bold."""
    if exponent is None or exponent.predicted is None:
        return ""
    told = f"{exponent.estimate + 0.0:+.2f} ({exponent.predicted:g})"
    return f"**{told}**" if missed(exponent) else told


def tables(found: dict[str, dict[str, Result]], name: str) -> str:
    """A row a role, a column an update: their own outputs, then the loss."""
    columns = list(found)
    by = {update: {e.share: e for e in found[update][name].exponents} for update in columns}
    shares = list(dict.fromkeys(share for own in by.values() for share in own))
    rows = [f"| | {' | '.join(f'`{u}`' for u in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for share in sorted(shares, key=lambda share: share.endswith(LOSS)):
        cells = " | ".join(cell(by[update].get(share)) for update in columns)
        rows.append(f"| {'the loss by one update of all' if share == 'all' else share} | {cells} |")
    return f"## {CAPTIONS[name]}\n\n" + "\n".join(rows) + "\n"


def misses(found: dict[str, dict[str, Result]]) -> str:
    """Every miss with the reason that the laboratory gives."""
    rows = [
        f"- `{update}`, {CAPTIONS[name].lower()}, {e.share}: {e.estimate:+.3f} "
        f"({e.low:+.3f} to {e.high:+.3f}) for {e.predicted:g}; {e.verdict.value}: {e.because}"
        for update, by_rule in found.items()
        for name, v in by_rule.items()
        for e in v.exponents
        if missed(e)
    ]
    return "## Every miss\n\n" + ("\n".join(rows) or "None.") + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--widths", type=wholes, default=[128, 256, 512, 1024])
    parser.add_argument("--seeds", type=whole(2), default=8)
    parser.add_argument("--draws", type=whole(), default=2)
    parser.add_argument(
        "--updates", type=lambda text: text.split(";"), default=UPDATES, metavar="A;B",
        help="names or expressions, such as --updates='adam;-eta*g'",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=output)
    given = parser.parse_args()
    found: dict[str, dict[str, Result]] = {}
    for update in given.updates:
        first = dt.verify(
            update, across="width", widths=given.widths, rules=RULES, seeds=given.seeds,
            draws=given.draws, device="cpu", cache=True,
        )  # fmt: skip
        found[update] = dict(zip(RULES, (first, *first.others), strict=True))
        print(f"{update}: {first.provenance.seconds:.0f} s", file=sys.stderr)
    exponents = [e for by in found.values() for v in by.values() for e in v.exponents]
    near = [e for e in exponents if not missed(e)]

    def of(kind: bool) -> str:
        those = [e for e in exponents if e.share.endswith(LOSS) is kind and e.share != "all"]
        return f"{sum(not missed(e) for e in those)} of {len(those)}"

    measure = first.settings
    head = HEAD.format(
        layers=first.points[0].depth["N"], widths=", ".join(map(str, given.widths)),
        tokens=measure["tokens"], seeds=given.seeds, draws=given.draws, limit=NEAR,
        command=f"python benchmarks/{Path(__file__).name}", count=len(exponents), near=len(near),
        share=len(near) / len(exponents), own=of(False), loss=of(True),
    )  # fmt: skip
    page = "\n".join([head, *(tables(found, name) for name in RULES), misses(found)])
    if given.output:
        given.output.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
