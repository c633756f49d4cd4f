// A failed operation as an exception that keeps everything known of the failure, so that
// Python raises its own class (mlxcomm.RankLostError) from mx.eval as well, with code,
// rank, node, process and group.
//
// Owner: whoever catches it. Thread: any; what touches Python needs its lock. Memory: plain.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "client/lib/mlxcomm.h"

namespace mlxcomm::python {

// The failure, and where the rank at fault runs.
struct FailureDetails {
  mlxcomm_code code = MLXCOMM_OK;
  std::int32_t rank = -1;
  std::string message;
  std::string node;       // Empty: not known.
  std::uint64_t pid = 0;  // 0: not known.
  std::string group;
};

// `group` may be NULL: the failure came before there was one.
FailureDetails Describe(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group);

class OperationError : public std::runtime_error {
 public:
  // What an evaluation throws again is only a std::runtime_error with the same text: MLX's
  // stream keeps no more of it. So the last few are remembered by their texts.
  explicit OperationError(FailureDetails details);
  const FailureDetails& details() const noexcept { return details_; }

 private:
  FailureDetails details_;
};

// Throws OperationError unless the code is MLXCOMM_OK.
void CheckOperation(mlxcomm_code code, const mlxcomm_error& error, const mlxcomm_group* group);

// What mlxcomm.errors.make_error takes.
nanobind::tuple AsTuple(const FailureDetails& details);
// From here on nanobind turns OperationError into Python's classes, in MLX's calls too.
// A Ctrl-C that cancelled the operation becomes what Python's own handler raises.
void TranslateOperationErrors();

}  // namespace mlxcomm::python
