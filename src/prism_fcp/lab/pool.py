"""Many trials on the cores: threads for compiled code, processes for Python, and nobody left behind on Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Literal, TypeAlias, TypeVar

from prism_fcp.errors import PrismError

T = TypeVar("T")
Kind: TypeAlias = Literal["threads", "processes"]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(task: Callable[[int], T], trials: Sequence[int], jobs: int, kind: Kind) -> Iterator[tuple[int, T]]:
    """Yield `(trial, task(trial))` as trials finish. Leaving early stops the rest and leaves no process behind."""
    if jobs == 1 or len(trials) <= 1:
        for trial in trials:
            yield trial, task(trial)
        return
    workers = min(jobs, len(trials))
    if kind == "threads":
        with ThreadPoolExecutor(workers) as executor:
            yield from _collect(executor, task, trials)
        return
    context = multiprocessing.get_context("spawn")
    leash, held = context.Pipe(duplex=False)  # workers hold the leash; when `held` closes, or we die, they leave
    try:
        with ProcessPoolExecutor(workers, context, initializer=_enter_worker, initargs=(leash,)) as executor:
            try:
                with _without_interrupts():
                    futures = _submit(executor, task, trials)
                yield from _finished(futures)
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


def _collect(executor: Executor, task: Callable[[int], T], trials: Iterable[int]) -> Iterator[tuple[int, T]]:
    try:
        yield from _finished(_submit(executor, task, trials))
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)  # a thread cannot be stopped: its trial runs to its end
        raise


def _submit(executor: Executor, task: Callable[[int], T], trials: Iterable[int]) -> dict[Future[T], int]:
    return {executor.submit(task, trial): trial for trial in trials}


def _finished(futures: dict[Future[T], int]) -> Iterator[tuple[int, T]]:
    for future in as_completed(futures):
        yield futures[future], future.result()


def _enter_worker(leash: Connection) -> None:
    warnings.simplefilter("ignore")  # what a warning says is in the result; a worker's stderr is nobody's

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
