"""docs/reference.md is as the commands and the manifests are."""

from lockstep_tools.reference import FILE, reference

from tests.project import PROJECT_DIR


def test_the_reference_is_as_the_code_is() -> None:
    written = (PROJECT_DIR / FILE).read_text(encoding="utf-8")
    assert written == reference(), "`make reference` writes it"


def test_it_has_the_librarys_commands_and_no_others() -> None:
    text = reference()
    assert "### `lockstep pipeline new NAME`" in text
    assert "### `lockstep demo`" not in text
    assert "| `access` |" in text
