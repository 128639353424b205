"""What a person reads when a command fails."""

import pytest
from lockstep.errors import WindowError, exit_on_error, with_pipeline

TEXT = "no run wrote it: `lockstep batch run` does, or `lockstep up`; lockstep --pipeline a batch x"


def test_a_message_names_commands_as_they_are_called_for_the_pipeline() -> None:
    assert with_pipeline(TEXT, "readings") == TEXT.replace(
        "`lockstep batch", "`lockstep --pipeline readings batch"
    )
    assert with_pipeline(TEXT, "") == TEXT


@pytest.mark.parametrize("pipeline", ["", "readings"])
def test_an_error_is_one_line_with_its_exit_code(
    pipeline: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("LOCKSTEP_PIPELINE", pipeline)
    with pytest.raises(SystemExit) as ended, exit_on_error():
        raise WindowError(TEXT)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"error: {with_pipeline(TEXT, pipeline)}\n"
