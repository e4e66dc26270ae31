"""The workers of a fit: the parts that they hold, questions to all of them, and the recovery of lost parts.

A part is lost with its worker. Another worker then loads its rows again, takes its labels from the last copy on a
second worker (or from the start), and repeats all commands since then: the fit continues with the same labels. Every
wait has a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from distributed import Client, Future, wait
from distributed.comm import CommClosedError

from dpmmwrap.backends.dask import ClusterError, worker
from dpmmwrap.backends.dask.calls import (
    PATIENCE,
    Caller,
    LabelFiles,
    Log,
    LostAgain,
    Overdue,
    Traffic,
    is_loss,
    ping,
    remove_worker,
)
from dpmmwrap.backends.dask.part import Command, Recipe
from dpmmwrap.backends.dask.worker import Loss, Request
from dpmmwrap.numerics.chunks import Stretch

logger = logging.getLogger(__name__)

REPLACED_WITHIN = 15.0
"""Seconds in which a lost worker may come back (its nanny restarts it) before others take over its parts."""
PING = 10.0
"""Seconds in which a worker must answer a ping, however busy it is."""
VERSIONS_WITHIN = 60.0
"""Seconds in which workers must import this package."""
NO_WORKERS = 120.0
"""Seconds to wait for any worker at all."""
MOST_LOSSES = 100
"""The largest number of losses in a fit."""
COPY_EVERY = 25
"""Iterations from one copy of the labels on other workers to the next."""

Load = Callable[["Cluster", int, str], list[Future]]
"""Makes the tasks that load a part's rows onto the worker at an address, also after a loss."""


class Cluster(Caller):
    """The workers of one fit, seen from the client."""

    def __init__(self, client: Client, addresses: list[str]) -> None:
        super().__init__(client)
        self.kinds: tuple[str, ...] = ()
        self.draws = False
        self.name = f"dpmmwrap-{uuid.uuid4().hex[:12]}"
        self.addresses = addresses
        self.expected = len(addresses)
        self.owner: dict[int, str] = {}
        self.stretches: dict[int, Stretch] = {}
        self.load: Load | None = None
        self.recipe: Recipe | None = None
        self.given: dict[tuple[str, int], Any] = {}
        self.logs: dict[int, Log] = {}
        self.copies: dict[tuple[int, int], tuple[int, str]] = {}
        """By part and chain: the number of commands that the copy has seen, and the worker that keeps it."""
        self.saved: dict[int, LabelFiles] = {}
        """The files of the checkpoint, by chain."""
        self.losses = 0
        self.traffic: dict[str, Traffic] = {}
        """By the name of the command or question."""

    # The parts.

    def share_out(self, whole: Stretch, weights: list[int]) -> None:
        """Give each worker groups of rows in proportion to its threads."""
        total, groups = sum(weights), len(whole.groups) - 1
        # Each worker needs few nodes of the tree of sums if its groups begin and end at coarse nodes.
        grain = 1 << max(0, (groups // (32 * len(weights))).bit_length() - 1)
        edges, sofar = [0], 0
        for weight in weights:
            sofar += weight
            edges.append(round(groups * sofar / total / grain) * grain)
        edges[-1] = groups
        number = 0
        for address, begin, end in zip(self.addresses, edges[:-1], edges[1:], strict=True):
            if end > begin:
                self.stretches[number], self.owner[number] = whole.part(begin, end), address
                number += 1

    def follow(self, recipe: Recipe) -> bool:
        """Make the points of all parts, also of those that will be loaded again; whether they are finite."""
        # A part that is lost and loaded again meanwhile needs the recipe, too.
        self.recipe = recipe
        finite = self.each(lambda part: ("follow", recipe))
        return all(finite.values())

    def give(self, name: str, values: Any) -> None:
        """Send each part its share of labels that the user gave."""
        for part, stretch in self.stretches.items():
            self.given[name, part] = values[stretch.first_row : stretch.first_row + stretch.n_rows]
        self.each(lambda part: ("give", name, self.given[name, part]))

    def close(self) -> None:
        """Tell the workers to forget the fit."""
        with contextlib.suppress(Exception):
            self._run(worker.close_fit, (self.name,), self.alive(), 10.0)

    def check_versions(self, addresses: list[str]) -> str | None:
        """Refuse workers with other versions. Returns a sentence if their processors differ."""
        ours = worker.versions()
        processors = {ours["processor"]}
        for address, theirs in self._run(worker.versions, (), addresses, VERSIONS_WITHIN).items():
            if is_loss(theirs):
                continue
            if isinstance(theirs, Exception):
                raise ClusterError(f"the worker {address} cannot import dpmmwrap: {theirs}")
            for name, version in ours.items():
                if name != "processor" and theirs[name] != version:
                    raise ClusterError(
                        f"the worker {address} has {name} {theirs[name]} and this process {version}: all need the same"
                    )
            processors.add(theirs["processor"])
        if len(processors) == 1:
            return None
        return f"processors differ ({', '.join(sorted(processors))}): labels may differ from those of one machine"

    # Questions.

    def ask(
        self, chain: int, commands: Iterable[Command] = (), query: Command | None = None, *, of_points: bool = False
    ) -> dict[int, Any]:
        """Send commands and a question to all parts, even if workers are lost meanwhile. Returns answers by part."""
        log = self.logs.setdefault(chain, Log())
        first = len(log)
        for command in commands:
            log.append(command)
        answers: dict[int, Any] = {}
        while len(answers) < len(self.owner):
            by_worker: dict[str, list[int]] = {}
            for part in set(self.owner) - set(answers):
                by_worker.setdefault(self.owner[part], []).append(part)
            answers |= self._asked(Request(self.name, chain, first, log.since(first), query, of_points), by_worker)
        return dict(sorted(answers.items()))

    def ask_points(self, name: str, *arguments: Any) -> list[Any]:
        """Call a method of `Part` about the points of each part."""
        return list(self.ask(0, query=(name, arguments), of_points=True).values())

    def _asked(self, request: Request, by_worker: dict[str, list[int]]) -> dict[int, Any]:
        """Ask once. Other workers take over parts that do not answer."""
        sent = pickle.dumps(request, protocol=5)
        replies = self._run(worker.answer, (sent, by_worker), list(by_worker))
        received, lost = 0, set[str]()
        by_part: dict[int, Any] = {}
        for address in by_worker:
            reply = replies.get(address)
            if not isinstance(reply, bytes):
                # If there is no reply because another worker timed out, ask again.
                if isinstance(reply, Overdue):
                    raise ClusterError(f"waited {PATIENCE:.0f} s for a step of the workers after {self.doing}")
                if is_loss(reply):
                    lost.add(address)
                elif isinstance(reply, Exception):
                    raise reply
                continue
            received += len(reply)
            answers = pickle.loads(reply)
            if isinstance(answers, Exception):
                raise answers
            if any(isinstance(answer, Loss) for answer in answers.values()):
                lost.add(address)
            by_part |= {part: answer for part, answer in answers.items() if not isinstance(answer, Loss)}
        name = request.query[0] if request.query is not None else request.commands[-1][0]
        self.traffic[name] = self.traffic.get(name, Traffic()).plus(len(sent) * len(by_worker), received)
        if lost:
            self._recover(lost)
        return by_part

    def each(self, call: Callable[[int], tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of each part, by its name and arguments. Returns answers by part."""
        answers: dict[int, Any] = {}
        while len(answers) < len(self.owner):
            lost = set()
            for part in sorted(set(self.owner) - set(answers)):
                address = self.owner[part]
                reply = self._run(worker.on_part, (self.name, part, *call(part)), [address]).get(address)
                if isinstance(reply, KeyError) or is_loss(reply):
                    lost.add(address)
                elif isinstance(reply, Exception):
                    raise reply
                else:
                    answers[part] = reply
            if lost:
                self._recover(lost)
        return answers

    # Losses.

    def _recover(self, lost: set[str]) -> None:
        """Restore the parts of lost workers on others."""
        self.losses += 1
        if self.losses > MOST_LOSSES:
            raise ClusterError(f"workers were lost or did not answer more than {MOST_LOSSES} times: the fit ends")
        logger.warning("lost %s after %s: other workers take over", ", ".join(sorted(lost)), self.doing)
        self._give_up(lost)
        parts = sorted(part for part, address in self.owner.items() if address in lost)
        self._placed(parts, self._replacements())

    def _give_up(self, lost: set[str]) -> None:
        """Remove workers that do not answer from the cluster, so that nothing waits for their results. A worker that
        has lost its parts but answers may be used again."""
        there = set(self._workers()) & lost
        here = {address for address in there if self._run(ping, (), [address], PING).get(address) == "here"}
        dead = lost - here
        self.given_up |= dead
        for address in dead & there:
            with contextlib.suppress(Exception):
                self.client.sync(self.client.run_on_scheduler, remove_worker, address, callback_timeout=20)

    def _replacements(self) -> list[str]:
        """Workers that can take over, after some time in which lost ones may come back."""
        begun = time.monotonic()
        while True:
            alive, waited = self.alive(), time.monotonic() - begun
            if len(alive) >= self.expected or (alive and waited > REPLACED_WITHIN):
                return alive
            if waited > NO_WORKERS:
                raise ClusterError(
                    f"no worker came back within {NO_WORKERS:.0f} s after {self.doing}; a fit with a checkpoint "
                    "resumes from there when there are workers again"
                )
            time.sleep(0.2)

    def _placed(self, parts: list[int], candidates: list[str] | None = None) -> None:
        """Load parts onto their owners, or onto the candidates with fewest parts, and bring them up to date."""
        if candidates is not None:
            self.check_versions(candidates)
            self._run(worker.prepare, (self.kinds, self.draws), candidates)
            for part in parts:
                burden = {a: sum(owner == a for p, owner in self.owner.items() if p not in parts) for a in candidates}
                taken = {a: sum(self.owner[p] == a for p in parts if p < part) for a in candidates}
                self.owner[part] = min(candidates, key=lambda a: burden[a] + taken[a])
        threads = {address: info["nthreads"] for address, info in self._workers().items()}
        tasks: list[Future] = []
        try:
            for part in parts:
                address = self.owner[part]
                arguments = (self.name, part, self.stretches[part], threads.get(address, 1))
                if is_loss(self._run(worker.open_part, arguments, [address]).get(address)):
                    raise CommClosedError(address)
                assert self.load is not None
                tasks += self.load(self, part, address)
            self._await(tasks, "the rows of the data")
            for part in parts:
                self._bring_up_to_date(part)
        except LostAgain as error:
            self._recover({self.owner[part] for part in parts if self.owner[part] in error.addresses})
        except CommClosedError as error:
            self._recover({str(error)})

    def _await(self, tasks: list[Future], what: str) -> None:
        """Wait for tasks as long as their workers are alive."""
        end = time.monotonic() + PATIENCE
        pending = list(tasks)
        while pending:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                wait(pending, timeout=2.0)
            for task in [task for task in pending if task.done()]:
                if task.status != "finished":
                    gone = set(self.owner.values()) - set(self.alive())
                    if gone:
                        raise LostAgain(gone)
                    raise ClusterError(f"{what} could not be brought to a worker: {task.exception()}")
                pending.remove(task)
            gone = set(self.owner.values()) - set(self.alive()) if pending else set()
            if gone:
                for task in pending:
                    task.cancel()
                raise LostAgain(gone)
            if time.monotonic() > end:
                raise ClusterError(f"waited {PATIENCE:.0f} s for {what}: are the workers busy?")

    def _bring_up_to_date(self, part: int) -> None:
        """Restore the points and labels of a part that has just been loaded, and repeat its commands."""
        address = self.owner[part]

        def run(method: str, *arguments: Any) -> None:
            reply = self._run(worker.on_part, (self.name, part, method, *arguments), [address]).get(address)
            if is_loss(reply):
                raise LostAgain({address})
            if isinstance(reply, Exception):
                raise reply

        if self.recipe is not None:
            run("follow", self.recipe)
        for (name, its_part), values in self.given.items():
            if its_part == part:
                run("give", name, values)
        for chain, log in self.logs.items():
            seen = self._restored(part, chain, address)
            if seen < log.first:
                raise ClusterError(
                    f"the labels of the rows from {self.stretches[part].first_row:,} on were lost with two workers at "
                    "once; a fit with a checkpoint resumes from there"
                )
            # One by one, as each may take as long as a step.
            for number, command in enumerate(log.since(seen), seen):
                request = pickle.dumps(Request(self.name, chain, number, [command]), protocol=5)
                reply = self._run(worker.answer, (request, {address: [part]}), [address]).get(address)
                if not isinstance(reply, bytes):
                    raise LostAgain({address})
                answers = pickle.loads(reply)
                if isinstance(answers, Exception):
                    raise answers

    def _restored(self, part: int, chain: int, address: str) -> int:
        """Restore labels from the copy or the checkpoint that has seen most commands. Returns their number."""
        seen, keeper = self.copies.get((part, chain), (-1, ""))
        saved = self.saved.get(chain)
        if keeper and (saved is None or seen >= saved.done):
            reply = self._run(worker.fetch_copy, (self.name, part, chain, keeper), [address]).get(address)
            if isinstance(reply, int):
                return reply
            del self.copies[part, chain]
            if address not in self.alive():
                raise LostAgain({address})
        if saved is None:
            return 0
        reply = self._run(worker.on_part, (self.name, part, "read_labels", chain, *saved), [address]).get(address)
        if reply is not None:
            raise reply if isinstance(reply, Exception) and not is_loss(reply) else LostAgain({address})
        return saved.done

    def copy_labels(self, chain: int) -> None:
        """Copy each part's labels to another worker, if there is one."""
        others = sorted(self.alive())
        if len(others) < 2:
            return
        log, wanted = self.logs[chain], dict[str, list[tuple[int, int, str]]]()
        for part, address in self.owner.items():
            second = others[(others.index(address) + 1) % len(others)] if address in others else others[0]
            wanted.setdefault(second, []).append((part, chain, address))
        seen = []
        for second, parts in wanted.items():
            reply = self._run(worker.keep_copies, (self.name, parts, 1), [second]).get(second)
            if isinstance(reply, dict):
                self.copies |= {(part, chain): (done, second) for part, done in reply.items()}
                seen += list(reply.values())
        if len(seen) == len(self.owner):
            log.trim(min(seen))
