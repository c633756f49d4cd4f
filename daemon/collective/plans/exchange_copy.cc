// Each node to each node, for operations that only move blocks: each block goes directly to its
// destination.
#include "daemon/collective/plans/blocks.h"
#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {

void ExchangeAllGather(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const GroupLayout& layout = writer.layout();
  const Blocks blocks(request);
  for (int i = 1; i < writer.nodes(); ++i) {
    const int node = (writer.self() + i) % writer.nodes();
    for (const std::uint32_t rank : layout.local_ranks()) {
      writer.Send(node, rank, InputOf(layout.LocalIndexOf(rank), 0), blocks.BytesOf(rank));
    }
  }
  for (std::uint32_t rank = 0; rank < layout.rank_count(); ++rank) {
    const std::uint64_t offset = blocks.OffsetOf(rank);
    const int local = layout.LocalIndexOf(rank);
    if (local >= 0) {
      writer.Copy(InputOf(local, 0), Everyones(OutputOf(0, offset)), blocks.BytesOf(rank));
      continue;
    }
    const std::int32_t received =
        writer.Receive(layout.node_of(rank), rank, OutputOf(0, offset), blocks.BytesOf(rank));
    writer.Deliver(offset, blocks.BytesOf(rank), received);
  }
}

void ExchangeBroadcast(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  if (!writer.AtRoot()) {
    const std::int32_t received =
        writer.Receive(writer.RootNode(), 0, OutputOf(0, 0), writer.bytes());
    return writer.Deliver(0, writer.bytes(), received);
  }
  const Place source = InputOf(writer.RootLocal(), 0);
  for (int i = 1; i < writer.nodes(); ++i) {
    writer.Send((writer.self() + i) % writer.nodes(), 0, source, writer.bytes());
  }
  writer.Copy(source, Everyones(OutputOf(0, 0)), writer.bytes());
}

void ExchangeGather(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const GroupLayout& layout = writer.layout();
  if (!writer.AtRoot()) {
    for (const std::uint32_t rank : layout.local_ranks()) {
      writer.Send(writer.RootNode(), rank, InputOf(layout.LocalIndexOf(rank), 0), writer.bytes());
    }
    return;
  }
  for (std::uint32_t rank = 0; rank < layout.rank_count(); ++rank) {
    const Place block = OutputOf(writer.RootLocal(), rank * writer.bytes());
    const int local = layout.LocalIndexOf(rank);
    if (local >= 0) {
      writer.Copy(InputOf(local, 0), block, writer.bytes());
    } else {
      writer.Receive(layout.node_of(rank), rank, block, writer.bytes());
    }
  }
}

void ExchangeScatter(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const GroupLayout& layout = writer.layout();
  if (!writer.AtRoot()) {
    for (const std::uint32_t rank : layout.local_ranks()) {
      writer.Receive(writer.RootNode(), rank, OutputOf(layout.LocalIndexOf(rank), 0),
                     writer.bytes());
    }
    return;
  }
  for (int i = 0; i < writer.nodes(); ++i) {
    const int node = (writer.self() + i) % writer.nodes();
    for (const std::uint32_t rank : writer.RanksOn(node)) {
      const Place block = InputOf(writer.RootLocal(), rank * writer.bytes());
      if (i == 0) {
        writer.Copy(block, OutputOf(layout.LocalIndexOf(rank), 0), writer.bytes());
      } else {
        writer.Send(node, rank, block, writer.bytes());
      }
    }
  }
}

}  // namespace mlxcomm::collective
