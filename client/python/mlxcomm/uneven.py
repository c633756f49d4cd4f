"""Uneven inputs: ranks without batches take part until the last rank has run out."""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, Optional, TypeVar

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map, tree_unflatten

from . import arguments
from .groups import init as _init
from .operations import all_reduce
from .tracebacks import ends_at_caller

__all__ = ["Turn", "join"]

Batch = TypeVar("Batch")
Tree = TypeVar("Tree")


class Turn(Generic[Batch]):
    """One step of `join`.

    Attributes:
        batch: this rank's batch; None once it has run out.
        ranks: how many ranks have a batch, at least 1.

    Example (rank 0 of 2):
        >>> [turn.ranks for turn in mlxcomm.join([1, 2, 3][mlxcomm.rank():])]
        [2, 2, 1]
    """

    def __init__(self, batch: Optional[Batch], ranks: int, like: list, group: mx.distributed.Group) -> None:
        self.batch, self.ranks = batch, ranks
        self._like, self._group = like, group

    @ends_at_caller
    def average(self, gradients: Optional[Tree] = None) -> Tree:
        """Averages over the ranks that have a batch. All ranks of the group must call it equally often.

        Args:
            gradients: a tree of arrays; if `batch` is None, zeros are used instead.

        Returns:
            The same tree, equal on all ranks.

        Raises:
            ValueError: this rank had no batch in any turn, and `join` was called without `like`.
            mlxcomm.Error: raised by the evaluation.

        Example (rank 0 of 2):
            >>> for turn in mlxcomm.join([1.0, 2.0][mlxcomm.rank():]):
            ...     print(turn.average(None if turn.batch is None else mx.array(turn.batch)).item())
            1.5
            2.0
        """
        if self.batch is None:
            if not self._like:
                raise ValueError("join: this rank has no batches: pass like=, a tree of arrays shaped like "
                                 "the gradients, such as model.trainable_parameters()")
            gradients = tree_unflatten([(key, mx.zeros(shape, kind)) for key, shape, kind in self._like])
        self._like[:] = _form("gradients", gradients)
        if not self._like:
            return gradients
        sums = iter(all_reduce([leaf for _, leaf in tree_flatten(gradients)], group=self._group))
        return tree_map(lambda _: next(sums) / self.ranks, gradients)


@ends_at_caller
def join(batches: Iterable[Batch], like: Any = None,
         group: Optional[mx.distributed.Group] = None) -> Iterator[Turn[Batch]]:
    """Iterates over each rank's batches until all ranks have run out.

    Each turn begins with a small all_reduce. Other operations in the loop, such as those of sharded layers,
    also need every rank in every turn.

    Args:
        batches: this rank's batches.
        like: a tree of arrays shaped like the gradients, for a rank that may have no batches.
        group: from `mlxcomm.init` or `split`; by default ``init()``.

    Raises:
        mlxcomm.Error: raised by the loop.

    Example (rank 0 of 2):
        >>> for turn in mlxcomm.join(range(10 - mlxcomm.rank())):
        ...     loss = turn.average(mx.array(0.0 if turn.batch is None else 1.0))
        >>> turn.batch, turn.ranks, loss.item()
        (9, 1, 1.0)
    """
    group = _init() if arguments.group(group) is None else group
    if not isinstance(batches, Iterable):
        raise arguments.wrong("batches", "an iterable of this rank's batches", batches)
    return _turns(iter(batches), [] if like is None else _form("like", like), group)


def _form(name, tree):
    """Returns the key, shape and dtype of each array, so that the arrays are not kept alive."""
    form = []
    for key, leaf in tree_flatten(tree):
        arguments.array(name, leaf, "arrays, or lists, tuples and dicts of them")
        form.append((key, leaf.shape, leaf.dtype))
    return form


def _turns(batches, like, group):
    end = object()
    while True:
        batch = next(batches, end)
        ranks = int(all_reduce(mx.array(int(batch is not end)), group=group).item())
        if ranks == 0:
            return
        yield Turn(None if batch is end else batch, ranks, like, group)
