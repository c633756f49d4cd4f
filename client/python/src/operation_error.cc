#include "client/python/src/operation_error.h"

#include <nanobind/stl/string.h>

#include <array>
#include <exception>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace nb = nanobind;

namespace mlxcomm::python {
namespace {

// The failures thrown last, found by their texts.
class RecentErrors {
 public:
  void Remember(const std::string& text, const FailureDetails& details) {
    const std::lock_guard lock(mutex_);
    entries_[next_++ % entries_.size()] = {text, details};
  }
  std::optional<FailureDetails> Find(std::string_view text) {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, details] : entries_) {
      if (known == text && !known.empty()) return details;
    }
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::array<std::pair<std::string, FailureDetails>, 64> entries_;
  std::size_t next_ = 0;
};

RecentErrors& Recent() {
  static RecentErrors errors;
  return errors;
}

void Raise(const FailureDetails& details) {
  // Python's handler has only set a flag so far. On the main thread this lets it speak.
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
  } catch (const OperationError& error) {
    Raise(error.details());
  } catch (const std::runtime_error& error) {
    const std::optional<FailureDetails> details = Recent().Find(error.what());
    if (!details.has_value()) throw;  // Not ours: the next translator's.
    Raise(*details);
  }
}

}  // namespace

FailureDetails Describe(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group) {
  FailureDetails details;
  details.code = code;
  if (group != nullptr) details.group = mlxcomm_group_name(group);
  if (code == MLXCOMM_OK) return details;
  details.rank = error.rank;
  details.message = error.message;
  if (group == nullptr || error.rank < 0) return details;
  const auto rank = static_cast<std::uint32_t>(error.rank);
  if (const char* const node = mlxcomm_member_node(group, rank); node != nullptr) {
    details.node = node;
  }
  details.pid = mlxcomm_member_pid(group, rank);
  return details;
}

OperationError::OperationError(FailureDetails details)
    : std::runtime_error(std::string(mlxcomm_code_name(details.code)) + ": " + details.message),
      details_(std::move(details)) {
  Recent().Remember(what(), details_);
}

void CheckOperation(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group) {
  if (code != MLXCOMM_OK) throw OperationError(Describe(code, error, group));
}

nb::tuple AsTuple(const FailureDetails& details) {
  return nb::make_tuple(static_cast<int>(details.code),
                        std::string(mlxcomm_code_name(details.code)), details.rank, details.message,
                        details.node, details.pid, details.group);
}

void TranslateOperationErrors() { nb::register_exception_translator(Translate); }

}  // namespace mlxcomm::python
