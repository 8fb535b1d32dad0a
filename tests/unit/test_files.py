"""Files from others are hostile: every damage gives one line, and writing is all or nothing."""

import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmemo_sim.errors import InputError, ModelConfigError
from specmemo_sim.inputs import files
from specmemo_sim.inputs.files import read_json, read_toml, write_text_atomically

BROKEN_JSON = {
    "empty": (b"", "empty"),
    "blank": (b" \n\t\n", "empty"),
    "not UTF-8": (b'{"a": "\xff"}', "UTF-8"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "UTF-8"),
    "cut off in an object": (b'{"a": 1,\n "b": [1, 2', "line 2, column 12"),
    "cut off in text": (b'{"a": "abc', "cut off"),
    "trailing comma": (b'{"a": 1,\n}', "not valid JSON at line"),
    "two values": (b'{"a": 1} {"b": 2}', "line 1, column 10"),
    "NaN": (b'{"a": NaN}', "NaN"),
    "infinity": (b'{"a": -Infinity}', "-Infinity"),
    "float overflow": (b'{"a": 1e999}', "finite"),
    "digits beyond Python's limit": (b'{"a": ' + b"9" * 5000 + b"}", "5000 digits"),
    "beyond 2^63": (b'{"a": [{"b": 9223372036854775809}]}', "2^63"),
    "duplicate key": (b'{"a": {"b": 1, "b": 2}}', "'b' twice"),
    "deeper than the parser": (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested"),
    "deeper than allowed": (b'{"a": ' + b"[" * 80 + b"]" * 80 + b"}", "nested"),
    "a list": (b"[1, 2]", "a list"),
    "a number": (b"3", "a number"),
    "null": (b"null", "null"),
    "half a surrogate pair": (b'{"a": "\\ud800"}', "surrogate"),
}

BROKEN_TOML = {
    "empty": (b"", "empty"),
    "not UTF-8": (b'a = "\xff"', "UTF-8"),
    "cut off": (b'a = 1\nb = "x', "end of document"),
    "duplicate key": (b"a = 1\na = 2\n", "overwrite a value (at line 2"),
    "duplicate table": (b"[a]\nx = 1\n[a]\ny = 2", "line 3"),
    "nan": (b"a = nan", "finite"),
    "inf": (b"a = -inf", "finite"),
    "float overflow": (b"a = 1e999", "finite"),
    "digits beyond Python's limit": (b"a = " + b"9" * 5000, "out of range"),
    "hexadecimal beyond 2^63": (b"a = 0x" + b"F" * 40, "2^63"),
    "deeper than the parser": (b"a = " + b"[" * 100_000 + b"]" * 100_000, "nested"),
    "deep dotted keys": (b".".join([b"a"] * 100_000) + b" = 1", "dotted parts"),
    "deep dotted header": (b"[" + b".".join([b"a"] * 17) + b"]", "dotted parts"),
    "impossible date": (b"a = 2026-13-45", "toml|out of range"),
}


def one_line(caught):
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert len(message) < 600
    return message


@pytest.mark.parametrize("case", BROKEN_JSON)
def test_every_damage_to_json_gives_one_line_that_names_it(tmp_path, case):
    content, expected = BROKEN_JSON[case]
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_json(path)
    message = one_line(caught)
    assert expected in message
    assert "config.json" in message


@pytest.mark.parametrize("case", BROKEN_TOML)
def test_every_damage_to_toml_gives_one_line_that_names_it(tmp_path, case):
    content, expected = BROKEN_TOML[case]
    path = tmp_path / "device.toml"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_toml(path)
    assert any(part in one_line(caught).lower() for part in expected.lower().split("|"))


@pytest.mark.parametrize("read", [read_json, read_toml])
def test_what_is_no_file_is_refused_and_never_read(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    for path, expected in [
        (tmp_path / "missing", "does not exist"),
        (tmp_path, "folder"),
        (tmp_path / "pipe", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("nul\0byte", "not a usable path"),
        ("x" * 5000, "cannot be read"),
        (tmp_path / "line\nbreak", "line\\nbreak"),
    ]:
        with pytest.raises(InputError) as caught:
            read(path)
        assert expected in one_line(caught)


def test_a_file_of_exactly_the_limit_is_read_and_one_byte_more_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": 1}')
    assert read_json(path, max_bytes=8) == {"a": 1}
    with pytest.raises(InputError, match="larger than 7 B"):
        read_json(path, max_bytes=7)


def test_the_error_is_of_the_class_the_caller_asks_for(tmp_path):
    with pytest.raises(ModelConfigError):
        read_json(tmp_path / "missing", error=ModelConfigError)


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(path) == {"a": 1}


def test_many_dots_in_values_are_no_long_key(tmp_path):
    """tomllib needs memory by the square of a key's parts, so only keys are limited."""
    path = tmp_path / "x.toml"
    words = ".".join(f"a{i}" for i in range(12))
    path.write_text(f'a = [{"0.5, " * 100}]\nb = "{"Seen. " * 100}"\n{words} = 1\n')
    assert read_toml(path)["a"] == [0.5] * 100


def test_whole_numbers_up_to_two_to_the_63_are_kept_exactly(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(f'{{"a": {2**63}, "b": {-(2**63)}}}')
    assert read_json(path) == {"a": 2**63, "b": -(2**63)}


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner)
    ),
    max_leaves=12,
)


@given(table=st.dictionaries(st.sampled_from("abcd"), JSON_VALUES))
def test_what_was_written_is_what_is_read(tmp_path_factory, table):
    path = tmp_path_factory.getbasetemp() / "round-trip.json"
    write_text_atomically(path, json.dumps(table))
    assert read_json(path) == table


@given(cut=st.integers(0, 60))
def test_a_cut_off_file_never_passes(tmp_path_factory, cut):
    text = '{"model_type": "llama", "layers": [1, 2.5, {"x": null}], "y": 12}'
    path = tmp_path_factory.getbasetemp() / "cut.json"
    path.write_text(text[:cut])
    with pytest.raises(InputError):
        read_json(path)


@given(content=st.binary(max_size=60))
def test_random_bytes_give_a_dictionary_or_one_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "noise"
    path.write_bytes(content)
    for read in (read_json, read_toml):
        assert answer_or_line(read, path)


def answer_or_line(read, path):
    try:
        return isinstance(read(path), dict)
    except InputError as fault:
        return "\n" not in str(fault)


def test_writing_replaces_the_content_and_leaves_no_other_file(tmp_path):
    path = tmp_path / "plan.json"
    write_text_atomically(path, "old")
    write_text_atomically(path, "new ä")
    assert path.read_text(encoding="utf-8") == "new ä"
    assert os.listdir(tmp_path) == ["plan.json"]


def test_a_failed_write_leaves_the_old_content_and_no_other_file(tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    path.write_text("old")

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full_disk)
    with pytest.raises(InputError, match="No space left"):
        write_text_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["plan.json"]


def test_an_interrupted_write_leaves_no_other_file(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text_atomically(tmp_path / "plan.json", "new")
    assert os.listdir(tmp_path) == []


def test_paths_that_cannot_be_written_give_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, expected in [
        (tmp_path, "folder"),
        (tmp_path / "missing" / "x.json", "create it first"),
        (tmp_path / "pipe", "not a regular file"),
        ("nul\0byte", "not a usable path"),
    ]:
        with pytest.raises(InputError) as caught:
            write_text_atomically(path, "x")
        assert expected in one_line(caught)
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_text_that_cannot_be_encoded_is_refused_before_anything_is_touched(tmp_path):
    with pytest.raises(InputError, match="surrogate"):
        write_text_atomically(tmp_path / "x", "\ud800")
    assert os.listdir(tmp_path) == []


def test_a_link_is_followed_and_permissions_survive(tmp_path):
    target = tmp_path / "real.json"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(target)
    write_text_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_gives_one_line(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        write_text_atomically(tmp_path / "x", "y")
