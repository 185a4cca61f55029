"""Power-cut campaigns and scans of many images, on this machine or on a Ray cluster.

    python -m eraseblock.distributed powercut --out runs --engine ray -- --target ubifs --sequences pair
    python -m eraseblock.distributed scan --out rows *.ubi
    python -m eraseblock.distributed merge runs

The work is divided into units that do not depend on each other: a sequence of operations, or an image. Each unit
runs in a process of its own with limits of time and memory, so that a crash or a hang is a row of the result. Rows
are Parquet files in ``OUT/rows``. Started again with the same arguments, a run goes on where it ended.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

Engine = Literal["local", "ray"]

PROGRAM = (sys.executable, "-m", "eraseblock")
"""The command, as the package on each machine has it."""

TAIL = 2000
"""Bytes of the standard error of a failed unit that its row keeps."""

_TEXT, _NUMBER = pa.string(), pa.int64()

_HEAD = [("unit", _TEXT), ("status", _TEXT), ("signal", _NUMBER), ("message", _TEXT), ("row", _TEXT)]

_FILE = pa.struct(
    [("volume", _TEXT), ("volume_id", _NUMBER), ("path", _TEXT), ("kind", _TEXT), ("mode", _NUMBER), ("uid", _NUMBER),
     ("gid", _NUMBER), ("mtime", _NUMBER), ("size", pa.uint64()), ("sha256", _TEXT), ("target", _TEXT), ("error", _TEXT)]
)
_VOLUME = pa.struct(
    [("id", _NUMBER), ("name", _TEXT), ("file_name", _TEXT), ("kind", _TEXT), ("size", _NUMBER), ("error", _TEXT)]
)
_FINDING = pa.struct([("severity", _TEXT), ("code", _TEXT), ("message", _TEXT)])

SCHEMAS = {
    "powercut": pa.schema(_HEAD),
    "scan": pa.schema(
        [*_HEAD[:4], ("error", _TEXT), ("kind", _TEXT), ("volumes", pa.list_(_VOLUME)),
         ("files", pa.list_(_FILE)), ("findings", pa.list_(_FINDING))]
    ),
}
"""The columns of the rows of each kind of work."""


class NotDeterministic(Exception):
    """Two runs of a unit have different results."""


@dataclass(frozen=True)
class Work:
    """What the rows of a folder depend on, apart from the units."""

    kind: Literal["powercut", "scan"]
    arguments: tuple[str, ...]
    program: tuple[str, ...] = PROGRAM
    seconds: float = 3600
    memory: int = 8 << 30

    def command(self, unit: str) -> list[str]:
        """Return the command that runs a unit."""
        if self.kind == "scan":
            return [*self.program, "scan", *self.arguments, "--", unit]
        return [*self.program, "lab", "powercut", *self.arguments, "--unit", unit]

    def run(self, unit: str) -> dict[str, Any]:
        """Run a unit in a process of its own; whatever happens there is a row."""
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))

        row: dict[str, Any] = {"unit": unit, "status": "done", "signal": None, "message": None}
        environment = os.environ | {"RAYON_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                self.command(unit), capture_output=True, timeout=self.seconds, preexec_fn=limit,
                stdin=subprocess.DEVNULL, env=environment,
            )
        except subprocess.TimeoutExpired:
            return row | {"status": "timeout"}
        lines = done.stdout.decode().splitlines()
        if done.returncode < 0 or len(lines) != 1:
            message = done.stderr[-TAIL:].decode(errors="replace")
            return row | {"status": "crashed", "signal": max(-done.returncode, 0), "message": message}
        if self.kind == "powercut":
            return row | {"row": lines[0]}
        found = json.loads(lines[0])
        names = SCHEMAS["scan"].names
        return row | {name: found[name] for name in names if name in found}

    def table(self, units: Iterable[str]) -> pa.Table:
        """Run units, and return their rows."""
        return pa.Table.from_pylist([self.run(unit) for unit in units], schema=SCHEMAS[self.kind])


@dataclass(frozen=True)
class Summary:
    """The sum of the rows of all units. It depends on neither their order nor the number of runs."""

    units: int
    statuses: dict[str, int]
    counts: dict[str, Any]
    digest: str
    violations: tuple[dict[str, Any], ...]
    failed: tuple[str, ...]

    def text(self) -> str:
        """Return the summary as a document whose bytes are equal for equal results."""
        return json.dumps(vars(self), indent=1, sort_keys=True) + "\n"


def powercut(
    arguments: Sequence[str], out: str | os.PathLike[str], *, engine: Engine = "local", batch: int = 32,
    workers: int | None = None, program: Sequence[str] = PROGRAM, seconds: float = 3600, memory: int = 8 << 30,
) -> Summary:
    """Judge all units of ``eraseblock lab powercut`` with these arguments, and return the sum.

    ``workers`` is the number of units at a time on this machine, all processors if None; a Ray cluster that runs already has its own.
    Raises subprocess.CalledProcessError if the arguments are no campaign, ValueError if ``out`` has another one.
    """
    work = Work("powercut", tuple(arguments), tuple(program), seconds, memory)
    command = [*program, "lab", "powercut", *arguments, "--list-units"]
    units = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return _perform(work, units, Path(out), engine, batch, workers)


def scan(
    images: Iterable[str | os.PathLike[str]], out: str | os.PathLike[str], *, engine: Engine = "local",
    batch: int = 32, workers: int | None = None, files: bool = True, program: Sequence[str] = PROGRAM,
    seconds: float = 600, memory: int = 4 << 30,
) -> Summary:
    """Scan images: a row with volumes, files and findings for each one. Paths are those the workers see.

    Raises ValueError if ``out`` has another scan.
    """
    arguments = () if files else ("--no-files",)
    work = Work("scan", arguments, tuple(program), seconds, memory)
    return _perform(work, [os.path.abspath(image) for image in images], Path(out), engine, batch, workers)


def _perform(work: Work, units: list[str], out: Path, engine: Engine, batch: int, workers: int | None) -> Summary:
    (out / "rows").mkdir(parents=True, exist_ok=True)
    _name(work, units, out)
    if engine == "ray":
        _on_ray(work, units, out.absolute(), batch, workers)
    else:
        _here(work, units, out, batch, workers)
    return merge(out)


def _name(work: Work, units: list[str], out: Path) -> None:
    """Name the work of a folder, or refuse a folder of other work: its rows would be mixed."""
    version = subprocess.run([*work.program, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    described = json.dumps([work.kind, work.arguments, sorted(units), version.strip()])
    key = hashlib.sha256(described.encode()).hexdigest()
    path = out / "campaign.json"
    if not path.exists():
        _replace(path, json.dumps({"key": key, "kind": work.kind, "arguments": work.arguments}) + "\n")
    elif json.loads(path.read_text())["key"] != key:
        raise ValueError(f"{out} has other work: another folder, or the same arguments, units and version")


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def _here(work: Work, units: list[str], out: Path, batch: int, workers: int | None) -> None:
    """Run units in processes of this machine; rows of a batch are written at once."""
    done = {row["unit"] for row in _rows(out)}
    left = [unit for unit in units if unit not in done]

    def one(some: list[str]) -> None:
        name = hashlib.sha256("\n".join(some).encode()).hexdigest()[:32]
        part = out / "rows" / f".{name}.{os.getpid()}"
        pq.write_table(work.table(some), part)
        part.replace(out / "rows" / f"{name}.parquet")

    with concurrent.futures.ThreadPoolExecutor(workers or len(os.sched_getaffinity(0))) as pool:
        for future in [pool.submit(one, left[at : at + batch]) for at in range(0, len(left), batch)]:
            future.result()


def _on_ray(work: Work, units: list[str], out: Path, batch: int, workers: int | None) -> None:
    """Run units on Ray, whose checkpoints know which rows are written."""
    import ray
    from ray.data.checkpoint import CheckpointConfig

    if not ray.is_initialized():
        # What starts only for this run needs no page about itself, which takes as long as all the rest.
        is_there = "RAY_ADDRESS" in os.environ
        ray.init() if is_there else ray.init(num_cpus=workers, include_dashboard=False)
    source = out / "_units.parquet"
    if not source.exists():
        # Checkpoints filter what is read, so the units are read.
        pq.write_table(pa.table({"unit": units}), source, row_group_size=batch)
    context = ray.data.DataContext.get_current()
    # The second reader makes one block of a small file, and a block is a task: one worker would run all units.
    context.use_datasource_v2 = False
    context.checkpoint_config = CheckpointConfig(
        id_column="unit", checkpoint_path=str(out / "_done"), delete_checkpoint_on_success=False
    )
    blocks = max(1, -(-len(units) // batch))
    # One task reads, runs and writes a batch: no steps with arguments of their own, which would be other tasks.
    # Ray starts a task again, three times, whose worker is gone.
    (
        ray.data.read_parquet(str(source), override_num_blocks=blocks)
        .map_batches(_run_batch, fn_args=(work,), batch_size=batch, batch_format="pyarrow")
        .write_parquet(str(out / "rows"))
    )


def _run_batch(batch: pa.Table, work: Work) -> pa.Table:
    return work.table(batch["unit"].to_pylist())


def _rows(out: Path) -> Iterator[dict[str, Any]]:
    """Return the rows of a folder: those of this module, or those of ``lab powercut --out``."""
    for path in sorted((out / "rows").glob("**/*.parquet")) if (out / "rows").is_dir() else []:
        yield from pq.read_table(path, partitioning=None).to_pylist()
    for path in sorted(out.glob("*.json")):
        if path.name != "campaign.json":
            text = path.read_text().strip()
            yield {"unit": json.loads(text)["unit"], "status": "done", "signal": None, "message": None, "row": text}


def merge(*folders: str | os.PathLike[str]) -> Summary:
    """Add the rows of folders; equal rows of a unit count once, and a result replaces a failure.

    Raises NotDeterministic if two results of a unit differ.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        for row in _rows(Path(folder)):
            before = found.get(row["unit"])
            if before is None or before["status"] in ("crashed", "timeout"):
                found[row["unit"]] = row
            elif row["status"] not in ("crashed", "timeout") and row != before:
                raise NotDeterministic(f"{row['unit']}: two runs have different results")
    rows = [found[unit] for unit in sorted(found)]
    counts: dict[str, Any] = {}
    violations: list[dict[str, Any]] = []
    digest = 0
    for row in rows:
        result = json.loads(row.get("row") or "{}")
        violations += result.pop("violations", [])
        digest += int(result.pop("digest", "0"), 16)
        result.pop("unit", None)
        if "files" in row:
            result = {"volumes": len(row["volumes"] or []), "files": len(row["files"] or []),
                      "findings": len(row["findings"] or [])}
        _add(counts, result)
    statuses = Counter(row["status"] for row in rows)
    failed = tuple(row["unit"] for row in rows if row["status"] in ("crashed", "timeout"))
    return Summary(
        len(rows), dict(statuses), counts, f"{digest % (1 << 128):032x}", tuple(violations), failed
    )


def _add(total: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            _add(total.setdefault(name, {}), value)
        else:
            total[name] = total.get(name, 0) + value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m eraseblock.distributed", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, rest, metavar in (("powercut", "arguments", "ARGUMENT"), ("scan", "images", "IMAGE")):
        command = commands.add_parser(name)
        command.add_argument("--out", required=True, help="folder of the rows")
        command.add_argument("--engine", choices=("local", "ray"), default="local")
        command.add_argument("--batch", type=int, default=32, help="units of a task")
        command.add_argument("--workers", type=int, help="units at a time on this machine")
        command.add_argument("--seconds", type=float, default=3600, help="limit of each unit")
        command.add_argument("--memory", type=int, default=8 << 30, help="limit of each unit, in bytes")
        command.add_argument(rest, nargs="*", metavar=metavar)
    commands.add_parser("merge").add_argument("folders", nargs="+", metavar="FOLDER")
    options = vars(parser.parse_args(arguments))
    command = options.pop("command")
    if command == "merge":
        summary = merge(*options["folders"])
    else:
        work = {"powercut": powercut, "scan": scan}[command]
        summary = work(options.pop("arguments" if command == "powercut" else "images"), **options)
    print(summary.text(), end="")
    return 1 if summary.violations or summary.failed else 0


if __name__ == "__main__":
    sys.exit(main())
