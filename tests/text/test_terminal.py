"""Foreign text on a terminal: obeyed nowhere."""

import io
import json
import logging
import shlex
import subprocess
import sys

import pytest

from forecast.text.terminal import (
    LONGEST,
    HarmlessRecord,
    Meter,
    guard,
    harmless,
    json_text,
    label,
    listed,
    quiet_output,
    say,
    shell_word,
)

ACTING = {
    "clear the screen": ("\x1b[2J", r"\x1b[2J"),
    "the title of the window": ("\x1b]0;root\x07", r"\x1b]0;root\x07"),
    "the one-byte CSI of C1": ("a\x9b2J", r"a\u009b2J"),
    "back to the start of the line": ("bad\rgood", r"bad\x0dgood"),
    "backspace and delete": ("a\bb\x7f", r"a\x08b\u007f"),
    "NUL": ("a\0b", r"a\x00b"),
}
LEGIBLE = ["load", "a\\x1b", "Größe", "温度 (°C)", "عدد", "👩🏽‍🚀", "a\tb", "two\nlines"]


@pytest.mark.parametrize("text, shown", ACTING.values(), ids=ACTING)
def test_a_control_character_is_shown_in_its_place(text, shown):
    assert harmless(text) == shown


@pytest.mark.parametrize("text", LEGIBLE)
def test_what_is_legible_stays(text):
    assert harmless(text) == text


def test_what_is_no_number_is_null_in_json():
    document = {"dropout": float("nan"), "lr": [float("inf"), -float("inf"), 0.5], "é": None}
    assert json.loads(json_text(document)) == {"dropout": None, "lr": [None, None, 0.5], "é": None}


def test_a_name_is_one_line():
    assert label("load\nok   splits\there") == r"load\nok   splits\there"
    assert listed(["a", "b\n"]) == r"a, b\n"


def test_of_a_long_name_the_beginning_and_the_length_are_shown():
    assert label("n" * LONGEST) == "n" * LONGEST
    assert label("n" * 601) == "n" * LONGEST + "... (601 characters)"
    assert label("温度计", 2) == "温度... (3 characters)"


def test_say_prints_on_stdout_or_where_it_is_told(capsys):
    say("a\x1b[2J", 3)
    say("b\x07", file=sys.stderr)
    assert capsys.readouterr() == ("a\\x1b[2J 3\n", "b\\x07\n")


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_long_pass_says_how_far_it_is_but_for_quiet(monkeypatch, capsys, caplog, looked_at):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: looked_at)
    monkeypatch.setenv("COLUMNS", "46")
    seconds = iter([0.0, 0.1, 40.0, 40.0, 60.0])
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))
    meter, line = Meter(300, "windows forecast"), "100/300 windows forecast  40 s, 1 min 20 s left"
    meter.show(50)
    meter.show(100)
    meter.end()
    empty = f"\r{'':45}\r"
    assert capsys.readouterr().err == (f"\r{line[:45]}\r{empty}" if looked_at else "")
    with quiet_output():
        Meter(300, "windows forecast").show(200)
    assert capsys.readouterr().err == "" and caplog.messages == ([] if looked_at else [line])


def test_json_keeps_the_true_text_in_escapes_of_its_own():
    document = {"温度": ["\x1b]0;x\x07", "\x7f\x9b2J", "👩🏽‍🚀", "two\nlines"]}
    text = json_text(document)
    assert json.loads(text) == document
    assert harmless(text) == text
    assert "温度" in text and "👩🏽‍🚀" in text


@pytest.fixture
def guarded():
    """A process that `guard` has made harmless, as it was afterwards."""
    factory, hook = logging.getLogRecordFactory(), sys.excepthook
    guard()
    yield
    logging.setLogRecordFactory(factory)
    sys.excepthook = hook


def test_every_line_of_the_log_is_harmless(guarded):
    stream = io.StringIO()
    logger = logging.Logger("a", logging.INFO)
    logger.addHandler(logging.StreamHandler(stream))
    logger.info("columns %s", "\x1b[2J")
    assert stream.getvalue() == "columns \\x1b[2J\n"
    assert logging.getLogRecordFactory() is HarmlessRecord


def test_a_stream_that_has_no_such_letters_gets_their_numbers(monkeypatch, request):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    request.getfixturevalue("guarded")
    say("温度 ±")
    narrow.flush()
    assert narrow.buffer.getvalue() == b"\\u6e29\\u5ea6 \\xb1\n"


def test_so_is_the_traceback_of_a_bug(guarded, capsys):
    try:
        raise KeyError("\x1b[2J") from ValueError("\x07")
    except KeyError as error:
        sys.excepthook(KeyError, error, error.__traceback__)
    shown = capsys.readouterr().err
    assert shown.startswith("ValueError: \\x07") and shown.endswith("KeyError: '\\x1b[2J'\n")


def test_a_plain_word_is_quoted_as_ever():
    assert [shell_word(word) for word in ("a/b.ckpt", "a b", "it's", "$(x)")] == [
        *("a/b.ckpt", "'a b'", shlex.quote("it's"), "'$(x)'")
    ]


def test_a_word_of_control_characters_is_harmless_and_the_shell_reads_the_true_one():
    words = ["a\x1bc'd\\e", "two\nlines", "\x9b2J", "a\tb", "$(date)\x07`x`"]
    typed = [shell_word(word) for word in words]
    assert all(harmless(word) == word and "\n" not in word for word in typed)
    command = f"printf '%s\\0' {' '.join(typed)}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert ended.stdout.decode().split("\0")[:-1] == words
