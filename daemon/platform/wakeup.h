// Wakes a thread that sleeps in poll, epoll or kqueue.
//
// Owner: the sleeping thread's object. Thread: Ring from any, the rest from the sleeper. Rings may
// be merged.
#pragma once

#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

class Wakeup {
 public:
  // Aborts if no descriptor is left: use it only at start.
  Wakeup() {
    absl::StatusOr<Wakeup> created = Create();
    if (!created.ok()) std::abort();
    *this = *std::move(created);
  }
  // RESOURCE_EXHAUSTED: no descriptor is left.
  static absl::StatusOr<Wakeup> Create();

  void Ring();
  void Drain();
  int descriptor() const { return reader_.get(); }

 private:
  struct Empty {};
  explicit Wakeup(Empty) {}

  FileDescriptor reader_;
  FileDescriptor writer_;  // Linux: unused, the reader is an eventfd.
};

}  // namespace mlxcomm::platform
