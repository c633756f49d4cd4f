// Ends a call of the C interface: returns its code, and fills in the error that the user gets.
//
// Thread: any. Memory: the user's mlxcomm_error, which may be NULL.
#pragma once

#include <string_view>

#include "client/lib/mlxcomm.h"
#include "proto/types/failure.h"

namespace mlxcomm::client {

mlxcomm_code Report(const Failure& failure, mlxcomm_error* error);
mlxcomm_code ReportSuccess(mlxcomm_error* error);

// For the exception that is being handled: RESOURCE_EXHAUSTED if memory or a thread was refused,
// otherwise INTERNAL. Allocates nothing.
mlxcomm_code ReportException(mlxcomm_error* error) noexcept;

// Returns what the body returns; no exception leaves the C interface.
template <typename Body>
mlxcomm_code Guarded(mlxcomm_error* error, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return ReportException(error);
  }
}

// Checks names that other users see: UTF-8 without control characters, 1 to bytes_max bytes.
Failure CheckName(const char* argument, std::string_view name, std::size_t bytes_max);

}  // namespace mlxcomm::client
