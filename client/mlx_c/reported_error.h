// Passes exceptions to mlx-c's error handler, which gets only a text; mlxcomm_mlx_last_error has
// the details.
//
//   body of a C function ──throws──▶ its objects are destroyed ─▶ error is stored ─▶ handler ─▶ 1
//
// If the handler calls exit(), as mlx-c's default does, the other ranks get the text. So no lock
// may be held then.
#pragma once

#include <exception>
#include <source_location>

#include "client/mlx/operation_error.h"

namespace mlxcomm::mlx_c {

// The failure behind an exception: an operation's, INVALID_ARGUMENT or INTERNAL.
graph::FailureDetails DetailsOf(const std::exception& error);

// Stores the error and calls the error handler. Returns 1.
int Report(const graph::FailureDetails& details, const std::source_location& where);

// The text that this thread is passing to the error handler, or null.
const char* TextBeingReported();

// Runs the body and returns 0, or 1 after calling the error handler.
template <typename Body>
int Reporting(Body&& body, std::source_location where = std::source_location::current()) {
  graph::FailureDetails details;
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    details = DetailsOf(error);
  }
  return Report(details, where);
}

}  // namespace mlxcomm::mlx_c
