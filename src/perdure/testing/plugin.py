"""The pytest plugin: the fixture `trial`, crashes everywhere, and recorded histories as tests.

It is loaded into every run of pytest where perdure is installed, so it imports nothing of perdure
before a test asks for it.

The fixture gives a trial that is open while an async test runs, by whichever plugin:
pytest-asyncio, anyio, or this plugin if neither does. A test that is not async opens it itself, in
`asyncio.run`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from perdure.testing.trial import Trial

FIXTURE = "trial"
MARKER = "crash_everywhere"
DEFINITIONS = "PERDURE"
"""The name under which a module of tests lists what its trials are given."""
HISTORY_SUFFIX = ".jsonl"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take what people ask of the plugin on the command line."""
    group = parser.getgroup("perdure")
    group.addoption(
        "--replay-histories",
        metavar="DIR",
        help=f"replay the histories in DIR ({HISTORY_SUFFIX} of `perdure export`): each is a test",
    )
    group.addoption(
        "--replay-target",
        metavar="TARGET",
        help="the code for them, such as shop.orders or shop/orders.py [default: $PERDURE_TARGET "
        "or target in [tool.perdure]]",
    )
    group.addoption(
        "--perdure-seeds",
        type=int,
        default=1,
        metavar="N",
        help="run each test that has a trial N times, with other orders of answers",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and collect the folder of histories too."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(max_runs=300): run this test of a trial again and again, with a crash at each "
        "commit of its worker",
    )
    folder = config.getoption("--replay-histories")
    if folder is not None:
        if not Path(folder).is_dir():
            raise pytest.UsageError(f"--replay-histories: there is no folder {folder}")
        if folder not in config.args:
            config.args.append(folder)


# --------------------------------------------------------------------------- trials


@pytest.fixture
def trial(request: pytest.FixtureRequest) -> Trial:
    """A `perdure.testing.Trial` of the definitions that the module lists as `PERDURE`, or that a
    fixture named `definitions` returns."""
    from perdure.testing.trial import Trial  # late: for tests that ask for it only

    definitions = _definitions(request)
    made = Trial(definitions, seed=getattr(request, "param", 0))
    node: Any = request.node
    if inspect.iscoroutinefunction(node.obj):
        # Whatever runs async tests here looks at the function after the fixtures.
        node.obj = _in_trial(node.obj, made, node.get_closest_marker(MARKER), definitions)
    elif node.get_closest_marker(MARKER) is not None:
        raise pytest.UsageError(f"{node.nodeid}: {MARKER} is for async tests of a trial")
    return made


def _definitions(request: pytest.FixtureRequest) -> Any:
    try:
        return request.getfixturevalue("definitions")
    except pytest.FixtureLookupError as error:
        if error.argname != "definitions":
            raise
    found = getattr(request.module, DEFINITIONS, None)
    if found is None:
        raise pytest.UsageError(
            f"{request.node.nodeid}: the fixture {FIXTURE} needs definitions: write "
            f"{DEFINITIONS} = [...] in {request.module.__name__}, or a fixture named definitions"
        )
    return found


def _in_trial(
    test: Callable[..., Any], trial: Trial, crashes: pytest.Mark | None, definitions: Any
) -> Callable[..., Any]:
    """Return the test with its trial open around it."""

    @wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        if crashes is None:
            async with trial:
                await test(*args, **kwargs)
            return
        if FIXTURE not in kwargs:
            raise pytest.UsageError(
                f"{MARKER} makes a trial for each run: let {test.__name__} itself take {FIXTURE}, "
                "and not a fixture that has the one of the first run"
            )
        from perdure.testing.crash_points import crash_at_each

        async def once(another: Trial) -> None:
            await test(*args, **{**kwargs, FIXTURE: another})

        await crash_at_each(once, definitions, **_of_marker(crashes))

    return run


def _of_marker(crashes: pytest.Mark) -> dict[str, Any]:
    """Return what the marker says, in the words of `crash_everywhere`."""
    unknown = [*map(repr, crashes.args), *(crashes.kwargs.keys() - {"max_runs", "seed"})]
    if unknown:
        raise pytest.UsageError(
            f"{MARKER} takes max_runs= and seed=, got {', '.join(unknown)}: "
            f"@pytest.mark.{MARKER}(max_runs=100)"
        )
    return dict(crashes.kwargs)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test of a trial that no other plugin runs."""
    names = pyfuncitem.fixturenames
    is_ours = FIXTURE in names and inspect.iscoroutinefunction(pyfuncitem.obj)
    if not is_ours or "anyio_backend" in names or pyfuncitem.get_closest_marker("asyncio"):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of trials with several seeds, if that is asked for."""
    seeds = metafunc.config.getoption("--perdure-seeds")
    if seeds > 1 and FIXTURE in metafunc.fixturenames:
        ids = [f"seed{seed}" for seed in range(seeds)]
        metafunc.parametrize(FIXTURE, range(seeds), indirect=True, ids=ids)


# ------------------------------------------------------------------------- histories


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the files of the folder of histories."""
    folder = parent.config.getoption("--replay-histories")
    if folder is None or file_path.suffix != HISTORY_SUFFIX:
        return None
    if Path(folder).resolve() not in file_path.resolve().parents:
        return None
    collected: pytest.Collector = HistoryFile.from_parent(parent, path=file_path)
    return collected


class HistoryFile(pytest.File):
    """A file with histories: one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """Return the test."""
        yield HistoryItem.from_parent(self, name="replay")


class HistoryItem(pytest.Item):
    """Replays the histories of a file with the code of today."""

    def runtest(self) -> None:
        """Replay them."""
        # Late, as everything of perdure here.
        from perdure.cli.settings import read_setting
        from perdure.cli.targets import load_target
        from perdure.client.histories.recorded import read_lines, replay
        from perdure.errors import UsageError

        target = read_setting("target", self.config.getoption("--replay-target")).value
        if not target:
            raise UsageError("--replay-histories needs the code: name it with --replay-target")
        registry = load_target(target)
        with self.path.open(encoding="utf-8") as lines:
            for history in read_lines(lines, source=str(self.path)):
                replay(registry, history)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what does not fit, and not where in perdure that was noticed."""
        from perdure.errors import PerdureError

        if isinstance(excinfo.value, PerdureError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name the file."""
        return self.path, None, f"replay of {self.path.name}"
