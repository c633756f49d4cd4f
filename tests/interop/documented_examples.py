"""One rank of two that runs the examples of the package's docstrings, as programs on both ranks would. What
they print is compared on rank 0, whose output they show."""

import doctest
import sys

import mlx.core as mx
import mlxcomm


class OfRankZero(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return mlxcomm.rank() > 0 or super().check_output(want, got, optionflags)


mlxcomm.init()
failed = 0
for name in sorted(mlxcomm.__all__):
    public = getattr(mlxcomm, name)
    tests = doctest.DocTestFinder(recurse=False).find(public, name, globs={"mlxcomm": mlxcomm, "mx": mx})
    examples = sum(len(test.examples) for test in tests)
    if not examples:
        print(f"{name}: its docstring has no example")
        failed += 1
    for test in tests:
        failed += doctest.DocTestRunner(OfRankZero()).run(test).failed
mlxcomm.barrier()
print("done")
sys.exit(failed > 0)
