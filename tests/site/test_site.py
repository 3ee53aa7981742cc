"""What the site adds to its pages: rules as data for its form, links, mathematics."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import deepnet_theory as dt
from deepnet_theory.definitions.scheme import SCHEMES
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.report.html import math
from deepnet_theory.report.notation import formula_latex
from deepnet_theory.sizes.answer import Answer

pytest.importorskip("mkdocs")
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
import site_hooks as site  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402


def test_the_form_offers_what_the_engine_derives(monkeypatch):
    monkeypatch.setattr(site, "OPTIMIZERS", ("adamw", "sgd"))
    monkeypatch.setattr(site, "PLACEMENTS", ("post-ln", "pre-ln"))
    entries = site.rules()
    assert len(entries) == 2 * 2 * len(site.NORMS) * len(site.LAYERS)
    script = (DOCS / "choose.js").read_text(encoding="utf-8")
    readable = re.compile(re.search(r"if \(!/(.*?)/\.test\(formula\)\)", script)[1])
    for entry in entries:
        select = {name: entry[name] for name in ("placement", "norm", "layer", "optimizer")}
        answer = Answer(Selection(**select))
        rules = (answer.rule, answer.source.rule)[: len(entry["rows"])]
        assert "recommended for training" in entry["rows"][0]["named"], "it stands first"
        for shown, rule in zip(entry["rows"], rules, strict=True):
            for row, own in zip(shown["rule"], rule.entries, strict=True):
                assert (row["alpha"], row["beta"], row["rate"]) == (own.alpha, own.beta, own.rate)
                formulas = [row["alpha"], row["beta"], row["rate"], shown["eta"], *shown["beside"]]
                assert all(readable.fullmatch(formula) for formula in formulas)
        for group in entry["widths"]:
            assert all(readable.fullmatch(group[k]) for k in ("init", "multiplier", "rate"))
    assert any(len(entry["rows"][1:]) and len(entry["rows"][1]["rule"]) > 1 for entry in entries)
    assert not readable.fullmatch("alert(N)") and not readable.fullmatch("M**(1/2)")
    closures = {entry["optimizer"]: entry["closure"] for entry in entries}
    assert closures["adamw"] == "complete" and all(e["words"]["placement"] for e in entries)


def test_the_form_multiplies_depth_and_width_as_export_does():
    select = {"optimizer": "shampoo", "placement": "pre-ln", "layer": "attention,ffn:swiglu"}
    groups = site.widths(Selection(**select))
    rates = {role: group["rate"] for group in groups for role in group["roles"]}
    made = dt.export(**select, depth=12, width=512, base=128)
    exported = {name: p.rate for s in made.parts[0].sublayers for name, p in s.parameters.items()}
    assert len(rates.keys() & exported.keys()) == 5
    for role in rates.keys() & exported.keys():
        alone, wide, tuned = (eval(rates[role], {"N": 12, "d": d}) for d in (1, 512, 128))
        assert alone * wide / tuned == pytest.approx(exported[role]), role


def shown(source, markdown):
    page = SimpleNamespace(file=SimpleNamespace(src_uri=source), meta={})
    return site.on_page_markdown(markdown, page, None, None)


def test_links_of_the_tree_become_links_of_the_site():
    assert shown("findings/su/README.md", "[all](../README.md#x)") == "[all](../README.md#x)"
    assert shown("extending.md", "[why](docs/decisions/)") == "[why](decisions/README.md)"
    assert shown("findings/README.md", "[code](su/su_width.py) here") == "code here"
    measured = shown("schemes.md", "[m](../benchmarks/results/schemes.md)")
    assert measured == "[m](measured/schemes.md)"
    left = "[a](choose.md), [b](nonsense.md)"
    assert shown("index.md", left) == left
    drawn = shown("measured/transfer.md", "![Loss.](../../docs/transfer.svg)")
    assert drawn == "![Loss.](../transfer.svg)"


def content(source, html):
    from mkdocs_jupyter.plugin import NotebookFile  # a second and more

    made = [File(to, None, "site", False) for to in site.sources()]
    files = Files(
        [NotebookFile(f, False, "site") if f.src_uri.endswith(".ipynb") else f for f in made]
    )
    page = SimpleNamespace(file=files.get_file_from_path(source))
    return site.on_page_content(html, page, None, files)


def test_the_files_that_pages_name_are_there():
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    rooms = [ROOT, *(ROOT / room for room in ("deepnet_theory", "docs", "tests", "benchmarks"))]
    whole = "\n".join(page.read_text("utf-8") for page in pages)
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", whole))
    assert len(named) > 10
    assert [f for f in sorted(named) if not any((room / f).exists() for room in rooms)] == []


def test_links_of_a_notebook_lead_to_pages():
    drawn = content(
        "notebooks/2_the_probe.ipynb",
        '<a href="3_the_lemma_route.ipynb">next</a>, <a href="../docs/apply.md#x">asked</a>, '
        '<a href="../benchmarks/results/transfer.md">seen</a>, <a href="nano_gpt.py">code</a>, '
        '<a href="https://arxiv.org/abs/2203.00555">paper</a>, <a href="#here">here</a>',
    )
    assert drawn == (
        '<a href="3_the_lemma_route.html">next</a>, <a href="../apply.html#x">asked</a>, '
        '<a href="../measured/transfer.html">seen</a>, code, '
        '<a href="https://arxiv.org/abs/2203.00555">paper</a>, <a href="#here">here</a>'
    )


def test_formulas_are_mathml_and_powers_raised_in_words_alone():
    drawn = content(
        "apply.md", r'<p><span class="arithmatex">\(N^{1/2} &lt; M\)</span> and more</p>'
    )
    assert all(said in drawn for said in ("<math", "&#x0003C;", "and more"))
    assert "arithmatex" not in drawn
    drawn = content("apply.md", "<p>N^(-1/2) of x_{l+1}, λ_vλ_o in norm_gain <code>N^2</code></p>")
    assert drawn == (
        "<p>N<sup>−1/2</sup> of x<sub>l+1</sub>, λ<sub>v</sub>λ<sub>o</sub> in norm_gain "
        "<code>N^2</code></p>"
    )


def test_every_scheme_has_a_page_that_its_table_leads_to(monkeypatch):
    few = {name: SCHEMES[name] for name in ("deepnorm", "deepnorm-glm", "t-fixup")}
    monkeypatch.setattr(site.gallery, "SCHEMES", few)
    pages = site.gallery.pages()
    assert set(pages) == {f"schemes/{name}.md" for name in few}
    table = shown("schemes.md", (DOCS / "schemes.md").read_text(encoding="utf-8"))
    for name, scheme in few.items():
        page = pages[f"schemes/{name}.md"]
        assert f"](schemes/{name}.md)" in table
        drawn = math(formula_latex(scheme.equation))
        assert (f"`{scheme.equation}`" if "\nRefused: " in page else drawn) in page
        assert scheme.source.split(";")[0] in page
    assert "<td>encoder</td><td>N<sup>1/2</sup></td>" in pages["schemes/deepnorm.md"]
    assert "deepnorm-glm" not in pages["schemes/deepnorm.md"]  # not the rows of its namesakes
    assert "<td>decoder</td><td>M<sup>1/2</sup></td>" in pages["schemes/t-fixup.md"]


def test_every_fault_has_a_page_that_its_row_leads_to(monkeypatch):
    page = shown("faults.md", (DOCS / "faults.md").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| \[(.+?)\]\((.+?)\) \|", page, re.M)
    assert rows == [(f.title, f"faults/{f.name}.md") for f in site.faults.FAULTS]
    assert len({site.faults.source(fault) for fault in site.faults.FAULTS}) == len(rows)
    monkeypatch.setattr("deepnet_theory.models.effect.MOST", 0)
    few = tuple(f for f in site.faults.FAULTS if f.name == "packed-not-scaled")
    monkeypatch.setattr(site.faults, "FAULTS", few)
    monkeypatch.setattr(site.faults, "LAYERS", 2)
    (scaled,) = site.faults.pages().values()
    assert "REFUTED" in scaled and "value" in scaled
    (diff,) = re.findall(r"```diff\n(.*?)```", scaled, re.S)
    assert "(1.0, 1.0, 1.0)" in re.search(r"^-.*$", diff, re.M)[0], "the fault is red"
    assert "(1.0, 1.0, beta)" in re.search(r"^\+.*$", diff, re.M)[0], "what mends it is green"


def test_a_fault_that_no_audit_sees_stops_the_site():
    harmless = site.faults.Fault("harmless", "", (("TOKENS = 64, 4, 16", "TOKENS = 64, 4, 8"),))
    with pytest.raises(AssertionError, match="harmless is not seen"):
        site.faults._said(harmless)


def test_every_page_is_in_the_navigation_or_in_a_gallery():
    listed = set(re.findall(r"[\w./-]+\.(?:md|ipynb)", (ROOT / "mkdocs.yml").read_text("utf-8")))
    own = {page for page in site.sources() if page.startswith("decisions/")}  # has its own list
    assert {*site.sources()} - own <= listed
