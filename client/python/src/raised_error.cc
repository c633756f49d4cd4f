#include "client/python/src/raised_error.h"

#include <nanobind/stl/string.h>

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

namespace nb = nanobind;

namespace mlxcomm::python {
namespace {

void Raise(const graph::FailureDetails& details) {
  // Python's handler has only set a flag so far. On the main thread this runs it.
  if (details.code == MLXCOMM_CANCELLED && PyErr_CheckSignals() != 0) return;
  try {
    const nb::object raised =
        nb::module_::import_("mlxcomm.errors").attr("make_error")(AsTuple(details));
    PyErr_SetObject(raised.type().ptr(), raised.ptr());
  } catch (nb::python_error& broken) {  // The interpreter is on its way out.
    broken.restore();
  }
}

void Translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const graph::OperationError& error) {
    Raise(error.details());
  } catch (const std::runtime_error& error) {
    const std::optional<graph::FailureDetails> details = graph::FindRecentFailure(error.what());
    if (!details.has_value()) throw;  // Not ours: the next translator's.
    Raise(*details);
  }
}

}  // namespace

nb::tuple AsTuple(const graph::FailureDetails& details) {
  return nb::make_tuple(static_cast<int>(details.code),
                        std::string(mlxcomm_code_name(details.code)), details.rank, details.message,
                        details.node, details.pid, details.group);
}

void TranslateOperationErrors() { nb::register_exception_translator(Translate); }

}  // namespace mlxcomm::python
