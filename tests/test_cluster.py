"""Grading on a Dask cluster: scheduler and workers are processes of this machine, started as people start them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from distributed import Client

from autograder.cli import main
from autograder.cluster import ClusterJudges
from autograder.errors import ClinicError
from autograder.judging import Course, guards_of

pytestmark = pytest.mark.slow

T = TypeVar("T")
CHAPTER = "ch07_small"
PATIENCE_S = 300.0
EXCLUSIVE = ("--resources", "exclusive=1")
_MORE_TESTS = '''

def note(kind):
    """Leave word of the judge that a test runs in, and of the Dask worker that it belongs to."""
    import os
    from pathlib import Path
    with open(Path(__file__).with_name("where.log"), "a") as log:
        log.write(f"{kind} {os.getppid()} {os.getpid()}\\n")


@pytest.mark.task("double")
def test_where_it_is(submission):
    note("plain")
    assert_matches(submission.double(4), 8)


@pytest.mark.timed
@pytest.mark.task("half")
def test_halves_in_time(submission):
    note("timed")
    assert_matches(submission.half(8), 4.0)
'''


class Cluster:
    """A scheduler, and workers that are ended with the test that started them."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._folder = folder
        self._environment = environment
        self._stack = ExitStack()
        file = folder / "scheduler.json"
        self._start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file), **environment)
        self.address = json.loads(_soon(lambda: file.exists() and file.read_text()))["address"]
        self._client = self._stack.enter_context(Client(self.address, set_as_default=False))

    def worker(self, *options: str, nthreads: int = 1, nanny: bool = False, **environment: str) -> int:
        """Start a worker; the id of the process that takes requests."""
        before = set(self.workers())
        options = ("--nanny" if nanny else "--no-nanny", "--no-dashboard", *options)
        options = (self.address, "--nthreads", str(nthreads), "--local-directory", str(self._folder), *options)
        self._start("worker", *options, **environment)
        (new,) = _soon(lambda: set(self.workers()) - before)
        return int(self._client.run(os.getpid, workers=[new])[new])

    def workers(self) -> list[str]:
        return list(self._client.scheduler_info()["workers"])

    def _start(self, *arguments: str, **environment: str) -> None:
        # quiet, and this copy of the project, whatever is installed
        variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **self._environment, **environment}
        command = [sys.executable, "-m", "dask", *arguments, "--host", "127.0.0.1"]
        with open(self._folder / "dask.log", "a") as log:
            process = subprocess.Popen(command, env=variables, cwd=self._folder, stdout=log, stderr=log)
        self._stack.callback(_end, process)

    def close(self) -> None:
        self._stack.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it has started."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for left in psutil.wait_procs(below, 20)[1]:
        left.kill()


def _soon(found: Callable[[], T]) -> T:
    """The first value that is one; fails where none comes."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """``clusters(**environment)``: a cluster without workers."""
    with ExitStack() as stack:

        def start(**environment: str) -> Cluster:
            folder = tmp_path / "dask"
            folder.mkdir()
            cluster = Cluster(folder, **environment)
            stack.callback(cluster.close)
            return cluster

        yield start


@pytest.fixture
def submitted(small_course: Path, small_notebook: Callable[..., Path]) -> Path:
    """Three students' work on the small chapter, which has a test that takes times as well."""
    tests = small_course / "exercises" / CHAPTER / f"test_{CHAPTER}.py"
    tests.write_text(tests.read_text(encoding="utf-8") + _MORE_TESTS, encoding="utf-8")
    hand_in(small_course, "ann", small_notebook("2 * x", "x / 2"))
    hand_in(small_course, "ben", small_notebook("x + x"))
    hand_in(small_course, "eve", small_notebook("1 / 0", "x * 0.5"))
    return small_course / "submitted"


def hand_in(course: Path, student: str, notebook: Path) -> None:
    folder = course / "submitted" / student / CHAPTER
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(notebook, folder / f"{CHAPTER}.ipynb")


def slow_ann(submitted: Path, notebook: Callable[..., Path]) -> Path:
    """Have ann hand in code that leaves a file the first time that it is asked for twice four, and then takes long."""
    at_it = submitted.parent / "at it"
    leave = f"(open({str(at_it)!r}, 'w').close(), __import__('time').sleep(15))"
    answer = f"[x != 4 or __import__('os').path.exists({str(at_it)!r}) or {leave}, 2 * x][1]"
    hand_in(submitted.parent, "ann", notebook(answer, "x / 2"))
    return at_it


def command(*options: str) -> subprocess.Popen[str]:
    """``autograder grade submitted …`` in the small course."""
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    arguments = [sys.executable, "-m", "autograder.cli", "grade", "submitted", "--isolation", "none", *options]
    return subprocess.Popen(arguments, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def reports(folder: Path) -> dict[str, str]:
    """What was written, without what differs from run to run: figures, and the times in none of them."""
    paths = [path for path in folder.rglob("*") if path.is_file() and ".store" not in path.parts]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}


def where(submitted: Path) -> list[tuple[str, int, int]]:
    """A (kind of test, worker, judge) for each test that has left word so far."""
    log = submitted.parent / "exercises" / CHAPTER / "where.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(kind, int(worker), int(judge)) for kind, worker, judge in map(str.split, lines)]


def test_a_cluster_gives_the_same_reports(submitted: Path, clusters: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = clusters()
    plain = cluster.worker(nanny=True)
    exclusive = cluster.worker(*EXCLUSIVE, nanny=True)
    there = command("--dask", cluster.address, "--out", str(tmp_path / "there"))
    out, err = there.communicate(timeout=PATIENCE_S)
    assert there.returncode == 0, err
    assert "3 submissions: 3 graded" in out
    judged = [(kind, worker) for kind, worker, _ in where(submitted) if worker in (plain, exclusive)]
    assert {worker for kind, worker in judged if kind == "timed"} == {exclusive}
    assert {worker for kind, worker in judged if kind == "plain"} <= {plain, exclusive}
    here = command("--force", "--jobs", "1", "--out", str(tmp_path / "here"))
    _, err = here.communicate(timeout=PATIENCE_S)
    assert here.returncode == 0, err
    assert reports(tmp_path / "there") == reports(tmp_path / "here")
    assert len(reports(tmp_path / "here")) == 9
    # the judges go with the batch, the workers stay
    judges = {judge for _, worker, judge in where(submitted) if worker in (plain, exclusive)}
    assert judges
    assert _soon(lambda: not any(psutil.pid_exists(judge) for judge in judges))
    assert len(cluster.workers()) == 2


@pytest.mark.parametrize("allowed_failures", [3, pytest.param(0, marks=pytest.mark.thorough)])
def test_a_worker_that_dies_costs_a_retry(
    submitted: Path,
    small_notebook: Callable[..., Path],
    clusters: Callable[..., Cluster],
    tmp_path: Path,
    allowed_failures: int,
) -> None:
    """Where the scheduler is told to try nothing twice, the request that the worker was at is all that is lost."""
    at_it = slow_ann(submitted, small_notebook)
    guards_of(Course(submitted.parent, "none"), CHAPTER)  # remembered: ann's is the first request
    (submitted.parent / "exercises" / CHAPTER / "where.log").unlink()
    cluster = clusters(DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=str(allowed_failures))
    victim = cluster.worker(*EXCLUSIVE)
    batch = command("--dask", cluster.address, "--out", str(tmp_path / "out"))
    _soon(at_it.exists)
    os.kill(victim, signal.SIGKILL)
    second = cluster.worker(*EXCLUSIVE)
    out, err = batch.communicate(timeout=PATIENCE_S)
    judges = {judge for _, worker, judge in where(submitted) if worker == victim}
    assert len(judges) == 1
    assert _soon(lambda: not any(map(psutil.pid_exists, judges))), "a judge outlived its worker"
    tried = [worker for kind, worker, _ in where(submitted) if kind == "plain"]
    if allowed_failures:
        assert batch.returncode == 0, err
        assert "3 submissions: 3 graded" in out
        assert tried == [victim, second, second, second]
    else:
        assert batch.returncode == 1
        assert tried == [victim, second, second]
        assert "3 submissions: 2 graded, 1 not graded" in out
        assert "ann/ch07_small: the workers that tried it ended, the last at tcp:" in out
    assert json.loads((tmp_path / "out" / "ben" / f"{CHAPTER}.json").read_text())["score"] == 2


def test_without_a_scheduler(
    submitted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autograder.cluster.CONNECT_LIMIT_S", 2)
    assert main(["grade", str(submitted), "--dask", "127.0.0.1:9", "--isolation", "none"]) == 1
    err = capsys.readouterr().err
    assert "--dask 127.0.0.1:9: no Dask scheduler answers there" in err
    assert "Start one with `dask scheduler`" in err


def test_what_is_wrong_with_a_cluster_is_said_before_anything_is_graded(
    submitted: Path, clusters: Callable[..., Cluster], project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = clusters()

    def said(*options: str) -> str:
        assert main(["grade", str(submitted), "--dask", cluster.address, "--isolation", "none", *options]) == 1
        return capsys.readouterr().err

    assert "there is no worker. Start some: dask worker tcp://" in said()
    cluster.worker("--name", "plain")
    assert f"{CHAPTER}: some tests take times, and no worker has its machine to itself" in said()
    assert "there is no worker with a GPU (--device cuda)" in said("--device", "cuda")
    with pytest.raises(ClinicError, match=r"worker plain at tcp\S+: it cannot see the course's folder"):
        ClusterJudges(cluster.address, Course(tmp_path / "elsewhere", "none"), [])

    copy = tmp_path / "copy"
    shutil.copytree(project / "autograder", copy / "autograder", ignore=shutil.ignore_patterns("__pycache__"))
    with open(copy / "autograder" / "wire.py", "a") as file:
        file.write("# newer\n")
    cluster.worker("--name", "newer", *EXCLUSIVE, PYTHONPATH=str(copy))
    cluster.worker("--name", "second", *EXCLUSIVE)
    err = said()
    assert re.search(
        rf"worker newer at tcp\S+: .* another autograder or another torch than are used here, for {CHAPTER}", err
    )
    assert "worker plain" not in err and "worker second" not in err
    assert "2 workers say that they have this machine to themselves" in err
    cluster.worker("--name", "wide", nthreads=2)
    assert "worker wide at tcp://" in (err := said())
    assert "more than one thread" in err
    assert not (submitted.parent / "reports").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is Linux's")
def test_a_worker_without_the_isolation_asked_for(submitted: Path, clusters: Callable[..., Cluster]) -> None:
    cluster = clusters()
    cluster.worker(*EXCLUSIVE, PATH="/nowhere")
    with pytest.raises(ClinicError, match=r"worker tcp\S+: bubblewrap"):
        ClusterJudges(cluster.address, Course(submitted.parent, "bubblewrap"), [CHAPTER])


@pytest.mark.thorough
def test_a_scheduler_that_goes_ends_the_batch(
    submitted: Path, small_notebook: Callable[..., Path], clusters: Callable[..., Cluster], tmp_path: Path
) -> None:
    at_it = slow_ann(submitted, small_notebook)
    cluster = clusters()
    cluster.worker(*EXCLUSIVE)
    batch = command("--dask", cluster.address, "--out", str(tmp_path / "out"))
    _soon(at_it.exists)
    cluster.close()
    _, err = batch.communicate(timeout=PATIENCE_S)
    assert batch.returncode == 1
    assert "the same command goes on from what is graded" in err
