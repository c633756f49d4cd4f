// The half of Engine that tells what the cables form: from the same answers as Status, so
// that all nodes, asked at the same time, say the same.
#include <utility>

#include "daemon/cluster/topology_reply.h"
#include "daemon/engine.h"

namespace mlxcomm {
namespace {

// Asks as Status does and makes another answer of it.
class TopologyOfStatus final : public control::StatusAnswer {
 public:
  explicit TopologyOfStatus(std::unique_ptr<control::TopologyAnswer> answer)
      : answer_(std::move(answer)) {}
  void Succeed(const v1::StatusReply& status) override {
    answer_->Succeed(cluster::TopologyOf(status));
  }
  void Fail(const Failure& failure) override { answer_->Fail(failure); }

 private:
  std::unique_ptr<control::TopologyAnswer> answer_;
};

}  // namespace

void Engine::Topology(std::unique_ptr<control::TopologyAnswer> answer) {
  // Nodes and cables only, which everybody sees.
  Status(intake::User{.name = {}, .sees_all = true},
         std::make_unique<TopologyOfStatus>(std::move(answer)));
}

}  // namespace mlxcomm
