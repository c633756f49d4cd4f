"""Unchanged programs of mlx-lm over up to 8 ranks: they produce the tokens of one process, and every
operation goes through the daemon.

The model is random and tiny (tiny_language_model.py), because tests fetch nothing. Ranks add in a different
order from one process, so losses may differ by some 1e-6 of their value.
"""

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import mlx.core as mx
import pytest

from conftest import PATIENCE, Process, free_port, wait_until
from interop import tiny_language_model
from interop.counted import OPENER, lines_of
from interop.internet_sockets import CAN_SEE, internet_sockets

FOLDER = pathlib.Path(__file__).parent
LAYERS = tiny_language_model.LAYERS
LENGTH = 24  # Tokens of an answer.
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("mlx_lm") is None,
                       reason="no mlx-lm (tests/interop/requirements.txt)"),
    # One process's output is computed once and shared, because in each worker it would take as long as a
    # test.
    pytest.mark.xdist_group("mlx-lm"),
]


def python_m(*words):
    return [sys.executable, "-m", *map(str, words)]


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return tiny_language_model.make(tmp_path_factory.mktemp("mlx-lm") / "model")


def link_without(package, folder, kept, to):
    """The installed package through links; packages within `folder` that are not `kept` are empty, and
    other folders are missing."""
    installed = pathlib.Path(importlib.util.find_spec(package).origin).parent
    (to / package / folder).mkdir(parents=True)
    for one in installed.iterdir():
        if one.name != folder:
            (to / package / one.name).symlink_to(one)
    for one in (installed / folder).iterdir():
        link = to / package / folder / one.name
        if one.is_file() or one.name in kept:
            link.symlink_to(one)
        elif (one / "__init__.py").exists():
            link.mkdir()
            (link / "__init__.py").touch()


@pytest.fixture(scope="session")
def small_packages(model):
    """The environment with the installed transformers, without the models that take each rank a long time to
    read when it starts."""
    packages = model.parent / "packages"
    link_without("transformers", "models", {"auto", "encoder_decoder", tiny_language_model.KIND}, packages)
    path = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path}


@pytest.fixture(scope="session")
def offline(model, small_packages):
    """Keeps programs away from the network and from this user's home."""
    home = model.parent / "home"
    return {**small_packages,
            "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
            "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false",
            # mx.compile calls a compiler for each kernel on a CPU: up to a minute, the first time.
            "MLX_DISABLE_COMPILE": "1"}


@pytest.fixture(scope="session")
def run(offline):
    def run(command, environment=None, **kwargs):
        variables = {**os.environ, **offline, **(environment or {})}
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **kwargs,
                              env={name: value for name, value in variables.items() if value is not None})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def alone(run, model):
    """Runs one process without mlxcomm: answers, perplexity, calls of the model."""
    seen = run([sys.executable, FOLDER / "language_model_rank.py", model, "tensor", str(LENGTH)])
    seen = json.loads(seen.splitlines()[-1])
    assert len(set(seen["tokens"][0])) > LENGTH / 2 and [len(one) for one in seen["tokens"]] == [LENGTH] * 2
    return seen


def calls_of(ranks, how, prompt, token, whole=0):
    """The operations of a model that was called this often. A prompt's last layer is not summed:
    its result is not needed. The additional one is mlx-lm's barrier after loading."""
    if ranks == 1:
        return {}
    if how == "tensor":
        return {"all_reduce": 1 + prompt * 2 * (LAYERS - 1) + (token + whole) * 2 * LAYERS}
    return {"all_reduce": 1, "message": (prompt + token + whole) * (ranks - 1), "all_gather": token + whole}


def tiers(*in_short, ranks_most=8):
    return [pytest.param(how, ranks, marks=[] if (how, ranks) in in_short else [pytest.mark.slow])
            for how in ("tensor", "pipeline") for ranks in (1, 2, 4, 8) if ranks <= ranks_most]


@pytest.mark.parametrize("how, ranks", tiers(("tensor", 1), ("tensor", 2), ("tensor", 4), ("pipeline", 2)))
def test_a_model_in_parts_generates_what_the_whole_does(counted, run, model, alone, how, ranks):
    generate_and_compare(counted(1), run, model, alone, how, ranks, {})


@pytest.mark.slow
def test_a_compiled_model_generates_the_same(counted, run, model, alone):
    generate_and_compare(counted(1), run, model, alone, "tensor", 2, {"MLX_DISABLE_COMPILE": None})


# Why: MLX's own MPI backend evaluates differently, and the last step is still under way at the end.
@pytest.mark.slow
@pytest.mark.parametrize("how", ["tensor", "pipeline"])
def test_a_model_over_the_mpi_shim_generates_the_same(counted, run, model, alone, how):
    generate_and_compare(counted(1), run, model, alone, how, 2, {"MLXCOMM_INSTALL": ""})


def generate_and_compare(c, run, model, alone, how, ranks, environment):
    program = [sys.executable, FOLDER / "language_model_rank.py", model, how, LENGTH]
    seen = run(c.launched(ranks, *program), environment)
    for rank in range(ranks):
        mine = json.loads(lines_of(seen, rank)[-1])
        assert (mine["tokens"], mine["texts"]) == (alone["tokens"], alone["texts"])
        assert mine["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-5)
        assert mine["calls"] == alone["calls"]
    assert c.all_done_on_one_node() == calls_of(ranks, how, **alone["calls"])


# Why: each rank reads the questions, so launch passes them to all.
@pytest.mark.parametrize("how, ranks", tiers(("tensor", 2), ("pipeline", 2), ranks_most=4))
def test_chat_answers_typed_questions(counted, run, model, alone, how, ranks):
    c = counted(1)
    program = python_m("mlx_lm", "chat", "--model", model, "--max-tokens", LENGTH,
                       *(["--pipeline"] if how == "pipeline" else []))
    typed = "how are you today?\nr\n(3+4)*5\nq\n"  # language_model_rank.py's; r forgets the first.
    seen = run(c.launched(ranks, *program, options=["--stdin", "all"]), input=typed)
    assert [line for line in lines_of(seen) if line in alone["texts"]] == alone["texts"], seen
    expected = calls_of(ranks, how, alone["calls"]["prompt"], alone["calls"]["token"])
    assert c.all_done_on_one_node() == expected


# Why: it is not a distributed program, and must remain so under launch: each rank works alone.
@pytest.mark.slow
def test_generate_runs_independently_on_each_rank(counted, run, model, alone):
    c = counted(1)
    program = python_m("mlx_lm", "generate", "--model", model, "--prompt", "how are you today?",
                       "--max-tokens", LENGTH, "--verbose", "False")
    seen = run(c.launched(2, *program))
    assert [lines_of(seen, rank) for rank in (0, 1)] == [[alone["texts"][0]]] * 2
    assert c.all_done_on_one_node() == {}


class Server:
    def __init__(self, c, ranks, model, how, offline):
        self.port = free_port()
        program = python_m("mlx_lm", "server", "--model", model, "--port", self.port,
                           "--log-level", "WARNING", *(["--pipeline"] if how == "pipeline" else []))
        self.process = Process(c.launched(ranks, *program), offline)
        c.ranks.append(self.process)

    def is_up(self):
        if self.process.child.poll() is not None:
            raise AssertionError(f"ended by {self.process.finish()}: {self.process.lines}")
        try:
            with OPENER.open(f"http://127.0.0.1:{self.port}/health", timeout=PATIENCE) as answer:
                return answer.status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def ask(self, question):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/chat/completions",
            json.dumps({"messages": [{"role": "user", "content": question}], "max_tokens": LENGTH}).encode(),
            {"Content-Type": "application/json"})
        with OPENER.open(request, timeout=PATIENCE) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]

    def ask_at_once(self, questions):
        answers = [None] * len(questions)
        gate = threading.Barrier(len(questions))

        def ask(number):
            gate.wait()
            answers[number] = self.ask(questions[number])

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(questions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers


# Why: ranks other than 0 get a request from rank 0, in operations between which they poll.
@pytest.mark.parametrize("how, ranks", tiers(("tensor", 2), ranks_most=4))
def test_server_answers_two_at_once(counted, model, offline, alone, how, ranks):
    c = counted(1)
    server = Server(c, ranks, model, how, offline)
    wait_until(server.is_up, "the server answers")
    for _ in range(2):  # The second time it uses the prompts that it keeps.
        assert server.ask_at_once(["how are you today?", "(3+4)*5"]) == alone["texts"]
    if ranks > 1:
        check_ranks(c, ranks, server.port)
        counts = c.done()
        by_model = calls_of(ranks, how, 0, LENGTH)  # At least these, in one batch.
        kinds = {"all_reduce"} if how == "tensor" else {"all_reduce", "all_gather", "send", "recv"}
        assert set(counts) == kinds and counts["all_reduce"] > by_model["all_reduce"]
        assert counts["all_gather"] >= by_model.get("all_gather", 0)
    server.process.signal(signal.SIGINT)
    server.process.finish()


def check_ranks(c, ranks, port):
    """While they serve: rank 0 has the server's port, the others have no internet socket."""
    [job] = c.status()["jobs"]
    assert len(job["ranks"]) == ranks
    for rank in job["ranks"]:
        assert int(rank["operations_done"]) > 0
        if CAN_SEE:
            local = {mine for mine, _ in internet_sockets(rank["pid"])}
            assert local == ({port} if rank["rank"] == 0 else set()), rank


ITERATIONS, VALIDATED_EVERY, REPORTED_EVERY, BATCH = 6, 3, 2, 8


@pytest.fixture(scope="session")
def texts(model):
    """All of one length: mlx-lm averages the ranks' losses, regardless of the number of their tokens."""
    folder = model.parent / "texts"
    folder.mkdir()
    for number, (name, many) in enumerate({"train": 32, "valid": 16, "test": 16}.items()):
        letters = mx.random.randint(ord("a"), ord("z"), (many, 24), key=mx.random.key(number)).tolist()
        lines = [json.dumps({"text": "".join(map(chr, line))}) + "\n" for line in letters]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="ascii")
    return folder


def lora(model, texts, adapters):
    # Adam would divide by gradients that are nearly zero, where the last bit differs.
    return python_m("mlx_lm", "lora", "--train", "--test", "--model", model, "--data", texts,
                    "--num-layers", 4, "--batch-size", BATCH, "--iters", ITERATIONS, "--optimizer", "sgd",
                    "--learning-rate", 0.05, "--steps-per-report", REPORTED_EVERY, "--seed", 3,
                    "--steps-per-eval", VALIDATED_EVERY, "--val-batches", 2, "--test-batches", 2,
                    "--adapter-path", adapters)


def losses_of(lines):
    """Returns lora's [iteration, loss] of training, validation and test, to 0.001."""
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    found = [re.search(r"^ +(\d+) +(?:val )? *(\d+\.\d+)|^(Test) loss (\d+\.\d+)", line) for line in plain]
    return [(one[1] or one[3], float(one[2] or one[4])) for one in found if one]


@pytest.fixture(scope="session")
def trained_alone(run, model, texts):
    adapters = model.parent / "adapters"
    losses = losses_of(run(lora(model, texts, adapters)).splitlines())
    assert len(losses) == ITERATIONS // REPORTED_EVERY + 3 + 1, losses  # And validation 1, 3, 6; the test.
    assert losses[-2][1] < losses[0][1], "nothing is learned"
    return losses, mx.load(str(adapters / "adapters.safetensors"))


@pytest.mark.parametrize("ranks", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4, 8))])
def test_lora_learns_as_one_process_with_the_same_batches(counted, run, model, texts, tmp_path, trained_alone,
                                                          ranks):
    c = counted(1)
    seen = run(c.launched(ranks, *lora(model, texts, tmp_path / "adapters")))
    losses, weights = trained_alone
    mine = losses_of(lines_of(seen))
    assert [name for name, _ in mine] == [name for name, _ in losses]
    assert [loss for _, loss in mine] == pytest.approx([loss for _, loss in losses], abs=0.0011)
    adapters = mx.load(str(tmp_path / "adapters" / "adapters.safetensors"))
    assert adapters.keys() == weights.keys()
    for name, values in weights.items():
        assert mx.allclose(adapters[name], values, rtol=1e-4, atol=1e-6), name
    # Gradients go as one array; a validation, a report and the test sum two numbers each.
    pairs = 3 + ITERATIONS // REPORTED_EVERY + 1
    assert c.all_done_on_one_node() == ({} if ranks == 1 else {"all_reduce": ITERATIONS + 2 * pairs})
