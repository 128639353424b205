"""What the overview of a project shows: a line for each of its pipelines."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from lockstep.errors import LockstepError
from lockstep.ledger import book, cutovers
from lockstep.ledger.entries import Reached
from lockstep.model.modes import BATCH, PUBLISHER, StreamMode
from lockstep.model.window import Window
from lockstep.parity_pages.view import HEALTH_CLASSES
from lockstep.parity_pages.words import seconds_text, time_text, verdict_words, window_text
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import Pipeline, Project, read_project
from lockstep.settings import Settings
from lockstep.supervise.observation import Observation, observe

PipelineUrl = Callable[[str], str]


def pipelines(settings: Settings, pipeline_url: PipelineUrl) -> dict:
    """Values for pipelines.html. A pipeline that cannot be read is a line with its problem."""
    project, now = read_project(settings.project), datetime.now(UTC)
    names = sorted({*project.pipelines, *project.pipeline_problems})
    return {
        "now": f"{now:%Y-%m-%d %H:%M:%S} UTC",
        "pipelines": [_line(settings.of(name), project, name, pipeline_url, now) for name in names],
    }


def _line(
    settings: Settings, project: Project, name: str, pipeline_url: PipelineUrl, now: datetime
) -> dict:
    if problems := project.pipeline_problems.get(name):
        return {"name": name, "problem": str(problems[0]), "more": len(problems) - 1}
    pipeline = project.pipelines[name]
    try:
        modes = _modes(settings, pipeline)
        fed = _fed(settings, now)
    except LockstepError as error:
        return {"name": name, "problem": str(error), "more": 0}
    return {
        "name": name,
        "problem": "",
        "source": pipeline.source.name,
        "href": pipeline_url(name),
        "fed": fed,
        "modes": modes,
    }


def _fed(settings: Settings, now: datetime) -> dict:
    """What feeds the published table, since when, and how the publisher does."""
    publisher = observe(settings, PUBLISHER)
    switches = cutovers.lines(settings)
    feed = switches[-1].to_feed if switches else BATCH
    at = switches[-1].switched_at if switches else None
    return {
        "feed": feed if publisher.heartbeat or switches else "",
        "since": time_text(at),
        "ago": _ago(now - at) if at else "",
        "health": publisher.finding.health if publisher.desired else "",
        "health_class": HEALTH_CLASSES.get(publisher.finding.health, "fail"),
        "why": publisher.finding.why,
        "lag": seconds_text(publisher.heartbeat and publisher.heartbeat.lag_seconds),
    }


def _modes(settings: Settings, pipeline: Pipeline) -> list[dict]:
    reached = book.reached(settings, plan_of(pipeline).version)
    return [
        _mode(mode, observe(settings, mode), reached.get(StreamMode(mode)))
        for mode in pipeline.manifest.modes
    ]


def _mode(mode: str, seen: Observation, reached: Reached | None) -> dict:
    newest, reach = reached or (None, None)
    return {
        "name": mode,
        "health": seen.finding.health if seen.desired else "never started",
        "health_class": HEALTH_CLASSES.get(seen.finding.health, "fail") if seen.desired else "",
        "why": seen.finding.why,
        "verdict": newest.verdict if newest else "",
        "words": verdict_words(newest.verdict) if newest else "not compared",
        "window": window_text(Window(newest.start, newest.end)) if newest else "",
        "verified": _ago(reach.through - reach.since) if reach else "",
        "lag": seconds_text(seen.heartbeat and seen.holder and seen.heartbeat.lag_seconds),
    }


def _ago(span: timedelta) -> str:
    """The span in the largest unit that it fills: `3 days`, `5 h`, `12 min`."""
    for unit, name in ((timedelta(days=1), "days"), (timedelta(hours=1), "h")):
        if span >= 2 * unit:
            return f"{span // unit} {name}"
    return f"{span // timedelta(minutes=1)} min"
