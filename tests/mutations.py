"""A document of ours as a stranger may have changed it: every leaf in every way, and the file as a whole."""

import copy
import json

DEEP = 100_000
OUTSIDE = "../../outside"
DELETED = object()
# What a leaf becomes: what it is not, what no number is, what no text should be.
LEAVES = {
    "gone": lambda _: DELETED,
    "null": lambda _: None,
    "true": lambda value: 7 if value is True else True,
    "a text": lambda value: 7 if isinstance(value, str) else "x",
    "a list": lambda _: [{}],
    "an object": lambda _: {"x": [1]},
    "NaN": lambda _: float("nan"),
    "infinite": lambda _: float("-inf"),
    "huge": lambda _: 1e308,
    "many digits": lambda _: 10**30,
    "the largest": lambda _: 2**63 - 1,
    "below zero": lambda _: -7,
    "zero": lambda _: 0,
    "deep": lambda _: deep(200),
    "a NUL": lambda _: "a\0b",
    "a path": lambda _: OUTSIDE,
    "from the root": lambda _: "/tmp/outside",
    "an override": lambda _: "+callbacks.x._target_=os.system",
}
# What the file becomes.
FILES = {
    "empty": lambda text: b"",
    "cut": lambda text: text[: len(text) // 2],
    "no text": lambda text: b"\xff\xfe" + text,
    "brackets": lambda text: b"[" * DEEP,
    "objects": lambda text: b'{"a":' * DEEP,
    "a list": lambda text: b"[]",
    "a list of objects": lambda text: b"[{}]",
    "null": lambda text: b"null",
    "an empty object": lambda text: b"{}",
    "a number": lambda text: b"7",
    "many digits": lambda text: b"9" * 10_000,
}


def deep(levels):
    found = []
    for _ in range(levels):
        found = [found]
    return found


def places(node, path=()):
    """The paths to all values, those that hold others among them."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in pairs:
        yield (*path, key)
        yield from places(value, (*path, key))


def changed(document, path, change):
    """A copy in which the value at a path is another, or is gone."""
    found = copy.deepcopy(document)
    node = found
    for key in path[:-1]:
        node = node[key]
    value = change(node[path[-1]])
    if value is DELETED:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return found


def mutations(document, *, every=True):
    """Names, and documents: each place changed in every way; every=False: in one way, each place in another."""
    kinds = list(LEAVES)
    for number, path in enumerate(places(document)):
        for kind in kinds if every else [kinds[5 * number % len(kinds)]]:
            yield f"{'.'.join(map(str, path))} {kind}", changed(document, path, LEAVES[kind])


def texts(text, *, every=True):
    """Names, and the bytes of a JSON file: as `mutations` has it, and the file as a whole."""
    yield from ((name, change(text)) for name, change in FILES.items())
    for name, document in mutations(json.loads(text), every=every):
        yield name, json.dumps(document).encode()
