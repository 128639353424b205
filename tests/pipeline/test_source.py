"""source.toml: what is read of it, and the whole text of each refusal."""

from pathlib import Path

import pytest
from lockstep.accounts import Role
from lockstep.pipeline.errors import ManifestError
from lockstep.pipeline.source import PORT_DEFAULT, SourceManifest
from lockstep.pipeline.toml_file import read_toml, validate

FILE = Path("include", "sources", "depot", "source.toml")
SOURCE = """\
#:schema ../../source.schema.json
format_version = 1
kind = "postgres"
host = "db.example.com"
database = "depot"
[roles]
read = "reader"
capture = "follower"
"""


def problems(text: str) -> list[str]:
    """What is wrong with a text, without the file's name."""
    try:
        found = validate(SourceManifest, read_toml(text, FILE)).problems
    except ManifestError as error:
        found = error.problems
    return [str(problem).removeprefix(f"{FILE}:") for problem in sorted(found)]


def test_a_source_is_read_as_it_is_written() -> None:
    read = validate(SourceManifest, read_toml(SOURCE, FILE))
    assert read.problems == ()
    assert (read.model.host, read.model.port) == ("db.example.com", PORT_DEFAULT)
    assert read.model.database == "depot"
    assert (read.model.roles.read, read.model.roles.capture) == ("reader", "follower")


def test_a_source_without_a_host_is_a_database_of_the_embedded_server() -> None:
    read = validate(SourceManifest, read_toml(EMBEDDED, FILE)).model
    assert read.host is None
    assert (read.roles.read, read.roles.capture) == (Role.BATCH_READER, Role.CDC)


EMBEDDED = 'format_version = 1\nkind = "postgres"\ndatabase = "depot"\n'
"""A source without a host."""


def test_roles_of_a_sources_applications_sign_in() -> None:
    text = f'{EMBEDDED}logins = ["clerk", "driver_1"]\n'
    assert validate(SourceManifest, read_toml(text, FILE)).model.logins == ("clerk", "driver_1")


@pytest.mark.parametrize(
    ("logins", "problem"),
    [
        (
            '["batch_reader"]',
            '4: logins[0]: "batch_reader" is a role of Lockstep\'s own: take it out',
        ),
        ('["Clerk"]', '4: logins[0]: "Clerk" is no login: write 1 to 63 of a-z, 0-9'),
        ('["read"]', '4: logins[0]: "read" is a role of Lockstep\'s own: take it out'),
        ('["clerk", "clerk"]', '4: logins: has "clerk" twice: remove one'),
    ],
)
def test_what_is_no_login_is_refused(logins: str, problem: str) -> None:
    [found] = problems(f"{EMBEDDED}logins = {logins}\n")
    assert found.startswith(problem)


def test_a_server_of_ones_own_gives_its_roles_their_passwords_itself() -> None:
    text = SOURCE.replace('"depot"\n', '"depot"\nlogins = ["clerk"]\n')
    [problem] = problems(text)
    assert problem == (
        "1: `logins` stands with `host`: the administrator of that server gives its roles their "
        "passwords; take `logins` out"
    )


def test_a_source_cannot_be_changed_once_it_is_read() -> None:
    read = validate(SourceManifest, read_toml(SOURCE, FILE)).model
    with pytest.raises(ValueError, match="frozen"):
        read.host = "other"


def test_a_problem_names_the_file() -> None:
    [problem] = validate(SourceManifest, read_toml(f"hots = 1\n{SOURCE}", FILE)).problems
    assert str(problem) == f"{FILE}:1: hots: is no key of this table: did you mean host?"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("format_version = 1\n", "", "1: format_version: is missing: the format of this file: 1"),
        (
            "version = 1",
            "version = 2",
            (
                "2: format_version: is 2, and this Lockstep reads 1: install one that reads 2, or "
                "write the file in format 1"
            ),
        ),
        ("version = 1", "version = true", "2: format_version: must be 1"),
        ("version = 1", 'version = "1"', "2: format_version: must be 1"),
        (
            "postgres",
            "kafka",
            "3: kind: kafka is not read in this version: only `postgres` is",
        ),
        ("postgres", "mysql", '3: kind: "mysql" is not known: write `postgres`'),
        ('"db.example.com"', '""', "4: host: is empty"),
        (
            'host = "db.example.com"\n',
            "",
            (
                "1: `roles` stands without `host`: a database of the embedded server has the "
                "address and the roles of the settings; write `host`, or leave that out"
            ),
        ),
        (
            '[roles]\nread = "reader"\ncapture = "follower"\n',
            "",
            "1: `roles` is missing: name the roles that read and capture sign in as",
        ),
        ('"depot"', "1979-05-27", "5: database: must be a string, and is a date or time"),
        (
            'database = "depot"\n',
            "",
            "1: database: is missing: the database; a source is one, and a server may have more",
        ),
        (
            '"depot"',
            '"depot"\nport = "5432"',
            '6: port: "5432" is no port: write an integer from 1 to 65535',
        ),
        (
            '"depot"',
            '"depot"\nport = 65536',
            "6: port: 65536 is no port: write an integer from 1 to 65535",
        ),
        (
            '"depot"',
            '"depot"\nslot = "Of Depot"',
            '6: slot: "Of Depot" is no slot\'s name: write 1 to 63 of a-z, 0-9 and _',
        ),
        (
            '"depot"',
            '"depot"\nconnector = "a.b"',
            '6: connector: "a.b" is no connector\'s name: write A-Z, a-z, 0-9, _ and -',
        ),
        (
            '"follower"',
            '"follower"\npassword = "x"',
            (
                "9: roles.password: belongs in no file of the project: remove it, and set it in "
                "the environment"
            ),
        ),
        (
            '"depot"',
            '"depot"\npassword = "x"',
            (
                "6: password: belongs in no file of the project: remove it, and set it in the "
                "environment"
            ),
        ),
        (
            'read = "reader"\n',
            "",
            (
                "6: roles.read: is missing: the role that reads tables and views: hourly runs and "
                "look-ups sign in as it"
            ),
        ),
        (
            "format_version = 1",
            "format_version = 1\nformat_version = 1",
            "3: is not valid TOML: Cannot overwrite a value",
        ),
        ('"follower"\n', '["follower"', "8: is not valid TOML: Unclosed array"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, problem: str) -> None:
    assert SOURCE.count(old) == 1
    assert problems(SOURCE.replace(old, new)) == [problem]
