"""What the site adds to its pages: rules as data for its form, links, mathematics."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import deepnet_theory as dt

pytest.importorskip("mkdocs")
DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import site_hooks as site  # noqa: E402


def test_the_form_offers_what_the_engine_derives(monkeypatch):
    monkeypatch.setattr(site, "OPTIMIZERS", ("adamw", "sgd"))
    monkeypatch.setattr(site, "placements", lambda: ("post-ln", "res-post-ln"))
    entries = site.rules()
    assert len(entries) == 2 * 2 * len(site.CLOSURES)
    script = (DOCS / "choose.js").read_text(encoding="utf-8")
    readable = re.compile(re.search(r"if \(!/(.*?)/\.test\(formula\)\)", script)[1])
    for entry in entries:
        closure = entry["closure"] or None
        select = {"optimizer": entry["optimizer"], "placement": entry["placement"]}
        if "refused" in entry:
            with pytest.raises(dt.Refusal):
                dt.derive(**select, closure=closure)
            continue
        rule = dt.derive(**select, closure=closure).rule
        (row,) = entry["rule"]
        assert (row["alpha"], row["beta"]) == (rule.entries[0].alpha, rule.entries[0].beta)
        formulas = [row["alpha"], row["beta"], row["rate"], entry["eta"], *entry["beside"]]
        assert all(readable.fullmatch(formula) for formula in formulas)
    assert not readable.fullmatch("alert(N)") and not readable.fullmatch("M**(1/2)")


def shown(source: str, markdown: str) -> str:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=source))
    return site.on_page_markdown(markdown, page, None, None)


def test_links_of_the_tree_become_links_of_the_site():
    assert shown("findings/su/README.md", "[all](../README.md#x)") == "[all](../README.md#x)"
    assert shown("extending.md", "[why](docs/decisions/)") == "[why](decisions/README.md)"
    assert shown("findings/README.md", "[code](su/su_width.py) here") == "code here"
    assert (
        shown("schemes.md", "[m](../benchmarks/results/schemes.md)") == "[m](measured/schemes.md)"
    )
    assert (
        shown("index.md", "[a](choose.md), [b](nonsense.md)") == "[a](choose.md), [b](nonsense.md)"
    )


def test_figures_are_found_from_every_page():
    drawn = shown("measured/transfer.md", "![Loss.](../../docs/transfer.svg)")
    assert drawn == "![Loss.](../transfer.svg)"


def test_formulas_are_mathml():
    drawn = site.on_page_content(
        r'<p><span class="arithmatex">\(N^{1/2} &lt; M\)</span> and more</p>', None, None, None
    )
    assert (
        "<math" in drawn
        and "&#x0003C;" in drawn
        and "arithmatex" not in drawn
        and "and more" in drawn
    )
