"""The lines of a TOML text: every key that tomllib reads, on the line where it stands."""

import random
import tomllib
from collections.abc import Iterator

import pytest
from lockstep.pipeline.toml_lines import KeyPath, lines_of

EVERY_SHAPE = '''\
# a comment with [brackets] = "and quotes
first = 2

[tables.nested]   # [not.this]
"quoted \\"key\\"" = 5
'literal.key' = 6
dotted . "in.two" = 7

  [tables.nested.deeper]
  text = """
[no.header]
no_key = 1 \\""" ""\\"
"""
after_text = 14
literal = \'\'\'
not = 'this'\'\'\'
inline = { a = 17, "b.c" = { d = [17] }, e.f = 17 }
array = [
  19, # ], one comment
  [20, "]", '['],

  { x = 22, y = [
    23,
  ] },
]
moment = 1979-05-27 07:32:00.5
number = +1_0.5e-3

[[rows]]
id = 30
[[rows]]
id = 32
[rows.more]
id = 34
[[rows.parts]]
id = 36
'''


def values(content: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Every path of what tomllib has read, with its value."""
    yield path, content
    if isinstance(content, dict):
        inner = content.items()
    else:
        inner = enumerate(content) if isinstance(content, list) else ()
    for key, value in inner:
        yield from values(value, (*path, key))


def test_each_value_of_every_shape_is_on_its_line() -> None:
    """The numbers of the text are the lines that they stand on."""
    lines, content = lines_of(EVERY_SHAPE), tomllib.loads(EVERY_SHAPE)
    assert set(lines) == {path for path, _ in values(content)}
    numbers = {path: value for path, value in values(content) if isinstance(value, int)}
    assert len(numbers) == 16
    assert {path: lines[path] for path in numbers} == numbers


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("tables",), 4),
        (("tables", "nested", "dotted"), 7),
        (("tables", "nested", "deeper"), 9),
        (("tables", "nested", "deeper", "inline", "b.c"), 17),
        (("tables", "nested", "deeper", "array"), 18),
        (("tables", "nested", "deeper", "array", 1), 20),
        (("rows",), 29),
        (("rows", 1), 31),
        (("rows", 1, "parts", 0), 35),
    ],
)
def test_a_table_or_list_is_on_the_line_where_it_begins(path: KeyPath, line: int) -> None:
    assert lines_of(EVERY_SHAPE)[path] == line


def test_a_text_without_keys_has_a_first_line() -> None:
    assert lines_of("") == {(): 1}
    assert lines_of("# nothing\r\n") == {(): 1}


KEYS = ("a", "b-1", '"a b"', "'#x'", '"=\\t"', '"ä.ö"', "3")


def random_value(rng: random.Random, depth: int) -> str:
    """A value that may span lines; every number is `@`, for the line it will stand on."""
    space = rng.choice(["", " ", "\n", " # ],}\n", "\n\n"])
    match rng.randrange(6 if depth else 3):
        case 0 | 1:
            return "@"
        case 2:
            return rng.choice(['"]\\""', "'}#'", '"""\n[x]\n"""', "'''\na = 1\n'''"])
        case 3 | 4:
            parts = [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
            return f"[{space}" + f",{space}".join(parts) + f"{space}]"
        case _:
            keys = rng.sample(KEYS, rng.randrange(4))
            return "{" + ", ".join(f"{k} = {random_value(rng, depth - 1)}" for k in keys) + "}"


def random_text(rng: random.Random) -> str:
    """Pairs, then tables and arrays of tables with pairs."""
    shapes = [rng.choice(["[t.{}]", "[[t.{}]]", "[ t . {}.x ]"]) for _ in KEYS]
    headers = ["", *(shape.format(key) for shape, key in zip(shapes, KEYS, strict=True))]
    blocks = []
    for header in headers:
        keys = rng.sample(KEYS, rng.randrange(4))
        pairs = [f"{key}{rng.choice(['', '.y'])} = {random_value(rng, 3)}" for key in keys]
        blocks += [header] * rng.choice([1, 1 + header.startswith("[[")]) + pairs
    text = "\n".join(blocks)
    return "\n".join(line.replace("@", str(n)) for n, line in enumerate(text.split("\n"), 1))


@pytest.mark.parametrize("seed", range(100))
def test_random_texts_have_every_key_on_its_line(seed: int) -> None:
    text = random_text(random.Random(seed))
    content, lines = tomllib.loads(text), lines_of(text)
    assert set(lines) == {path for path, _ in values(content)}, f"seed {seed}"
    numbers = {path: value for path, value in values(content) if isinstance(value, int)}
    assert {path: lines[path] for path in numbers} == numbers, f"seed {seed}"
