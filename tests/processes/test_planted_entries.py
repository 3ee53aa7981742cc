"""Whatever lies in the cache's folder and is no entry of ours is as if it were not there."""

import copy
import hashlib
import os
import pickle
import sys
from dataclasses import fields, is_dataclass, replace

import pytest

import deepnet_theory as dt
from deepnet_theory.cli import main
from deepnet_theory.processes import MISSING, Cache

SIZES = {"width": 8, "heads": 2, "tokens": 4, "seeds": 2, "draws": 1, "device": "cpu"}


def entries(folder):
    """Every entry of a cache, by name."""
    return sorted(folder.glob("[0-9a-f][0-9a-f]/*"))


def plant(file, content):
    """Write content under a digest that is right."""
    file.write_bytes(hashlib.sha256(file.name.encode() + content).digest() + content)


def a_link(file, beside):
    file.unlink()
    file.symlink_to(beside)


def a_dangling_link(file, beside):
    a_link(file, beside.with_name("nowhere"))


def a_pipe(file, beside):
    file.unlink()
    os.mkfifo(file)


def a_folder(file, beside):
    file.unlink()
    file.mkdir()


def a_linked_folder(file, beside):
    file.parent.rename(beside.with_name("moved"))
    file.parent.symlink_to(beside.with_name("moved"))


NO_FILES = [a_link, a_dangling_link, a_pipe, a_folder, a_linked_folder]


@pytest.mark.timeout(20)
@pytest.mark.skipif(os.name == "nt", reason="there are no named pipes")
@pytest.mark.parametrize("made", NO_FILES)
def test_what_is_no_regular_file_is_neither_read_nor_written_through(tmp_path, made):
    cache, beside = Cache(tmp_path / "cache"), tmp_path / "beside"
    cache.put("asked", 1)
    (file,) = entries(cache.folder)
    beside.write_bytes(file.read_bytes())  # an entry that would be good, elsewhere
    made(file, beside)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and p != file}
    assert cache.get("asked") is MISSING
    assert not list(cache.files())
    assert main(["cache", "clear", "--cache", str(cache.folder)]) == 0
    assert file.is_symlink() or file.exists()  # it is not ours to remove
    cache.put("asked", 2)
    if made in (a_folder, a_linked_folder):
        assert cache.get("asked") is MISSING and "finished work is not kept" in cache.trouble
    else:
        assert cache.get("asked") == 2 and file.is_file() and not file.is_symlink()
    assert before == {p: p.read_bytes() for p in before}


def test_an_entry_of_another_name_and_a_linked_mark_answer_nothing(tmp_path):
    cache = Cache(tmp_path / "cache")
    cache.folder.mkdir()
    (cache.folder / "CACHEDIR.TAG").symlink_to(tmp_path / "outside")
    cache.put("one", 1)
    (one,) = entries(cache.folder)
    assert cache.get("one") == 1 and not (tmp_path / "outside").exists()
    cache.put("two", 2)
    (two,) = set(entries(cache.folder)) - {one}
    two.write_bytes(one.read_bytes())
    assert cache.get("two") is MISSING and cache.get("one") == 1


@pytest.mark.parametrize("word", ["show", "clear"])
def test_showing_and_clearing_leave_what_is_not_ours(tmp_path, word, capsys):
    cache = Cache(tmp_path / "cache")
    for number in range(3):
        cache.put(number, number)
    first, second, third = entries(cache.folder)
    outside = tmp_path / "outside" / "00"
    outside.mkdir(parents=True)
    (outside / third.name).write_text("theirs")
    (cache.folder / "zz").mkdir()
    (cache.folder / "zz" / third.name).write_text("theirs")
    spare = next(n for n in ("00", "01", "02", "03") if not (cache.folder / n).exists())
    (cache.folder / spare).symlink_to(outside)
    a_link(first, outside / third.name)
    assert main(["cache", word, "--cache", str(cache.folder)]) == 0
    assert "2 results" in capsys.readouterr().out
    assert (outside / third.name).read_text() == "theirs" and first.is_symlink()
    assert (cache.folder / "zz" / third.name).exists()
    assert second.exists() is third.exists() is (word == "show")


class Endless:
    """Not a result, and worse to those who read it."""

    def __reduce__(self):
        return sys.exit, (130,)


CONTENTS = [
    pickle.dumps(value)
    for value in (None, 7, "x", b"", [], {}, (), {"x": [float("nan")]}, [[[]]], Endless(), KeyError)
]
CONTENTS += [b"", b"cdeepnet_theory.__main__\nrun\n.", b"\x80\x05.", b"(lp0\n0.", b"\x80\xff."]


def other_forms(value):
    """Values of the same type as ``value``, or nearly so, with another number of things inside."""
    match value:
        case dict():
            return [{}, {**value, "more": 1}, {f"other {k}": v for k, v in value.items()}]
        case list() | tuple() if type(value) in (list, tuple):
            return [type(value)(other) for other in ((), value[1:], [*value, *value])]
        case float():
            return ["x", None]
    if not is_dataclass(value):
        return []
    changed, lacking = copy.copy(value), copy.copy(value)
    changed.__dict__["to_dict"] = 1
    del lacking.__dict__[fields(value)[0].name]
    others = [{field.name: o} for field in fields(value)
              for o in other_forms(getattr(value, field.name))]  # fmt: skip
    return [changed, lacking, *(replace(value, **other) for other in others)]


class Asked(Cache):
    """A cache that remembers what it was asked for."""

    def get(self, *question):
        vars(self).setdefault("questions", []).append(question)
        return super().get(*question)


ASKED = {
    "verified": lambda cache: dt.verify("adam", [1, 2], cache=cache, updates=2, **SIZES),
    "predicted": lambda cache: dt.predict_update("adam", [1, 2], cache=cache, **SIZES),
    "trained": lambda cache: dt.train(
        dt.export("adam", depth=1, width=8, heads=1),
        steps=2, batch=1, tokens=4, seeds=2, cache=cache,
    ),
    "transferred": lambda cache: dt.transfer(
        "adam", [1], [1e-3, 2e-3, 4e-3], ["complete"], steps=1, batch=1, cache=cache,
        **{name: SIZES[name] for name in SIZES if name != "draws"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_planted_entry_of_another_form_is_none(tmp_path, name):
    cache = Asked(tmp_path)
    ASKED[name](cache)
    for question in cache.questions:
        file = cache._file(question[0])
        whole, sound = file.read_bytes(), Cache.get(cache, *question)
        # a run that ended early has no loss; whatever is the same once more is no other form
        forms = (o for o in other_forms(sound) if getattr(o, "held_out", 0) is not None)
        others = {pickle.dumps(form, protocol=5) for form in forms} - {whole[32:]}
        for content in (*CONTENTS, *sorted(others)):
            plant(file, content)
            assert Cache.get(cache, *question) is MISSING, content[:60]
        file.write_bytes(whole)
        assert Cache.get(cache, *question) == sound
