"""Files: nothing half-written, nothing replaced that is no regular file, one sentence otherwise."""

import json
import os
import stat
from pathlib import Path

import pytest

from deepnet_theory.definitions.files import read_text, require_writable, write_text
from deepnet_theory.definitions.outcome import InputError

posix = pytest.mark.skipif(os.name == "nt", reason="modes, links and pipes of POSIX")


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_text(path, "old")

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(InputError, match="No space left"):
        write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@posix
def test_a_file_keeps_its_mode_under_any_name_and_with_any_text(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "new", "new")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == 0o640
    told = json.dumps({"corpus": "book\udcff.txt"}, ensure_ascii=False)  # no text
    for name, kept in (("a" * 255, 0o600), ("é" * 127, 0o644), ("b", 0o664), ("c", 0o755)):
        path = tmp_path / name
        path.write_text("old", encoding="utf-8")
        path.chmod(kept)
        write_text(path, told)
        assert json.loads(path.read_text(encoding="utf-8")) == json.loads(told)
        assert mode(path) == kept


@posix
def test_a_link_keeps_pointing_and_its_target_is_written(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "a.json", tmp_path / "link"
    link.symlink_to(target)
    for content in ("made", "replaced"):  # first through a link to what is not there yet
        write_text(link, content)
        assert link.is_symlink() and target.read_text(encoding="utf-8") == content
        assert require_writable(link) == target
    assert [p.name for p in target.parent.iterdir()] == ["a.json"]


@posix
def test_a_device_and_a_pipe_are_written_to_and_not_replaced(tmp_path):
    before = Path(os.devnull).stat()
    write_text(os.devnull, "new")
    assert os.path.samestat(Path(os.devnull).stat(), before)
    with pytest.raises(InputError, match="No space left"):
        write_text("/dev/full", "new")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(held, 100) == b"through" and stat.S_ISFIFO(pipe.lstat().st_mode)
    os.close(held)


IMPOSSIBLE = {
    "none/a.json": "the folder does not exist",
    "read-only/a.json": "Not a directory",
    ".": "it is a folder",
    "read-only": "it is read-only",
    "loop": "symbolic links",
    "a" * 300: "too long",
    "a\0b": "null",
    "": "give the name of a file",
    " ": "give the name of a file",
}


@posix
def test_what_cannot_be_written_is_one_sentence_before_and_when(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("read-only").write_text("old", encoding="utf-8")
    Path("read-only").chmod(0o444)
    Path("loop").symlink_to("loop")
    for path, why in IMPOSSIBLE.items():
        for attempt in (require_writable, lambda p: write_text(p, "new")):
            with pytest.raises(InputError, match=rf"^cannot write .*{why}"):
                attempt(path)
    assert Path("read-only").read_text(encoding="utf-8") == "old"
    assert {p.name for p in tmp_path.iterdir()} == {"loop", "read-only"}


def test_what_cannot_be_read_is_one_sentence(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large").write_bytes(b"x" * 101)
    for name in ("binary", "large", "none", "a\0b", "."):
        with pytest.raises(InputError):
            read_text(tmp_path / name, 100)
    (tmp_path / "full").write_bytes(b"x" * 100)
    assert read_text(tmp_path / "full", 100) == "x" * 100
