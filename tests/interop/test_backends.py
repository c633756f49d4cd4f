"""Programs that name a backend use the daemon, however mlxcomm is loaded; other behaviour of MLX is kept."""

import os
import pathlib
import platform
import re
import sys

import pytest

from conftest import Process, completed, find_program, lines_of

FOLDER = pathlib.Path(__file__).parent
RANK = FOLDER / "backend_rank.py"
NAMES = ["any", "ring", "jaccl", "mpi", "nccl", "mlxcomm"]

INSTALL = f"import mlxcomm, runpy, sys; mlxcomm.install(); runpy.run_path({str(RANK)!r}, run_name='__main__')"
WAYS = {
    "install": ([sys.executable, "-c", INSTALL], {}),
    "python -m mlxcomm": ([sys.executable, "-m", "mlxcomm", str(RANK)], {}),
    "a variable alone": ([sys.executable, str(RANK)], {"MLXCOMM_INSTALL": "all"}),
}


def start(c, command, rank, size, *words, job="names", **variables):
    return c.start_as(rank, size, [*command, *words], rank % c.count, job, variables)


def alone(code, **environment):
    cleared = {k: v for k, v in os.environ.items() if not k.startswith(("MLX", "JACCL"))}
    return completed([sys.executable, "-c", code],
                     env={**cleared, "MLXCOMM_SOCKET": "/nowhere/at/all.sock", **environment})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nodes", [1, 2])
def test_every_name_is_the_daemons_group(cluster, way, nodes):
    command, variables = WAYS[way]
    c = cluster(nodes)
    words = [f"{name}{strict}" for name in NAMES for strict in ("", ":strict")]
    ranks = [start(c, command, rank, 2, *words, **variables) for rank in (0, 1)]
    assert lines_of(ranks) == [[f"{word}: {number} of 2, sum 2, by default 2" for word in words]
                               for number in (0, 1)]


def test_calls_that_are_not_hooked_are_mlxs_own(solo):
    code = ("import mlxcomm, mlx.core as mx; mlxcomm.install(take=['ring']); d = mx.distributed\n"
            "print(d.init(backend='ring').size(), d.init(backend='nccl').size(), d.is_available('jaccl'))\n"
            "print(d.all_sum(mx.array(1)).item(), d.init().size())\n")
    ranks = [start(solo, [sys.executable, "-c", code], rank, 2) for rank in (0, 1)]
    assert lines_of(ranks) == [["2 1 " + str(mlx_has("jaccl")), "2 2"]] * 2, "the first is group=None, too"


def mlx_has(backend):
    import mlx.core as mx

    return mx.distributed.is_available(backend)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_launcher_it_is_as_stock_has_it(name):
    """A group of one; an error if there must be more; and a name keeps its first result."""
    done = alone("import mlxcomm, mlx.core as mx; mlxcomm.install(); d = mx.distributed\n"
                 f"try: d.init(strict=True, backend={name!r}); print('no error')\n"
                 "except RuntimeError as error: print(error)\n"
                 f"print(d.init(backend={name!r}).size(), d.all_sum(mx.ones(2)).tolist())\n"
                 f"try: print(d.init(strict=True, backend={name!r}).size())\n"
                 "except RuntimeError as error: print(error)\n")
    reported, values, again = done.stdout.splitlines()
    assert reported.startswith("[distributed] Couldn't initialize any backend: no launcher"), done.stderr
    assert values == "1 [1.0, 1.0]" and again.startswith("[distributed]" if name == "any" else "1")


def test_names_and_arguments_that_stock_refuses_are_refused():
    done = alone("import mlxcomm, mlx.core as mx; mlxcomm.install(); d = mx.distributed\n"
                 "for call in (lambda: d.init(backend='gloo'), lambda: d.init(all_gather_factory=max),\n"
                 "             lambda: d.init(backend='jaccl', all_gather_factory='max'),\n"
                 "             lambda: mlxcomm.install(take=['rings'])):\n"
                 "    try: call(); print('no error')\n"
                 "    except (TypeError, ValueError) as error: print(type(error).__name__, error)\n")
    backend, factory, no_function, take = done.stdout.splitlines()
    assert "'mlxcomm' but 'gloo' was provided" in backend and backend.startswith("ValueError")
    assert factory == "ValueError all_gather_factory is only supported with backend='jaccl'."
    # Even if a launcher has named the job, because nothing would have asked for it.
    assert no_function == "TypeError all_gather_factory: expected a function of rank and size, got str"
    assert take.startswith("ValueError") and take.endswith("got 'rings'")


@pytest.fixture
def other_mlx(tmp_path):
    """The environment in which the package was built for a release that is not installed."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, types\n"
        "built_for = sys.modules['mlxcomm._built_for'] = types.ModuleType('mlxcomm._built_for')\n"
        "built_for.MLX_VERSION = '0.1.2'\n")
    return {"PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize("way", WAYS)
def test_with_another_mlx_every_name_is_the_daemons_group_by_mpi(solo, other_mlx, way):
    command, variables = WAYS[way]
    words = [f"{name}{strict}" for name in NAMES[:-1] for strict in ("", ":strict")]
    ranks = [start(solo, command, rank, 2, *words, **variables, **other_mlx) for rank in (0, 1)]
    for number, process in enumerate(ranks):
        assert process.finish() == 0, process.lines
        reported = [line for line in process.lines if "was built for mlx 0.1.2, but" in line]
        assert len(reported) == 1 and f"but {platform.node()} has mlx" in reported[0], process.lines
        shown = [f"{word}: {number} of 2, sum 2, by default 2" for word in words]
        assert process.lines[len(reported):] == shown


def test_with_another_mlx_calls_of_the_extension_name_what_to_install(other_mlx):
    done = alone("import importlib, mlxcomm as m\n"
                 "print(m.__version__, m.mpi_library(), issubclass(m.RankLostError, m.Error))\n"
                 "for use in (lambda: m.all_reduce, lambda: exec('from mlxcomm import init'),\n"
                 "            lambda: importlib.import_module('mlxcomm.groups')):\n"
                 "    try: use()\n"
                 "    except (AttributeError, ImportError) as error: print(error)\n"
                 "for take in ('rings', 3, []):\n"
                 "    try: print(m.install(take), m.other_mlx._taken)\n"
                 "    except (TypeError, ValueError) as error: print(error)\n"
                 "from mlxcomm import *\n"
                 "print(hasattr(m, '__wrapped__'), hasattr(m, 'init'), install is m.install)\n", **other_mlx)
    facts, *lines, rings, three, nothing, no_name = done.stdout.splitlines()
    assert facts.endswith(" True") and "libmlxcomm_mpi" in facts, done.stderr
    assert no_name == "False False True", done.stdout
    for line in lines:
        assert re.search(r"for mlx 0\.1\.2, but \S+ has mlx.*install mlx==0\.1\.2, or reinstall mlxcomm",
                         line), line
    assert len(lines) == 3 and nothing == "None set()", done.stdout
    assert rings.endswith("jaccl, mpi, nccl, got 'rings'") and three.endswith("got 3 (int)"), done.stdout


# Why: many programs check whether MLX exists before they import it.
def test_finding_mlx_without_importing_it_hooks_it():
    done = alone("import importlib.util as u; u.find_spec('mlx.core'); import mlx.core as mx\n"
                 "print(mx.distributed.init.__wrapped__ is not None)", MLXCOMM_INSTALL="all")
    assert done.stdout.strip() == "True", done.stderr


# Why: the hook found a package that was still empty, and the program ended.
def test_a_program_whose_first_import_is_mlxcomm_is_hooked():
    done = alone("import mlxcomm; mlxcomm.install(); import mlx.core as mx\n"
                 "print(mx.distributed.init.__wrapped__ is not None)", MLXCOMM_INSTALL="all")
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize("word", ["", "0", "none"])
def test_the_variable_disables_it(word):
    done = alone("import mlx.core as mx; print(hasattr(mx.distributed.init, '__wrapped__'))",
                 MLXCOMM_INSTALL=word)
    assert done.stdout.strip() == "False", done.stderr


# Why: exo sets the variables in the process itself, after other code has asked for the default group.
def test_a_process_can_join_after_it_was_a_single_rank(solo):
    code = ("import os, sys, mlx.core as mx, mlxcomm; mlxcomm.install(); d = mx.distributed\n"
            "alone = d.all_sum(mx.array(1)).item()\n"
            "os.environ.update(MLX_RANK=sys.argv[1], MLX_WORLD_SIZE='2', MLXCOMM_JOB='late')\n"
            "print(alone, d.init(backend='ring', strict=True).size(), d.all_sum(mx.array(1)).item())\n")
    ranks = []
    for rank in (0, 1):
        ranks.append(Process([sys.executable, "-c", code, str(rank)], {"MLXCOMM_SOCKET": solo.socket(0)}))
        solo.ranks.append(ranks[-1])
    assert lines_of(ranks) == [["1 2 2"]] * 2


# Why: such a module would silently compute wrong sums.
def test_functions_imported_by_name_before_are_replaced_and_given_back(solo):
    code = ("from mlx.core.distributed import all_sum, init\nimport mlx.core as mx, mlxcomm\n"
            "own = (all_sum, init)\nmlxcomm.install()\n"
            "print(init().size(), all_sum(mx.array(1)).item())\n"
            "mlxcomm.uninstall()\nassert (all_sum, init) == own\n")
    ranks = [start(solo, [sys.executable, "-c", code], rank, 2) for rank in (0, 1)]
    assert lines_of(ranks) == [["2 2"]] * 2


def test_jaccls_coordinator_names_the_job(solo, tmp_path):
    """Why: without a job's name in the environment ranks can only meet by the coordinator."""
    folder = tmp_path / "told"
    folder.mkdir()
    code = (
        "import pathlib, time, mlxcomm, mlx.core as mx; mlxcomm.install()\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "def factory(rank, size):\n"
        "    def gather(data, count):\n"
        "        own = folder / f'own.{rank}'\n"
        "        own.write_bytes(data); own.rename(folder / str(rank))\n"
        "        while not all((folder / str(r)).exists() for r in range(size)): time.sleep(0.01)\n"
        "        return b''.join((folder / str(r)).read_bytes() for r in range(size))\n"
        "    return gather\n"
        "world = mx.distributed.init(strict=True, backend='jaccl', all_gather_factory=factory)\n"
        "print(mlxcomm.name(world).startswith('mlx-'), mx.distributed.all_sum(mx.array(1)).item())\n")
    ranks = [start(solo, [sys.executable, "-c", code], rank, 2, job="") for rank in (0, 1)]
    assert lines_of(ranks) == [["True 2"]] * 2


def test_a_join_that_times_out_names_the_variable_of_the_job(solo, tmp_path):
    hosts = tmp_path / "hosts.json"
    hosts.write_text('["10.0.0.1:5000", "10.0.0.2:5000"]')
    process = start(solo, [sys.executable, "-c", "import mlxcomm; mlxcomm.init(timeout=1)"], 0, 2, job="",
                    MLX_HOSTFILE=str(hosts))
    assert process.finish() != 0
    assert any("is derived from MLX_HOSTFILE" in line and "MLXCOMM_JOB=NAME" in line for line in
    process.lines)


TAIL = """
import sys, mlx.core as mx
w = mx.distributed.init(); r = w.rank()
a = mx.random.normal((400, 400)); mx.eval(a)
def step(x):
    for _ in range(6): x = mx.tanh(x @ a)
    return mx.distributed.all_sum(x)
mx.eval(step(a))
stream = mx.new_stream(mx.cpu)
with mx.stream(stream):
    z = step(a); mx.async_eval(z)
if r == 0:
    import time; time.sleep(1)
    mx.eval(z); print("rank 0 has it")
"""


# Why: mlx-lm's generate leaves an operation behind that the other rank needs; MLX's ring delivers the data.
@pytest.mark.parametrize("hooked", [True, False])
def test_what_a_program_has_begun_when_it_ends_is_delivered(solo, tmp_path, hooked):
    script = tmp_path / "tail.py"
    script.write_text(TAIL)
    command = [find_program("mlxcommctl"), "launch", "-n", "2", "--socket", solo.socket(0), "--",
               sys.executable, *(["-m", "mlxcomm"] if hooked else []), str(script)]
    for _ in range(3):
        done = completed(command, env={**os.environ, "MLXCOMM_INSTALL": ""})
        assert done.returncode == 0 and "rank 0 has it" in done.stdout, done.stdout + done.stderr


# Why: a user sees the other rank's message first.
def test_a_rank_that_ends_with_an_exception_reports_it_at_once(duo):
    dies = ("import threading, time, mlx.core as mx, mlxcomm; mlxcomm.install(); mx.distributed.init()\n"
            "mx.eval(mx.distributed.all_sum(mx.array(1)))\n"
            "threading.Thread(target=time.sleep, args=(30,)).start()\n"  # Keeps the process from ending.
            "raise ValueError('no such\\nlayer')\n")
    waits = ("import mlx.core as mx, mlxcomm; mlxcomm.install(); mx.distributed.init()\n"
             "mx.eval(mx.distributed.all_sum(mx.array(1)))\n"
             "mx.eval(mx.distributed.all_sum(mx.array(1)))\n")
    start(duo, [sys.executable, "-c", dies], 1, 2)
    waiting = start(duo, [sys.executable, "-c", waits], 0, 2)
    line = waiting.wait_for("RANK_LOST")
    assert "its program ended by ValueError: no such layer" in line and "rank 1" in line


@pytest.mark.parametrize("arguments, words", [
    (["-x", "a.py"], "unknown option -x"),
    (["nowhere.py"], "no such file: nowhere.py"),
    ([], "expected a script"),
])
def test_a_program_that_cannot_run_is_reported_in_a_line(arguments, words):
    done = completed([sys.executable, "-m", "mlxcomm", *arguments])
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_code_is_run_and_v_shows_what_was_hooked():
    done = completed([sys.executable, "-m", "mlxcomm", "-v", "-c", "import sys; print(sys.argv)", "a"])
    assert done.stdout.strip() == "['-c', 'a']"
    assert "uses mlxcommd for the backends any, jaccl, mpi" in done.stderr


# Why: a script run through a link did not find files next to it, and when it ended pickle no longer found its
# classes.
@pytest.mark.parametrize("way", ["link.py", "folder", "-c CODE", "-m folder.program"])
def test_a_program_sees_of_python_m_mlxcomm_what_it_sees_of_python(tmp_path, way):
    code = ("import atexit, pickle, sys\n"
            "class Kept: pass\n"
            "atexit.register(lambda: print(pickle.loads(pickle.dumps(Kept)) is Kept))\n"
            "print(__name__, globals().get('__file__'), sys.argv, sys.path[0])\n"
            "if '__file__' in globals() and not __package__: import beside\n"
            "sys.exit(3)\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in (("program.py", code), ("__main__.py", code), ("beside.py", "")):
        (folder / name).write_text(text)
    (tmp_path / "link.py").symlink_to(folder / "program.py")
    words = [code if word == "CODE" else word for word in way.split()]
    by_python, by_mlxcomm = (
        completed([sys.executable, *more, *words, "a"], cwd=tmp_path) for more in ((), ("-m", "mlxcomm")))
    assert by_python.returncode == 3 and by_python.stdout.endswith("True\n"), by_python.stderr
    assert (by_mlxcomm.returncode, by_mlxcomm.stdout) == (3, by_python.stdout), by_mlxcomm.stderr
