#include "daemon/collective/plan_planners.h"

namespace mlxcomm::collective {

// Blocks are ranks' inputs. Between the nodes they travel from one node's lead
// output to the next's; a node's own blocks are sent from their inputs. The tag
// names rank and pass: a rank's block crosses each edge of the ring once.
void PlanRingAllGather(const Signature& signature, const GroupLayout& layout, Plan& plan) {
  const std::uint64_t block_bytes = signature.count * DataTypeBytes(signature.type);
  const int nodes = layout.node_count();
  const int self = layout.self();
  const bool several_local = layout.local_ranks().size() > 1;
  const auto around = [nodes](int index) {
    return static_cast<std::uint16_t>(((index % nodes) + nodes) % nodes);
  };

  for (const std::uint32_t rank : layout.local_ranks()) {
    Step copy;
    copy.kind = StepKind::kLocal;
    copy.source = {Place::Side::kInput, layout.LocalIndexOf(rank), 0};
    copy.destination = {Place::Side::kOutput, Place::kEveryLocalRank, rank * block_bytes};
    copy.bytes = block_bytes;
    plan.Add(copy);
  }

  // By rank: the step in which its block arrived here.
  std::vector<std::int32_t> arrived(layout.rank_count(), Step::kNone);
  for (int s = 0; s + 1 < nodes; ++s) {
    for (const std::uint32_t rank : layout.ranks_on(around(self - s))) {
      Step send;
      send.kind = StepKind::kSend;
      send.tag = static_cast<std::uint16_t>(rank);
      send.node = around(self + 1);
      send.source = s == 0 ? Place{Place::Side::kInput, layout.LocalIndexOf(rank), 0}
                           : Place{Place::Side::kOutput, 0, rank * block_bytes};
      send.bytes = block_bytes;

      plan.Add(send, {arrived[rank]});
    }
    for (const std::uint32_t rank : layout.ranks_on(around(self - s - 1))) {
      Step receive;
      receive.kind = StepKind::kReceive;
      receive.tag = static_cast<std::uint16_t>(rank);
      receive.node = around(self - 1);
      receive.destination = {Place::Side::kOutput, 0, rank * block_bytes};
      receive.bytes = block_bytes;
      arrived[rank] = plan.Add(receive);
      if (!several_local) continue;
      Step deliver;
      deliver.kind = StepKind::kLocal;
      deliver.source = receive.destination;
      deliver.destination = {Place::Side::kOutput, Place::kEveryLocalRank, rank * block_bytes};
      deliver.bytes = block_bytes;

      plan.Add(deliver, {arrived[rank]});
    }
  }
}

}  // namespace mlxcomm::collective
