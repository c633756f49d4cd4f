// Failures of operations as Python's exceptions: mlxcomm.RankLostError and its like, also from mx.eval
// and whatever else evaluates.
//
// Owner: nobody. Thread: any that holds Python's lock. Memory: none.
#pragma once

#include <nanobind/nanobind.h>

#include "client/mlx/operation_error.h"

namespace mlxcomm::python {

// What mlxcomm.errors.make_error takes.
nanobind::tuple AsTuple(const graph::FailureDetails& details);

// From here on nanobind turns OperationError into Python's classes, in MLX's calls too.
// A Ctrl-C that cancelled the operation becomes what Python's own handler raises.
void TranslateOperationErrors();

}  // namespace mlxcomm::python
