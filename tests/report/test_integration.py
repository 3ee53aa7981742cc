"""What continuous integration reads of an audit says what the audit says, whatever is in it."""

import re
from dataclasses import replace
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepnet_theory.definitions.audit import DIFFERENCE, REMARK, Audit, Finding
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.definitions.reading import Line, Reading
from deepnet_theory.report.audit import answer, document
from deepnet_theory.report.integration import NO_XML, github, junit

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LINES = st.none() | st.builds(Line, TEXTS, st.integers(1, 999), TEXTS)
FINDINGS = st.builds(
    Finding, TEXTS, TEXTS, st.just(2.0), TEXTS, st.sampled_from([DIFFERENCE, REMARK]), LINES
)


def audited(model="mine.py:make", findings=(), verdict=Verdict.REFUTED, notes=()):
    return Audit(
        model, Reading((), (), {}, notes=tuple(notes)), placement=None, optimizer=None,
        against="gpt-2", detail="", follows=None, alike=(), sublayers=(),
        findings=tuple(findings), remarks=(), plan=(), verdict=verdict,
    )  # fmt: skip


@given(TEXTS, st.lists(FINDINGS, max_size=3))
def test_junit_is_parsed_to_the_findings(model, findings):
    suite = ElementTree.fromstring(junit(audited(model, findings)))
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases[1:]] == [NO_XML.sub("?", f.where) for f in findings]
    failed = [case for case in cases[1:] if case.find("failure") is not None]
    wrong = [f for f in findings if f.severity == DIFFERENCE]
    assert [c.find("failure").get("message") for c in failed] == [
        NO_XML.sub("?", f.what) for f in wrong
    ]
    assert int(suite.get("tests")) == len(cases) == 1 + len(findings)
    assert int(suite.get("failures")) == 1 + len(wrong) == len(suite.findall("*/failure"))
    assert [c.get("line") for c in cases[1:]] == [f.line and str(f.line.number) for f in findings]


# as GitHub's toolkit writes a command: properties without : and , and nothing of several lines
COMMAND = re.compile(r"::(error|warning|notice) ((?:\w+=[^:,\r\n]*,?)+)::([^\r\n]*)")


@given(TEXTS | TEXTS.map("{}.py:make".format), st.lists(FINDINGS, max_size=3))
def test_an_annotation_is_one_line_and_is_read_back(model, findings):
    lines = github(audited(model, findings)).split("\n")
    read = [COMMAND.fullmatch(line).groups() for line in lines]
    assert [level for level, *_ in read[1:]] == [
        "error" if f.severity == DIFFERENCE else "notice" for f in findings
    ]
    for (_, properties, data), finding in zip(read[1:], findings, strict=True):
        place = dict(pair.split("=", 1) for pair in properties.split(","))
        assert unquote(place["title"]) == f"{model}: {finding.where}"
        assert unquote(data) == f"{finding.what}\n{finding.mend}".strip()
        file = finding.line.file if finding.line else model.rpartition(":")[0]
        named = finding.line or file.endswith(".py")  # without a line it is at the model's file
        assert ("file" in place) == bool(named) and (not named or unquote(place["file"]) == file)
        assert place.get("line") == (finding.line and str(finding.line.number))


def test_each_verdict_has_its_outcome():
    outcomes = {Verdict.SUPPORTED: ("system-out", "notice"), Verdict.REFUTED: ("failure", "error"),
                Verdict.UNDECIDED: ("error", "warning")}  # fmt: skip
    for verdict, (tag, level) in outcomes.items():
        audit = audited(verdict=verdict, notes=["a stream of its own"])
        (case,) = ElementTree.fromstring(junit(audit))
        assert case[0].tag == tag and "a stream of its own." in case[0].text
        assert github(audit).startswith(f"::{level} ")


def test_gains_are_a_range_over_the_layers_beside_the_expected_one():
    def layer(low, high):
        matrix = {"role": "fc1", "low": low, "high": high, "wanted": 0.5}
        alpha = {"alpha": 3.0, "alpha_on": "stream", "alpha_wanted": 2.0}
        return {"layer": 0, "stack": "encoder", "kind": "ffn", **alpha, "matrices": [matrix]}

    audit = replace(audited(), sublayers=(layer(0.4, 0.6), layer(0.3, 0.55)))
    (table,) = next(part.body for part in document(audit).body[1:] if part.title == "Gains")
    fc1, alpha = ("fc1", "0.3 to 0.6", "0.5"), ("alpha of the stream", "3", "2")
    assert table.rows == tuple(("encoder ffn", *row) for row in (alpha, fc1))


@pytest.mark.parametrize("optimizer", [None, "adamw"])
def test_what_a_model_is_held_against_depends_on_what_was_asked(optimizer):
    nearest = "rule" if optimizer else "scheme or rule (no optimizer was given)"
    for scheme, said in ((None, f"difference from the nearest {nearest}, "), ("gpt-2", None)):
        _, rest = answer(replace(audited(), optimizer=optimizer, scheme=scheme))
        assert said in rest if said else "nearest" not in rest
    assert repr(audited()) == "<Audit of mine.py:make; REFUTED>"
