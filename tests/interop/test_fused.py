"""Many arrays in one operation.

Why: each operation costs a wait of all ranks, and on a Mac two crossings between GPU and CPU streams. Packing
must only change that cost: values and gradients stay the same; operations and crossings are counted.
"""

import pathlib
import sys

import pytest

from conftest import Process, lines_of

FOLDER = pathlib.Path(__file__).parent


def run(c, ranks, what, nodes, **variables):
    processes = [c.rank(r, ranks, FOLDER / "fused_operations.py", node=r % nodes, arguments=[what],
                        **variables) for r in range(ranks)]
    for lines in lines_of(processes):
        assert lines[-1] == "all agree"


@pytest.mark.parametrize("what", ["values", "transforms", "crossings", "averages"])
def test_fused_is_as_one_by_one(cluster, what):
    run(cluster(1), 2, what, 1)


def test_packed_arrays_take_the_daemons_memory_once(cluster):
    run(cluster(1), 2, "memory", 1)


# Between two nodes, a rank on each, small results are not in place; among more ranks all are.
@pytest.mark.parametrize("nodes, ranks", [(2, 2), (2, 4)])
def test_fused_between_nodes(cluster, nodes, ranks):
    run(cluster(nodes), ranks, "values", nodes)


def test_fused_where_results_are_copied(cluster):
    run(cluster(1), 2, "values", 1, environment={"MLXCOMM_RESULTS": "copy"})


# Why: programs that do not use mlx.nn should not pay for loading it.
def test_mlx_nn_is_not_loaded_for_it_and_is_taken_when_it_is():
    done = Process([sys.executable, "-c", (
        "import sys, mlxcomm\n"
        "mlxcomm.install()\n"
        "assert 'mlx.nn' not in sys.modules\n"
        "import mlx.nn as nn\n"
        "assert nn.average_gradients.__module__ == 'mlx.nn.utils'\n"  # Like MLX's own error.
        "assert nn.average_gradients.__wrapped__ is not nn.average_gradients\n"
        "mlxcomm.uninstall()\n"
        "assert not hasattr(nn.average_gradients, '__wrapped__')\n"
        "print('taken and given back')\n")], {})
    assert done.finish() == 0, done.lines
    assert done.lines[-1] == "taken and given back"


# Why: a profiler's count, and MLX's own test_average_gradients, saw no call, because the packed operation
# bypassed it.
def test_what_a_program_puts_in_the_place_of_all_sum_is_called_as_mlx_calls_it(solo):
    text = """
import mlx.core as mx, mlx.nn as nn, mlxcomm
calls, original = [], mx.distributed.all_sum
def counted(x, **more):
    calls.append(x.size)
    return original(x, **more)
gradients = {str(i): mx.ones(10) for i in range(10)}
def count(function):
    calls.clear()
    mx.eval(function())
    return calls[:]
world = mx.distributed.init()
for replaced in (True, False):
    mx.distributed.all_sum = counted if replaced else original
    print(len(count(lambda: nn.average_gradients(gradients))),
          len(count(lambda: nn.average_gradients(gradients, all_reduce_size=4 * 50))),
          len(count(lambda: nn.average_gradients(gradients, all_reduce_size=0))), flush=True)
"""
    for lines in lines_of([solo.python(r, 2, text, environment={"MLXCOMM_INSTALL": "all"}) for r in (0, 1)]):
        assert lines[:2] == ["1 2 10", "0 0 0"]
