"""Names: what may be one, and that no two addresses come to the same name."""

import random
import re
from collections.abc import Callable, Iterator

import pytest
from lockstep.pipeline import names
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import Job, Mark

LONGEST = "a" * names.NAME_CHARACTERS_MAX
SLOT = re.compile(r"[a-z0-9_]{1,63}")
KAFKA = re.compile(r"[A-Za-z0-9._-]{1,249}")
AIRFLOW = re.compile(r"[A-Za-z0-9_.-]{1,250}")
RULE = (
    "cannot be a name: it is to have at most 40 of a-z, 0-9 and _, a letter first, no _ at the end "
    "and no two in a row"
)


@pytest.mark.parametrize("name", ["a", "orders", "orders_2", "a_b_c", "a1_2", LONGEST])
def test_a_good_name_has_no_fault(name: str) -> None:
    assert names.name_fault(name) == ""


@pytest.mark.parametrize(
    "name",
    ["", "Orders", "2orders", "_a", "a_", "a__b", "a-b", "a.b", "a b", "ä", "a\n", LONGEST + "a"],
)
def test_a_bad_name_is_refused(name: str) -> None:
    assert names.name_fault(name) == f"{name} {RULE}"


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        *((str(mode), "a mode") for mode in Mode),
        ("history", "the writer of a source's history, which is started and stopped as a mode is"),
        (
            "publisher",
            "the writer of the published table, which is started and stopped as a mode is",
        ),
        ("all", "every pipeline or mode, in commands"),
        ("lockstep", "the beginning of generated names"),
    ],
)
def test_a_reserved_name_is_refused_with_the_reason(name: str, meaning: str) -> None:
    assert names.name_fault(name) == f"{name} is reserved: it is {meaning}; choose another name"


def test_the_names_are_as_their_docstrings_say() -> None:
    assert names.address("orders", Mode.LOOKUP) == "orders__lookup"
    assert names.table_path("orders", Mode.BATCH) == "orders/orders__batch"
    assert names.mode_dag_id("orders", Mode.LOOKUP) == "orders__lookup"
    assert names.job_dag_id("orders", Job.PARITY) == "orders__parity"
    assert names.change_topic("shop") == "lockstep.shop.changes"
    assert names.source_of(names.change_topic("shop")) == "shop"
    assert names.connector("shop") == "lockstep.shop"
    assert names.publication("shop") == "lockstep__shop"
    assert names.slot("sales", "shop") == "lockstep__shop__sales"
    assert names.application_id("shop", Mark.FRONTIER) == "lockstep/shop/frontier"
    assert names.message_prefix("orders") == "lockstep.message.orders"
    assert names.cut_prefix("shop") == "lockstep.cut.shop"
    assert names.heartbeat_prefix("shop") == "lockstep.heartbeat.shop"


def test_a_slot_of_another_kind_of_database_name_has_its_digest() -> None:
    assert names.slot("Sales-EU", "shop") == "lockstep__shop__01608d1a429"
    assert names.slot(LONGEST, LONGEST).startswith(f"lockstep__{LONGEST}__0")
    assert names.slot(LONGEST, LONGEST) != names.slot("b" * 40, LONGEST)


def test_no_job_is_a_mode() -> None:
    assert not set(Job) & set(Mode)


def random_name(rng: random.Random) -> str:
    """Of few characters, so that many are nearly the same; also the names of modes and jobs."""
    words = ("a", "b", "ab", "1", "batch", "lookup", "parity", "frontier", "cut", "changes")
    name = "_".join(rng.choices(words, k=rng.randint(1, 3)))
    return name if names.NAME.fullmatch(name) else f"a_{name}"


def random_database(rng: random.Random) -> str:
    """Also such as no name of ours may be."""
    odd = "".join(rng.choices("aA_-0 ", k=rng.randint(1, 6)))
    return rng.choice([random_name(rng), odd, LONGEST + odd, f"0{odd}"])


Named = tuple[str, tuple[object, ...]]


def dags(rng: random.Random) -> Named:
    name, choice = random_name(rng), rng.choice([*Mode, *Job])
    of = names.mode_dag_id if isinstance(choice, Mode) else names.job_dag_id
    return of(name, choice), (name, choice)


def of_source(function: Callable[[str], str]) -> Callable[[random.Random], Named]:
    def named(rng: random.Random) -> Named:
        name = random_name(rng)
        return function(name), (name,)

    return named


def tables(rng: random.Random) -> Named:
    name, mode = random_name(rng), rng.choice(list(Mode))
    return names.table_path(name, mode), (name, mode)


def all_tables(rng: random.Random) -> Named:
    """Of a pipeline's and of a source's; no pipeline has the name of a source."""
    pipeline, source = f"p{random_name(rng)}", f"s{random_name(rng)}"
    of_pipeline = (names.published_path, names.ledger_path, names.differences_path)
    of_source = (names.history_path, names.quarantine_path)
    of = rng.choice([*of_pipeline, names.cutovers_path, *of_source])
    name = source if of in of_source else pipeline
    return names.sql_name(of(name)), (of, name)


def table_names_in_sql(rng: random.Random) -> Named:
    path, address = tables(rng)
    return path.rsplit("/", 1)[-1], address


def slots(rng: random.Random) -> Named:
    database, source = random_database(rng), random_name(rng)
    return names.slot(database, source), (database, source)


def application_ids(rng: random.Random) -> Named:
    name, mark = random_name(rng), rng.choice(list(Mark))
    return names.application_id(name, mark), (name, mark)


def prefixes(rng: random.Random) -> Named:
    of = rng.choice([names.message_prefix, names.cut_prefix, names.heartbeat_prefix])
    name = random_name(rng)
    return of(name), (of, name)


def topics_in_metrics(rng: random.Random) -> Named:
    name = random_name(rng)
    return names.change_topic(name).replace(".", "_"), (name,)


ALL_KINDS = [
    *(
        dags,
        tables,
        all_tables,
        table_names_in_sql,
        slots,
        application_ids,
        prefixes,
        topics_in_metrics,
    ),
    *map(of_source, (names.change_topic, names.connector, names.publication)),
]


def collisions(named: Iterator[Named]) -> list[object]:
    """Addresses that have the name of another one."""
    first: dict[str, object] = {}
    return [at for name, at in named if first.setdefault(name, at) != at]


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_different_addresses_have_different_names(kind: Callable[[random.Random], Named]) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    assert collisions(kind(rng) for _ in range(3_000)) == [], f"seed {seed}"


def test_a_separator_that_names_may_hold_would_collide() -> None:
    """Else the test above would show nothing."""
    rng = random.Random(1)
    pairs = [(random_name(rng), random_name(rng)) for _ in range(3_000)]
    assert collisions(("_".join(pair), pair) for pair in pairs)
    assert not collisions(("__".join(pair), pair) for pair in pairs)


def test_names_keep_to_what_postgresql_kafka_and_airflow_allow() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    sources = [LONGEST, *(random_name(rng) for _ in range(300))]
    for source in sources:
        for database in (LONGEST, "ü" * 31, random_database(rng)):
            assert SLOT.fullmatch(names.slot(database, source)), f"seed {seed}"
        assert len(names.publication(source).encode()) <= names.POSTGRES_NAME_BYTES_MAX
        assert KAFKA.fullmatch(names.change_topic(source)), f"seed {seed}"
        assert KAFKA.fullmatch(names.connector(source)), f"seed {seed}"
        for mode in Mode:
            assert AIRFLOW.fullmatch(names.mode_dag_id(source, mode)), f"seed {seed}"
        for job in Job:
            assert AIRFLOW.fullmatch(names.job_dag_id(source, job)), f"seed {seed}"
