// A node without neighbours, whose time the test sets.
//
// Owner: a test. Thread: its own. Memory: the node.
#pragma once

#include <cstdint>

#include "daemon/node/node.h"
#include "daemon/work/scratch_pool.h"
#include "tests/unit/daemon/node/heard.h"
#include "tests/unit/daemon/node/still_port.h"

namespace mlxcomm::node {

template <typename Port = StillPort>
struct LoneNode {
  explicit LoneNode(std::uint64_t now = 1) : now_ns(now) {}
  static NodeOptions Options() {
    NodeOptions options;
    options.fabric.self = {IdOf(1), "mac-a", "test", 7};
    return options;
  }

  std::uint64_t now_ns;
  Port port;
  ScratchPool scratch{1 << 20};
  record::FlightRecorder recorder{"mac-a"};
  record::OperationCounts counts;
  Node node{Options(), scratch, recorder, counts, port, port, port, [this] { return now_ns; },
            now_ns};
};

}  // namespace mlxcomm::node
