"""What is read of a source's URL, and that a password in one is refused and never repeated."""

import pytest
from lockstep.errors import ConfigurationError
from lockstep.sources.source_address import SourceAddress, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgres://db.example.com/depot", ("db.example.com", 5432, "depot", "")),
        ("postgresql://reader@db:6543/depot", ("db", 6543, "depot", "reader")),
        ("postgres://a%40b@[::1]:1/d%20e%2F", ("::1", 1, "d e/", "a@b")),
    ],
)
def test_an_address_is_read(url: str, address: tuple) -> None:
    assert parse_address(url, "depot") == SourceAddress(*address)


@pytest.mark.parametrize(
    "url",
    [
        "postgres://reader:sesame@db/depot",
        "postgres://reader:@db/depot",
        "postgres://db/depot?password=sesame",
    ],
)
def test_a_password_is_refused_with_where_it_belongs(url: str) -> None:
    with pytest.raises(ConfigurationError, match="LOCKSTEP_SOURCE_DEPOT_READ_PASSWORD") as refused:
        parse_address(url, "depot")
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "depot",
        "mysql://db/depot",
        "postgres:///depot",
        "postgres://db",
        "postgres://db/",
        "postgres://db:port/depot",
        "postgres://db/depot?sslmode=require",
        "postgres://reader:ses/ame@db/depot",
        "postgres://reader:1/ame@db/depot",
        "postgres://reader:ses#ame@db/depot",
        "postgres://reader:ses?ame@db/depot",
        "postgres://[::1/ame",
    ],
)
def test_what_cannot_be_read_is_refused_and_not_repeated(url: str) -> None:
    """It may have a password at the wrong place."""
    with pytest.raises(ConfigurationError, match="write postgres://host:port/database") as refused:
        parse_address(url, "depot")
    assert "ame" not in str(refused.value).replace("database", "")
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
