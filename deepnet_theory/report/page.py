"""The report: one self-contained HTML page, from the question to its provenance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepnet_theory.report.figure import plot, power, predicted_words, rule_words
from deepnet_theory.report.html import (
    code,
    consequences_html,
    rule_html,
    steps_html,
    table,
    verdict_badge,
)
from deepnet_theory.report.outline import conclusion, depth_words, setting, title

if TYPE_CHECKING:
    from deepnet_theory.spec.constants import Constants
    from deepnet_theory.spec.verification import Verification
    from deepnet_theory.symbolic.derivation import Derivation

# Printing shows what is folded; browsers that know ::details-content do so from the style alone.
_UNFOLD = (
    "addEventListener('beforeprint',()=>document.querySelectorAll('details')"
    ".forEach(d=>d.open=true))"
)


def page(
    derivation: Derivation,
    verification: Verification,
    constants: Sequence[Constants],
    rivals: Sequence[Verification] = (),
    command: str = "",
) -> str:
    """The page; needs no network, reads on a phone, in the dark and on paper."""
    heading = title(derivation.selection)
    sections = (
        ("The question", _question(derivation)),
        ("The rule", _rule(derivation)),
        ("The measurement", measurement_html(verification, rivals)),
        ("The assumptions", _assumptions(derivation, verification)),
        ("The derivation", _derivation(derivation)),
        ("The constants", _constants(constants)),
        ("Using them", _use(constants)),
        ("Provenance", _provenance(verification, command)),
    )
    body = "\n".join(f"<section><h2>{name}</h2>\n{content}</section>" for name, content in sections)
    style = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(heading)}</title>\n<style>\n{style}</style>\n"
        f"<script>{_UNFOLD}</script></head>\n<body>\n"
        f"<header><h1>{escape(heading)}</h1>\n"
        f"<p>{_summary(derivation, verification)}</p></header>\n"
        f"{body}\n</body></html>\n"
    )


def _summary(derivation: Derivation, verification: Verification) -> str:
    measured = verification.exponents[0] if verification.exponents else None
    told = ""
    if measured is not None:
        told = (
            f" measured exponent of the model update in {escape(measured.variable)}: "
            f"{measured.estimate:+.3f} ({measured.low:+.3f} to {measured.high:+.3f})"
        )
        if measured.predicted is not None:
            told += f", predicted {predicted_words(measured.predicted, '')}"
        told += "."
    return (
        f"Derivation: {verdict_badge(derivation.verdict.value)}, given its assumptions. "
        f"Measurement: {verdict_badge(verification.verdict.value)};{told}"
    )


def _question(derivation: Derivation) -> str:
    rows = "".join(
        f"<dt>{escape(label)}</dt><dd><code>{code(value)}</code></dd>"
        for label, value in setting(derivation)
    )
    return (
        "<p>How must the residual multiplier α and the initialisation gain β of this network "
        "depend on its depth, so that one step of this optimizer changes the output by as much "
        f"at any depth?</p>\n<dl>{rows}</dl>"
    )


def _rule(derivation: Derivation) -> str:
    meaning = derivation.rule.meaning
    sentence = f"{meaning[0].upper()}{meaning[1:].rstrip('.')}." if meaning else ""
    remarks = "".join(f'<p class="soft">{escape(r)}</p>' for r in derivation.remarks)
    folded = (
        "<details><summary>Consequences "
        f'<span class="soft">sizes as powers of the depth</span></summary>\n'
        f"{consequences_html(derivation)}{remarks}</details>"
        if derivation.consequences
        else remarks
    )
    return f"{rule_html(derivation)}\n<p>{escape(sentence)}</p>\n{folded}"


def measurement_html(verification: Verification, rivals: Sequence[Verification] = ()) -> str:
    """The figures, the exponents with their verdicts, and the points."""
    measured = " (squares and diamonds, measured too)" if rivals else ""
    legend = (
        " Bars are 95% intervals over seeds; lines have the predicted slopes, solid for this rule, "
        f"dashed for other optimizers’ rules on the same network{measured}."
    )
    figures: list[str] = []
    for variable in dict.fromkeys(e.variable for e in verification.exponents):
        held = "" if len(verification.points[0].depth) == 1 else "; the other depth at its least"
        figures.append(
            f"<figure>{plot(verification, variable, rivals).svg}<figcaption>How far one step moves "
            f"the output, per token and in units of the learning rate, against {variable}{held}."
            f"{'' if figures else legend}</figcaption></figure>"
        )
    exponents = table(
        ["exponent", "verdict", "measured", "95% interval", "predicted"],
        [
            [
                escape(f"in {e.variable}, {e.share}"),
                verdict_badge(e.verdict.value),
                f"{e.estimate:+.4f}",
                f"{e.low:+.4f} to {e.high:+.4f}",
                predicted_words(e.predicted, "–"),
            ]
            for e in verification.exponents
        ],
        numbers=(2, 3, 4),
    )
    reasons = "".join(
        f'<p class="because">{escape(e.variable)}, {escape(e.share)}: {escape(_because(e))}.</p>'
        for e in verification.exponents
    )
    if len(verification.exponents) > 2:
        reasons = f"<details><summary>Why these verdicts</summary>{reasons}</details>"
    points = table(
        ["depth", "mean", "95% interval", "seeds"],
        [
            [
                escape(depth_words(p.depth)),
                f"{p.mean:.4g}",
                f"{p.low:.4g} to {p.high:.4g}",
                str(p.seeds),
            ]
            for p in verification.points
        ],
        numbers=(1, 2, 3),
    )
    warnings = "".join(f"<p>Warning: {escape(w)}</p>" for w in verification.warnings)
    return (
        f"{''.join(figures)}\n{exponents}\n{reasons}{warnings}{_rivals(rivals)}"
        f"<details><summary>The points</summary>{points}</details>"
    )


def _rivals(rivals: Sequence[Verification]) -> str:
    if not rivals:
        return ""
    rows = [
        [
            f"{escape(rule_words(r))}, in {escape(e.variable)}",
            verdict_badge(e.verdict.value),
            f"{e.estimate:+.4f}",
            f"{e.low:+.4f} to {e.high:+.4f}",
            predicted_words(e.predicted, "–"),
        ]
        for r in rivals
        for e in r.exponents
        if e.share == "all"
    ]
    seeds, draws = (rivals[0].measure.get(key) for key in ("seeds", "draws"))
    mixed = (
        '<p class="because">The output sums the shares of two parts: the larger power, which is '
        "predicted, shows only at depths at which its part dominates.</p>"
        if len(rivals[0].points[0].depth) > 1
        else ""
    )
    return (
        "<p>The rules of other optimizers, stepped by this one, are no part of the verdict above; "
        f"they were measured with {seeds} seeds of {draws} draws:</p>\n"
        + table(
            ["exponent", "its prediction", "measured", "95% interval", "predicted"],
            rows,
            numbers=(2, 3, 4),
        )
        + mixed
    )


def _because(exponent: Any) -> str:
    start = (
        ""
        if exponent.fitted_from is None
        else (f"fitted from {exponent.variable} = {exponent.fitted_from}; ")
    )
    rivals = ", ".join(f"{name} {power(e)}" for name, e in exponent.rivals)
    return f"{start}{exponent.because}" + (f"; other rules: {rivals}" if rivals else "")


def _assumptions(derivation: Derivation, verification: Verification) -> str:
    measured = {a.name: a for a in verification.assumptions}
    statements = {a.name: a.statement for a in derivation.assumptions}
    statements.update({a.name: a.statement for a in verification.assumptions if a.statement})
    rows = []
    for name, statement in statements.items():
        result = measured.get(name)
        verdict = "ASSUMED" if result is None else result.verdict.value
        because = "not measured" if result is None else result.because
        rows.append([escape(name), verdict_badge(verdict), escape(statement), escape(because)])
    return (
        "<p>The derivation is exact given these; each was measured on the same networks.</p>\n"
        + table(["assumption", "verdict", "statement", "measured"], rows, words=(2, 3))
    )


def _derivation(derivation: Derivation) -> str:
    return f"{steps_html(derivation)}\n<p>{escape(conclusion(derivation))}</p>"


def _constants(constants: Sequence[Constants]) -> str:
    rows = []
    multipliers = []
    several = any(len(c.parts) > 1 for c in constants)
    for c in constants:
        depth = ", ".join(f"{p.layers} {p.name}" for p in c.parts)
        for part in c.parts:
            by_value: dict[tuple[float, float], list[str]] = {}
            for s in part.sublayers:
                by_value.setdefault((s.alpha, s.beta), []).append(s.kind)
            for (alpha, beta), kinds in by_value.items():
                rows.append(
                    [escape(depth), *_owner(part.name, several), escape(", ".join(kinds)),
                     f"{alpha:.6g}", f"{beta:.6g}", f"{c.eta:.6g}"]
                )  # fmt: skip
            multipliers += [
                [escape(depth), *_owner(part.name, several), escape(role), f"{value:.6g}"]
                for role, value in part.multipliers.items()
                if value != 1
            ]
    whose = _owner("part", several)
    first = 2 + len(whose)
    content = table(
        ["layers", *whose, "sublayers", "α", "β", "factor on η"],
        rows,
        numbers=(first, first + 1, first + 2),
    )
    if multipliers:
        content += (
            "<p>Parameters that β does not reach move the output more than the matrices that the "
            "rule balances. These learning-rate multipliers give them the same weight:</p>"
            + table(["layers", *whose, "parameters", "multiplier"], multipliers, numbers=(first,))
        )
    return content


def _owner(part: str, several: bool) -> list[str]:
    return [escape(part)] if several else []


def _use(constants: Sequence[Constants]) -> str:
    chosen = constants[-1]
    snippet = (
        "from deepnet_theory.runtime import build, load_constants, parameter_groups\n\n"
        'constants = load_constants("constants.json")\n'
        "model = build(constants)  # a torch.nn.Module on token ids\n"
        "groups = parameter_groups(model, lr=1e-3)  # for a torch optimizer\n"
    )
    return (
        "<p>Save the constants as <code>constants.json</code>:</p>\n"
        f"<pre><code>{escape(snippet)}</code></pre>\n"
        "<p>A model of your own takes them with <code>deepnet_theory.runtime.apply_(model, "
        "constants)</code>, which changes it in place or refuses with the reason.</p>\n"
        "<details><summary>constants.json</summary>"
        f"<pre><code>{escape(chosen.to_json().rstrip())}</code></pre></details>"
    )


def _provenance(verification: Verification, command: str) -> str:
    rows = [("command", command)] if command else []
    rows += [(str(k), _shown(v)) for k, v in verification.measure.items()]
    rows += [("device", verification.device), ("seconds", f"{verification.seconds:.1f}")]
    rows += list(verification.versions.items())
    cells = "".join(f"<dt>{escape(k)}</dt><dd><code>{code(v)}</code></dd>" for k, v in rows if v)
    return f"<dl>{cells}</dl>"


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
