// Failures of operations as Python's exceptions: mlxcomm.RankLostError and its like, also from
// mx.eval and everything else that evaluates.
//
// Thread: any that holds Python's lock.
#pragma once

#include <nanobind/nanobind.h>

#include "client/mlx/operation_error.h"

namespace mlxcomm::python {

// The arguments of mlxcomm.errors.make_error.
nanobind::tuple AsTuple(const graph::FailureDetails& details);

// From here on nanobind turns OperationError into Python's classes, in MLX's calls too. A Ctrl-C
// that cancelled the operation becomes the exception of Python's own handler.
void TranslateOperationErrors();

}  // namespace mlxcomm::python
