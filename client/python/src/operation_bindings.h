// The operations as functions of the extension; mlxcomm/operations.py documents them.
//
// Owner: the module. Thread: Python's.
#pragma once

#include <nanobind/nanobind.h>

namespace mlxcomm::python {

void BindOperations(nanobind::module_& module);

}  // namespace mlxcomm::python
