// From exceptions to mlx-c's error handler, which gets a text and no more; the rest is kept for
// mlxcomm_mlx_last_error.
//
//   body of a C function ──throws──▶ its objects are destroyed ─▶ remembered ─▶ handler ─▶ 1
//                                              if the handler's exit() ends the program,
//                                              the other ranks get the text
//
// The handler may never return (mlx-c's default calls exit()), so no lock is held when it is called.
//
// Owner: the thread. Thread: any. Memory: one mlxcomm_mlx_error for each thread that had an error.
#pragma once

#include <exception>
#include <source_location>

#include "client/mlx/operation_error.h"

namespace mlxcomm::mlx_c {

// The failure that an exception stands for: an operation's own, or INVALID_ARGUMENT, or INTERNAL.
graph::FailureDetails DetailsOf(const std::exception& error);

// Remembers it, and calls the error handler. Returns 1.
int Report(const graph::FailureDetails& details, const std::source_location& where);

// While the error handler is called on this thread, its text: the reason if the process ends. Else
// null.
const char* TextBeingReported();

// Runs the body: 0, or 1 after the error handler was called.
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
