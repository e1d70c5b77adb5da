"""Worker processes that judge numbered cases, and a parent that watches over them."""

import json
import multiprocessing as mp
import os
import signal
import threading
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

STUCK = 240.0
MEMORY = 16 * 2**30


def own_seconds(pid: int) -> float:
    """Seconds that a process has computed, NaN where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def work(
    cases: str,
    seed: int,
    only: str,
    chunks: Any,
    results: Any,
    at: Any,
    since: Any,
    own: Any,
) -> None:
    """Judge chunk after chunk; `at`, `since` and `own` tell where this one is."""
    import gc
    import resource

    # Soft: sanitisers map more than there is, and lift it.
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    import warnings

    import sklearn

    # Of drawing and comparing; the calls themselves are watched by `judge.call`.
    warnings.simplefilter("ignore")
    sklearn.set_config(working_memory=16)
    from tests.fuzz import judge

    there = import_module(cases)
    case, judge.SECONDS = there.case, there.SECONDS
    # What was imported stays: looking at it again and again costs a call in eight.
    gc.collect()
    gc.freeze()

    while (task := chunks.get()) is not None:
        chunk, first, last = task
        counts: Counter = Counter()
        defects = []
        for number in range(first, last):
            at.value, since.value, own.value = number, time.time(), time.process_time()
            try:
                outcomes, describe = case(seed, number, only)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    return
                counts["defect"] += 1
                defects.append((number, "harness", f"harness {type(error).__name__}",
                                repr(error), ""))  # fmt: skip
                continue
            for outcome in outcomes:
                counts[outcome.sort] += 1
                if outcome.sort == "defect":
                    defects.append((number, outcome.call, outcome.kind, outcome.detail,
                                    describe()))  # fmt: skip
        at.value = -1
        results.put((chunk, first, last, dict(counts), defects))


class Worker:
    """A process, and the case it is in."""

    def __init__(self, context: Any, cases: str, seed: int, only: str, results: Any):
        self.chunks = context.SimpleQueue()
        self.at, self.since = context.Value("q", -1), context.Value("d", time.time())
        self.own = context.Value("d", 0.0)
        self.task: tuple | None = None
        told = (self.at, self.since, self.own)
        self.process = context.Process(
            target=work, args=(cases, seed, only, self.chunks, results, *told)
        )
        self.process.start()

    def give(self, task: tuple | None) -> None:
        self.task = task
        self.since.value = time.time()
        self.chunks.put(task)

    def stuck(self) -> str:
        if self.task is None:
            return ""
        if not self.process.is_alive():
            return f"the process died ({self.process.exitcode})"
        if self.at.value >= 0 and time.time() - self.since.value > STUCK:
            # A crowded machine is no hang: busy for so long, or waiting all the time.
            spent = own_seconds(self.process.pid) - self.own.value
            if not 1 < spent < STUCK:
                return f"hang, more than {STUCK:.0f} s"
        return ""

    def end(self) -> None:
        self.process.kill()
        # What it started itself may outlive it, and holds the pipe that tells its end.
        self.process.join(5)


def run(
    calls: int,
    seconds: float,
    seed: int = 0,
    jobs: int = 1,
    state: Path | None = None,
    only: str = "",
    cases: str = "tests.fuzz.functions",
) -> dict:
    """Fuzz until so many calls or seconds; return counts and one defect per kind.

    `cases` is a module that knows numbered cases, how many of them a worker takes at a
    time, and the seconds that a call may take.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    # Tensors are asked for by scikit-learn, which asks SciPy first.
    for name in (*names, "SCIPY_ARRAY_API"):
        os.environ.setdefault(name, "1")
    size = import_module(cases).CHUNK
    os.environ["WIDEMARGIN_FUZZ_WARM"] = "1"
    held: dict = {"seed": seed, "next": 0, "again": [], "counts": {}, "kinds": {}}
    if state and state.exists():
        held = json.loads(state.read_text())
        if held["seed"] != seed:
            raise SystemExit(f"{state} belongs to seed {held['seed']}, not {seed}.")
    counts = Counter(held["counts"])
    kinds: dict[str, dict] = held["kinds"]
    context = mp.get_context("forkserver")
    # Imported and compiled once, in the process that all workers are copies of.
    context.set_forkserver_preload(["tests.fuzz.warm"])
    results = context.SimpleQueue()
    workers = [Worker(context, cases, seed, only, results) for _ in range(jobs)]
    begun, open_tasks = time.time(), {}
    # Whoever ends this ends the workers with it.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    again = [tuple(task) for task in held["again"]]
    following = held["next"]

    def note(defect: tuple) -> None:
        number, title, kind, detail, code = defect
        known = kinds.setdefault(
            f"{title}: {kind}",
            {"count": 0, "case": number, "detail": detail, "code": code},
        )
        known["count"] += 1

    def save() -> None:
        if state:
            rest = again + list(open_tasks.values())
            held.update(next=following, again=rest, counts=counts, kinds=kinds)
            state.write_text(json.dumps(held))

    try:
        saved = time.time()
        while True:
            done = sum(counts.values())
            over = done >= calls or time.time() - begun >= seconds
            for worker in workers:
                if worker.task is None and not over:
                    if again:
                        task = again.pop()
                    else:
                        task = (following, following * size, (following + 1) * size)
                        following += 1
                    open_tasks[task[0]] = task
                    worker.give(task)
            if over and (not open_tasks or time.time() - begun > seconds + 5):
                break
            while not results.empty():
                chunk, _, _, sorts, defects = results.get()
                counts.update(sorts)
                for defect in defects:
                    note(defect)
                open_tasks.pop(chunk, None)
                for worker in workers:
                    if worker.task and worker.task[0] == chunk:
                        worker.task = None
            for i, worker in enumerate(workers):
                said = worker.stuck()
                if said:
                    number = worker.at.value
                    if number < 0:
                        raise RuntimeError(f"a worker did not start: {said}")
                    chunk, _, last = worker.task or (0, 0, 0)
                    worker.end()
                    counts["defect"] += 1
                    note((number, "process", f"{said.split(',')[0]} in case {number}",
                          said, ""))  # fmt: skip
                    if number + 1 < last:
                        task = (chunk, number + 1, last)
                        open_tasks[chunk] = task
                        again.append(task)
                    open_tasks.pop(chunk, None)
                    workers[i] = Worker(context, cases, seed, only, results)
            if time.time() - saved > 10:
                save()
                saved = time.time()
            time.sleep(0.02)
    except KeyboardInterrupt:
        pass
    finally:
        for worker in workers:
            worker.end()
        save()
    seconds, n_cases = time.time() - begun, following * size
    return {"counts": counts, "kinds": kinds, "seconds": seconds, "cases": n_cases}
