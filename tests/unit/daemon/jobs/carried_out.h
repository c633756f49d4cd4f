// Calls of a state machine whose requests the test's node carries out at the end of the statement,
// as Jobs does: `node.rendezvous()->Leave(1);`.
#pragma once

#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "daemon/jobs/outbox.h"

namespace mlxcomm::jobs {

template <typename Node, typename Machine>
class CarriedOut {
 public:
  CarriedOut(Node& node, Machine& machine) : node_(node), machine_(machine) {}
  ~CarriedOut() {
    while (!node_.outbox.empty()) {
      for (const Request& request : std::exchange(node_.outbox, {})) {
        std::visit([this](const auto& one) { node_.On(one); }, request);
      }
    }
  }
  Machine* operator->() const { return &machine_; }

 private:
  Node& node_;
  Machine& machine_;
};

// The requests of other machines.
struct AskedOfNobody {
  template <typename Other>
  void On(const Other&) const {
    ADD_FAILURE() << "another state machine's request";
  }
};

}  // namespace mlxcomm::jobs
