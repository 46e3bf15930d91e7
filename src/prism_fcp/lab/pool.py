"""Many trials on the cores: threads for compiled code, processes for Python, and nobody left behind on Ctrl-C.

A warning is this process's wherever its trial ran: what filters it, and that it is shown once, do not depend on `jobs`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from prism_fcp.errors import PrismError

T = TypeVar("T")
Kind: TypeAlias = Literal["threads", "processes"]
AHEAD: Final = 4  # trials submitted for each worker
_SHOWN: Final[dict[Any, Any]] = {}  # the workers' warnings that were shown, as each module keeps its own


class _Noted(NamedTuple):
    """What a worker sends back: the task's value, and the warnings on the way."""

    value: Any
    warnings: list[tuple[Warning, str, int]]  # each with the file and line it came from


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def most_jobs() -> int:
    """Return how many trials may run side by side: a few a core, beyond which only memory is spent."""
    return 4 * cores()


def run_all(
    task: Callable[[int], T],
    trials: Iterable[int],
    jobs: int,
    kind: Kind,
    own: Callable[[int], Callable[[int], T]] | None = None,
) -> Iterator[tuple[int, T]]:
    """Yield `(trial, task(trial))` as trials finish. Leaving early stops the rest and leaves no process behind.

    `own(trial)` is the task without what other trials need, for a task that is large to send to a process.
    No more than `most_jobs()` run side by side, and few more are looked at ahead: trials may be millions.
    """
    jobs = min(jobs, most_jobs())
    left = iter(trials)
    first = list(islice(left, jobs))
    left = chain(first, left)
    if len(first) <= 1:
        for trial in left:
            yield trial, task(trial)
        return
    workers = len(first)
    if kind == "threads":
        with ThreadPoolExecutor(workers) as threads:
            yield from _collect(threads, task, left, workers * AHEAD)
        return
    context = multiprocessing.get_context("spawn")
    leash, held = context.Pipe(duplex=False)  # workers hold the leash; when `held` closes, or we die, they leave
    try:
        with ProcessPoolExecutor(workers, context, initializer=_enter_worker, initargs=(leash,)) as executor:

            def submit(trial: int) -> Future[_Noted]:
                with _without_interrupts():
                    return executor.submit(_note, own(trial) if own else task, trial)

            try:
                for trial, noted in _finished(submit, left, workers * AHEAD):
                    for warning, file, line in noted.warnings:
                        warnings.warn_explicit(warning, None, file, line, registry=_SHOWN)
                    yield trial, noted.value
            except BrokenProcessPool as error:
                raise PrismError(
                    "a worker process died: too little memory, or a script that calls this outside "
                    "`if __name__ == '__main__':`; mend that or use jobs=1"
                ) from error
            except BaseException:
                held.close()  # running trials are given up, not waited for
                executor.shutdown(wait=True, cancel_futures=True)
                raise
    finally:
        held.close()
        leash.close()


def _collect(
    executor: Executor, task: Callable[[int], T], trials: Iterator[int], window: int
) -> Iterator[tuple[int, T]]:
    try:
        yield from _finished(lambda trial: executor.submit(task, trial), trials, window)
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)  # a thread cannot be stopped: its trial runs to its end
        raise


def _finished(submit: Callable[[int], Future[T]], trials: Iterator[int], window: int) -> Iterator[tuple[int, T]]:
    """Yield trials as they finish, with never more than `window` of them submitted."""
    waiting = {submit(trial): trial for trial in islice(trials, window)}
    while waiting:
        ready = sorted(wait(waiting, return_when=FIRST_COMPLETED).done, key=waiting.__getitem__)
        for future in ready:
            found = waiting.pop(future)
            waiting |= {submit(trial): trial for trial in islice(trials, 1)}
            yield found, future.result()


def _note(task: Callable[[int], Any], trial: int) -> _Noted:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("default")
        value = task(trial)
    return _Noted(value, [(n.message, n.filename, n.lineno) for n in noted if isinstance(n.message, Warning)])


def _enter_worker(leash: Connection) -> None:
    def wait_for_the_end() -> None:
        try:
            leash.recv()
        except (EOFError, OSError):
            pass
        os._exit(1)

    threading.Thread(target=wait_for_the_end, daemon=True).start()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back while workers start: they inherit the block for good, this process gets the signal after it."""
    resource_tracker.ensure_running()  # it unblocks SIGINT when it starts, so it must have started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
