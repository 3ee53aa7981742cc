"""The HTML page and its figure, from results made by hand; rendered where Chromium is installed."""

import math
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from base64 import b64decode
from dataclasses import replace
from html import unescape
from itertools import pairwise

import pytest

from deepnet_theory.cli.deriving import derive, export
from deepnet_theory.cli.experiments import verify_width
from deepnet_theory.cli.reporting import made_on
from deepnet_theory.definitions import __version__
from deepnet_theory.definitions.constants import Constants, PartConstants, SublayerConstants
from deepnet_theory.definitions.measurement import (
    AssumptionResult,
    Exponent,
    Level,
    MeasuredShare,
    Point,
    Verification,
)
from deepnet_theory.definitions.outcome import InputError, Verdict
from deepnet_theory.report import measurement, one_page
from deepnet_theory.report.document import (
    SIGNED,
    Document,
    Figure,
    Mark,
    Paragraph,
    Series,
    composed,
    interval,
    number,
    power,
    true_signs,
)
from deepnet_theory.report.html import fragment, page
from deepnet_theory.report.latex import latex
from deepnet_theory.report.markdown import markdown
from deepnet_theory.report.measurement import along, shares_figure, update_figure
from deepnet_theory.report.svg import LEFT, drawn
from deepnet_theory.report.text import live, text

from .test_pages import balanced


def loglog(marks):
    return drawn(Figure((Series("s", marks),), (), "N", "y")).svg


@pytest.fixture(scope="module")
def verification():
    points = tuple(
        Point({"N": n}, 10 * n**0.01, 9.0, 11.5, 4, (10.0,) * 4) for n in (4, 8, 16, 32, 64)
    )
    exponent = Exponent(
        "N", "all", 0.01, -0.01, 0.03, 0.0, Verdict.SUPPORTED, "inside <0.05>", 8,
        (("adam", -0.5), ("sgd", -0.25), ("same", 0.0)),
    )  # fmt: skip
    return Verification(
        select={}, measure={"data": "text", "width": 64, "seed": 0}, rule={"name": "lamb"},
        points=points, exponents=(exponent,),
        assumptions=(AssumptionResult("near-identity", Verdict.REFUTED, 1.0, 0.9, 1.1, "S r²"),),
        verdict=Verdict.SUPPORTED, device="cpu", seconds=1.5, versions={"torch": "2.13"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def constants():
    part = PartConstants(
        "encoder", 50, False, (SublayerConstants("ffn", 1.0, 0.125),), {"norm-gain": 0.5}
    )
    return Constants("encoder", "post-ln", "layer", (part,))


@pytest.fixture(scope="module")
def html(derivation, verification, constants):
    told = one_page.document(
        derivation.at(N=50), verification, [constants], command="deepnet-theory <x>"
    )
    return page(told)


def test_the_page_is_whole_and_alone_and_its_first_screen_has_the_numbers(html):
    count = balanced(html)
    assert count["h2"] == 7 and count["svg"] == 1 and count["details"] >= 4
    # nothing is fetched: the only addresses are names of notations, never loaded
    addresses = set(re.findall(r"https?://[^\s\"'<]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    assert "&lt;x&gt;" in html and "inside &lt;0.05&gt;" in html
    assert re.search(r"near-identity</td><td><span class=\"verdict REFUTED\">", html)
    (header,) = re.findall(r"<header>.*?</header>", html, re.S)
    assert "50 encoder" in header and ">0.125<" in header and "β multiplies" in header
    # PROVED is said with its bound, and by no colour
    assert "PROVED</span> (an upper bound up to a constant factor)" in header
    style = html[: html.index("</style>")]
    assert ".SUPPORTED {" in style and ".PROVED" not in style
    made = made_on()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", made["date"])
    assert made["deepnet-theory"] == __version__ and "CPUs" in made["machine"]


def saved(html):
    """The files that the page offers, by name."""
    found = re.findall(
        r'<a download="([^"]+)" href="data:application/json;base64,([^"]+)">\1</a>', html
    )
    return {name: b64decode(data).decode() for name, data in found}


def test_the_data_is_saved_and_not_printed(html, verification, constants):
    files = saved(html)
    assert list(files) == ["constants.json", "derivation.json", "verification.json"]
    assert files["verification.json"] == verification.to_json()
    assert files["constants.json"] == constants.to_json()
    assert '"schema"' not in html and "deepnet-theory/" not in html
    style = html[: html.index("</style>")]
    # a link on paper would carry all of the data with it
    assert ".files { display: none; }" in style[style.index("@media print") :]


def test_several_depths_and_rivals_are_files_of_their_own(derivation, verification, constants):
    (part,) = constants.parts
    deeper = replace(constants, parts=(replace(part, layers=100),))
    rival = replace(verification, rule={"name": "sgd, plain"})
    told = one_page.document(derivation, verification, [constants, deeper], [rival])
    files = saved(page(told))
    assert {"constants-50.json", "constants-100.json", "verification-sgd-plain.json"} < set(files)
    assert 'build("constants-100.json")' in unescape(page(told))
    assert "Files in the HTML page: constants-50.json (" in " ".join(text(told).split())


def test_on_paper_long_sections_are_closed_and_all_others_open(html):
    style = html[: html.index("</style>")]
    paper = style[style.index("@media print") :]
    assert "details:not(.long)::details-content { content-visibility: visible" in paper
    assert "querySelectorAll('details:not(.long)')" in html  # browsers without ::details-content
    body = html[html.index("</header>") :]
    steps = re.findall(r'<details class="long">.*?</details>', body, re.S)
    assert steps and sum(s.count('class="step"') for s in steps) == body.count('class="step"')
    assert "Points" in body and not any("Points" in s for s in steps)
    assert "--steps</span>" in body  # where they are told in full


def test_the_verdict_of_a_proof_never_stands_without_its_bounds(
    derivation, verification, constants
):
    first, *rest = derivation.steps
    named = ("near-identity", "linear-step")
    given = replace(derivation, steps=(replace(first, assumptions=named), *rest))

    def told(names):
        found = tuple(
            AssumptionResult(n, Verdict.SUPPORTED, 1.0, 0.9, 1.1)
            if n in names
            else AssumptionResult(n, Verdict.ASSUMED, None, None, None, because="not measured")
            for n in named
        )
        measured = replace(verification, assumptions=found)
        return " ".join(text(one_page.document(given, measured, [constants])).split())

    bounded = "PROVED (an upper bound up to a constant factor), given 2 assumptions. Measurement:"
    assert bounded in told(named)
    assert "each was measured" in told(named) and "not measured" not in told(named)
    assert "1 of 2 were measured" in told(named[:1]) and "not measured" in told(named[:1])


def test_formulas_among_words_are_set_in_html():
    def told(words):
        return fragment(Document("", (Paragraph(words),), (), ())).removeprefix("<div><p>")

    for typed, shown in {
        "-eta*norm(theta)*sign(g)": "−η·norm(θ)·sign(g)",
        "beta = (2*N)**(-1/2), eta^1": "β = (2·N)<sup>−1/2</sup>, η<sup>1</sup>",
        "goes as N^(1/2), 1/sqrt(2*N).": "goes as N<sup>1/2</sup>, 1/√(2·N).",
        "GROWS as N^−0.49 (95 %: −0.5 to 1).": "GROWS as N<sup>−0.49</sup> (95 %: −0.5 to 1).",
        "rho = |dW|/(eta*|W|)": "ρ = |dW|/(η·|W|)",
    }.items():
        assert told(typed).startswith(f"{shown}</p>"), typed
    for words in ("post-ln, learning-rate", "*.mlp.* of eta.py", "a well-known beta-test"):
        assert told(words).startswith(f"{words}</p>")


def test_growth_in_words_has_no_signed_zero(verification):
    (e,) = verification.exponents
    flat = replace(e, estimate=-0.001, low=-0.0004, high=0.003, constant=True)
    assert flat.trend == "is CONSTANT in N, exponent 0.00 (95 %: 0.000 to 0.003), as predicted"
    grown = replace(e, estimate=0.49, low=0.47, high=0.51, predicted=0.5)
    assert grown.trend == "GROWS as N^0.49 (95 %: 0.470 to 0.510), as predicted"
    wrong = replace(grown, predicted=-0.001, verdict=Verdict.REFUTED)
    assert wrong.trend.endswith("; N^0.00 was predicted")


def test_the_predicted_size_is_a_band_a_column_and_a_second_verdict(
    derivation, verification, constants
):
    assert 'class="band"' not in drawn(update_figure(verification)).svg
    points = tuple(
        replace(p, predicted=9.75, predicted_low=9.5, predicted_high=10.25)
        for p in verification.points
    )
    level = Level({"N": 8}, 1.3, 1.28, 1.32, Verdict.REFUTED, "at 8 [1.28, 1.32] of it")
    found = replace(verification, points=points, level=level)
    figure = update_figure(found, rivals=(replace(found, rule={"name": "sgd"}),))
    svg = drawn(figure).svg
    assert 'class="band"' in svg and 'class="band other-band"' in svg
    for told in (measurement.document(found), one_page.document(derivation, found, [constants])):
        shown = " ".join(text(told).split())
        assert "against single sublayers: at 8 [1.28, 1.32] of it: REFUTED" in shown
        assert "9.75" in shown and "9.5 to 10.25" in shown
    assert found.verdict is Verdict.SUPPORTED  # another question
    assert found.to_dict()["level"]["verdict"] == "REFUTED"
    assert found.to_dict()["points"][0]["predicted"] == 9.75


def test_the_snippet_runs(html, tmp_path, monkeypatch):
    (snippet,) = (unescape(b) for b in re.findall(r"<pre><code>(.*?)</code></pre>", html, re.S))
    (tmp_path / "constants.json").write_text(saved(html)["constants.json"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(snippet, found)
    assert found["model"] is not None and found["groups"]


def test_the_figure_has_a_line_a_slope_and_all_points(verification):
    root = ElementTree.fromstring(verification.plot().svg)
    assert len(root.findall("{*}circle")) == 5
    kinds = [p.get("class") for p in root.findall("{*}path")]
    assert (kinds.count("own"), kinds.count("rival")) == (1, 2)  # "same" has no line of its own
    words = " ".join(root.itertext())
    assert "slope −1/2" in words and "slope −1/4" in words and "flat" in words


def test_what_each_kind_moves_is_a_table_and_a_figure(verification):
    kinds = (("attention value", 75.0, 74.0), ("attention key_bias", 5e-9, 4e-9),
             ("ffn fc1", 157.0, 93.0))  # fmt: skip
    shares = tuple(
        MeasuredShare("encoder", name, m, m / 1.02, m * 1.02, p, p / 1.01, p * 1.01,
                      m / p, m / p / 1.02, m / p * 1.02)
        for name, m, p in kinds
    )  # fmt: skip
    found = replace(verification, shares=shares)
    told = text(measurement.document(found))
    assert "Stepped alone, at N = 64" in told
    assert re.search(r"ffn fc1 +157 +153.9 to 160.1 +93 +1.688$", told, re.MULTILINE)
    assert max(map(len, told.splitlines())) <= 80
    (figure,) = shares_figure(found)
    root = ElementTree.fromstring(drawn(figure).svg)
    # what is moved by rounding alone is no point; the line is where the two agree
    names = [c.findtext("{*}title", "") for c in root.findall("{*}circle")]
    assert [n.split(" at ")[0] for n in names] == ["attention value", "ffn fc1"]
    (line,) = (p.get("d", "") for p in root.findall("{*}path") if p.get("class") == "own")
    x1, y1, x2, y2 = (float(n) for n in re.findall(r"[\d.]+", line))
    value, fc1 = ([float(c.get(k, "")) for k in ("cx", "cy")] for c in root.findall("{*}circle"))
    assert value[1] == pytest.approx(y1, abs=3) and value[0] == pytest.approx(x1, abs=0.3)
    assert fc1[0] == pytest.approx(x2, abs=0.3) and fc1[1] < y2 - 30  # higher than predicted
    # each point is named in the margin, at the end of a line from it, and no name is cut
    words = [t.text for t in root.findall("{*}text")]
    assert {"attention value", "ffn fc1"} < set(words)
    assert [p.get("class") for p in root.findall("{*}path")].count("lead") == 2
    assert "93" not in words  # the ticks are round, not the points'
    assert shares_figure(verification) == ()
    several = replace(found, shares=(*shares, replace(shares[0], part="decoder")))
    assert "decoder attention value" in text(measurement.document(several))
    for printer in (markdown, latex, fragment):
        assert "ffn fc1" in printer(measurement.document(found))


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_points_that_cannot_be_drawn_are_left_out(value):
    marks = (Mark(4, 1, 0.9, 1.1), Mark(8, value, value, value))
    svg = loglog(marks)
    assert svg.count("<circle") == 1 and not re.search(r"\b(nan|inf)\b", svg)
    below_zero = loglog((Mark(4, 1, -0.5, 1.1),))
    assert below_zero.count("<circle") == 1
    assert "no finite point" in loglog(marks[1:])


def test_of_two_depths_one_is_held_and_those_that_grow_together_are_all_shown():
    def kept(pairs, name):
        points = [Point({"N": n, "M": m}, 1.0, 0.9, 1.1, 2) for n, m in pairs]
        return [tuple(p.depth.values()) for p in along(points, name)]

    assert kept([(8, 8), (16, 8), (8, 16), (8, 4)], "M") == [(8, 4), (8, 8), (8, 16)]
    assert kept([(16, 16), (8, 8), (4, 4)], "N") == [(4, 4), (8, 8), (16, 16)]
    assert along([], "N") == []


def test_rivals_have_their_own_points_and_lines(verification):
    rivals = []
    for name, power_ in (("sgd", 0.5), ("adam", -0.5), ("plain", 1.5)):
        points = tuple(
            replace(p, mean=20 * (p.depth["N"] / 8) ** power_, low=1.0, high=90.0)
            for p in verification.points
        )
        told = None if name == "plain" else power_  # far from the identity no law predicts it
        exponent = replace(verification.exponents[0], estimate=power_, predicted=told, rivals=())
        rivals.append(
            replace(
                verification, rule={"name": name}, points=points, exponents=(exponent,),
                warnings=("S*r^2 grows",),
            )
        )  # fmt: skip
    svg = verification.plot(rivals=tuple(rivals)).svg
    root = ElementTree.fromstring(svg)
    assert len(root.findall("{*}circle")) == 5
    lines = [p.get("class") for p in root.findall("{*}path")]
    assert [lines.count(k) for k in ("other", "other other-2", "other other-3")] == [5, 5, 5]
    # the predicted slopes are those of what was measured, each through its own points
    assert [k for k in lines if k and k.split()[0] in ("own", "rival")] == [
        "own", "rival", "rival rival-2"
    ]  # fmt: skip
    assert "α = β = 1" in [t.text for t in root.findall("{*}text")]
    for shape, line in (("other", "rival"), ("other other-2", "rival rival-2")):
        mark = next(r for r in root.findall("{*}path")
                    if r.get("class") == shape and " at 8:" in "".join(r.itertext()))  # fmt: skip
        at = [float(n) for n in re.findall(r"[\d.]+", mark.get("d", ""))[:2]]
        (path,) = [p for p in root.findall("{*}path") if p.get("class") == line]
        x1, y1, x2, y2 = (float(n) for n in re.findall(r"[\d.]+", path.get("d", "")))
        assert at[1] == pytest.approx(y1 + (y2 - y1) * (at[0] - x1) / (x2 - x1), abs=0.3)
    told = text(measurement.document(verification, rivals))
    assert re.search(r"rule of sgd, in N +SUPPORTED +\+0.5000", told)
    assert re.search(r"α = β = 1, in N +- +\+1.5000", told)
    assert max(map(len, told.splitlines())) <= 80
    assert told.splitlines()[-1].startswith("SUPPORTED")  # the rule's own verdict comes last
    why_not = "No slope is predicted of α = β = 1: S*r^2 grows."
    assert why_not in " ".join(told.split()) and told.count("No slope is predicted") == 1


def fits(svg):
    """Whether all labels end inside the picture at a phone's size, and lie one below the other."""
    root = ElementTree.fromstring(svg)
    width = float(root.get("viewBox", "").split()[2])
    told = [t for t in root.findall("{*}text") if "label" in (t.get("class") or "")]
    ends = [float(t.get("x", "")) + 7.4 * len(t.text or "") for t in told]
    heights = sorted(float(t.get("y", "")) for t in told)
    apart = all(b - a >= 12 for a, b in pairwise(heights))
    titles = [t.text or "" for t in root.findall("{*}text") if t.get("class") == "title"]
    return apart and max(ends) <= width and all(LEFT + 8 * len(t) <= width for t in titles)


def test_no_label_is_cut_by_the_border(verification):
    long = replace(
        verification,
        rule={"name": "momentum, schedule-free"},
        select={"placement": "sandwich-ln", "stack": "encoder-decoder", "optimizer": "adafactor"},
    )
    own = {**long.select, "optimizer": None, "update": "-eta*g" * 20}
    for rivals in ((), (replace(long, rule={"name": "sgd, plain"}),)):
        assert fits(drawn(update_figure(long, rivals=rivals)).svg)
    svg = drawn(update_figure(replace(verification, select=own))).svg
    assert fits(svg) and "eta*g" not in svg and "update given" in svg
    assert not fits(svg.replace("rule of adam", "the rule of another optimizer"))


def test_numbers_have_true_signs_and_zero_has_none():
    shown = [number(value, SIGNED) for value in (0.25, -0.25, 0.0, -0.00001, None)]
    assert shown == ["+0.2500", "−0.2500", "0.0000", "0.0000", "-"]
    assert [number(v) for v in (-3.5, 1e-7, 0.0, -0.0)] == ["−3.5", "1e−07", "0", "0"]
    assert number(None, missing="none") == "none"
    assert interval(-0.5, -0.00001, "+.3f") == "−0.500 to 0.000"
    none = [(None, 1.0), (1.0, None), (1.0, math.inf), (-math.inf, 1.0), (math.nan, math.nan)]
    assert {interval(*ends) for ends in none} == {"-"}
    slopes = [power(e) for e in (0, 0.5, -0.25, 1.0)]
    assert slopes == ["flat", "slope +1/2", "slope −1/4", "slope +1"]
    told = true_signs("[-0.000, +0.041] inside +0 ± 0.05, N^-0.5, in 1e-05 of arXiv 14-60")
    assert told == "[0.000, +0.041] inside 0 ± 0.05, N^−0.5, in 1e-05 of arXiv 14-60"


def test_a_verification_by_every_printer_and_in_three_lines(derivation, verification, constants):
    told = measurement.document(verification)
    thrice = verification.exponents * 3  # their reasons fold
    several = replace(verification, exponents=thrice, warnings=("a planted warning",))
    whole = one_page.document(derivation, several, [constants])
    pages = []
    for printer in (text, markdown, latex, fragment):
        shown = printer(whole)
        assert "Why these verdicts" in shown and "a planted warning" in shown
        pages.append(printer(told))
        assert "Points" in pages[-1] and "Warnings" not in pages[-1]  # which has nothing to say
    balanced(pages[-1])
    for shown in pages:
        for said in ("near-identity", "REFUTED", "0.0100", "inside", "cpu, 1.5 s", "−1/4"):
            assert said in shown.replace("$-$", "−"), (said, shown)
    assert "−0.0100" in pages[0] and "-0.0100" not in pages[0]
    assert max(map(len, pages[0].splitlines())) <= 80
    assert pages[0].splitlines()[-1] == "SUPPORTED (cpu, 1.5 s)"
    assert "N = 64" in pages[0] and "\x1b" not in pages[0]
    lines = repr(verification).splitlines()
    assert len(lines) == 3 and max(map(len, lines)) < 110
    assert (
        "SUPPORTED" in lines[1]
        and "exponent 0.01 (95 %: −0.010 to 0.030), as predicted" in lines[1]
    )
    assert len(repr(replace(verification, points=(), exponents=())).splitlines()) == 3
    with live("x", quiet=True) as seen:  # where nobody watches
        assert seen == {"progress": None}


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no Chromium is installed")


def run_browser(*arguments):
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    done = subprocess.run(
        [browser(), *flags, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def faults(html, folder, width, scheme="light"):
    """What a browser finds amiss at this width, as JSON; and nothing may reach the console."""
    # headless windows have a least width, so the page is put into a frame of the width wanted
    measure = """
      const d = document.querySelector('iframe').contentDocument, r = [];
      d.querySelectorAll('details').forEach(e => e.open = true);
      const w = d.documentElement.clientWidth;
      if (d.documentElement.scrollWidth > w) r.push('page ' + d.documentElement.scrollWidth);
      for (const e of d.querySelectorAll('section > *, svg, .equation'))
        if (e.getBoundingClientRect().right > w + 1) r.push(e.tagName + ' ' + e.className);
      for (const e of d.querySelectorAll('math, .wide, pre, dd'))
        if (e.clientWidth && e.scrollWidth > e.clientWidth + 1)
          r.push(e.tagName + ' is clipped ' + e.scrollWidth + ' ' + e.textContent.slice(0, 40));
      for (const e of d.querySelectorAll('math'))
        if (e.getBoundingClientRect().height < 4) r.push('empty formula');
      document.title = 'measured';
      document.body.dataset.found = JSON.stringify(r);
    """
    (folder / "page.html").write_text(html, encoding="utf-8")
    (folder / "frame.html").write_text(
        f'<body style="margin:0"><iframe src="page.html" style="border:0;width:{width}px;'
        f'height:2000px"></iframe><script>addEventListener("load",()=>{{{measure}}})</script></body>',
        encoding="utf-8",
    )
    flags = ["--allow-file-access-from-files", "--enable-logging=stderr", "--log-level=0"]
    flags += ["--force-dark-mode"] if scheme == "dark" else []
    shown = run_browser(*flags, "--dump-dom", f"file://{folder / 'frame.html'}")
    assert "CONSOLE" not in shown
    found = re.search(r'data-found="([^"]*)"', shown)
    assert found is not None
    return unescape(found[1])


LONG = [
    {"optimizer": "sgd", "method": "lemma"},
    {"optimizer": "adam", "method": "lemma", "stack": "encoder-decoder"},
    {"optimizer": "lamb"},
]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark", *LONG], ids=str)
def test_in_a_browser(html, verification, tmp_path, width, scheme):
    """Nothing is wider than the page, no formula is empty or clipped, the console is silent."""
    if isinstance(scheme, dict):
        made = derive(**scheme)
        depth = [12] * len(made.selection.the_stack.parts)
        html = page(one_page.document(made, verification, [export(made, depth)]))
    assert faults(html, tmp_path, width, str(scheme)) == "[]"


@pytest.mark.slow
def test_a_planted_overflow_is_seen(html, tmp_path):
    planted = re.sub(r"--wide:[\d.]+", "--wide:1", html).replace("clamp(", "max(40px,")
    assert planted != html
    assert "is clipped" in faults(planted, tmp_path, 390)


@pytest.mark.slow
def test_on_paper(verification, constants, tmp_path):
    """At most six pages of A4, of a whole derivation with all that a report says beside it."""
    made = derive(optimizer="adam")
    kinds = [f"{s} {m}" for s in ("attention", "ffn") for m in ("query", "key", "value", "output")]
    found = replace(
        verification,
        shares=tuple(
            MeasuredShare("encoder", name, 7.0, 6.9, 7.1, 7.0, 6.9, 7.1, 1.0, 0.9, 1.1)
            for name in kinds
        ),
    )
    html = page(one_page.document(made, found, [constants] * 2, [found] * 3))
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    pdf = tmp_path / "page.pdf"
    run_browser(f"--print-to-pdf={pdf}", f"file://{tmp_path / 'page.html'}")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes())) <= 6


def test_a_plot_is_written_as_what_it_is(tmp_path):
    plot = drawn(Figure((Series("s", (Mark(8, 1.0, 0.9, 1.1),)),), (), "N", "y"))
    plot.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text(encoding="utf-8").startswith("<svg")
    for name in ("x.png", "x.pdf", "x.html"):
        with pytest.raises(InputError, match=r"ends in \.svg"):
            plot.save(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["x.svg"]


def test_across_the_width_a_page_counts_what_is_as_predicted_by_parametrisation():
    found = verify_width(
        "adam", [16, 32, 64], rules=("rule", "sp"), tokens=2, seeds=2, draws=1, device="cpu",
        processes=1,
    )  # fmt: skip
    shown = text(composed(found))
    for words in (
        "the derived rule: ", "parametrisation sp: ", "in d, fc1", "in d, fc1 on the loss",
        f"of {len(found.exponents)} exponents as predicted", "2 tokens",
    ):  # fmt: skip
        assert words in shown
    assert "‖ΔF‖" not in shown and "The loss by one update" in repr(found)
    assert "N = 2, d = 16 to N = 2, d = 64" in repr(found)
    svg = found.plot().svg
    assert "d, width" in svg and "change of the loss" in svg
