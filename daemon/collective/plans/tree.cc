#include "daemon/collective/plans/binomial.h"
#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {
namespace {

// Upwards: each node combines its children's data, the smallest subtree first, and sends it to its
// parent.
struct Raised {
  std::int32_t complete = Step::kNone;  // Set at the root.
  std::int32_t sent = Step::kNone;      // Elsewhere.
};

Raised Raise(PlanWriter& writer, const Binomial& tree, const Place& work) {
  PlanWriter::Value value = writer.Contribution(0, work, writer.bytes());
  for (int distance = 1; distance < tree.ChildDistanceEnd(); distance *= 2) {
    value = {work, writer.ReduceReceived(tree.NodeAt(tree.place() + distance), 0, value.place, work,
                                         writer.bytes(), {value.step})};
  }
  if (tree.IsRoot()) return {.complete = writer.Finish(value.step)};
  return {.sent = writer.Send(tree.Parent(), 0, value.place, writer.bytes(), {value.step})};
}

// Downwards; the largest subtree first, because it is deepest.
void Lower(PlanWriter& writer, const Binomial& tree, const PlanWriter::Value& value) {
  for (int distance = tree.LastChildDistance(); distance > 0; distance /= 2) {
    writer.Send(tree.NodeAt(tree.place() + distance), 0, value.place, writer.bytes(), {value.step});
  }
}

}  // namespace

void TreeBroadcast(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const Binomial tree(writer.nodes(), writer.RootNode(), writer.self());
  if (tree.IsRoot()) {
    const Place source = InputOf(writer.RootLocal(), 0);
    Lower(writer, tree, {source, Step::kNone});
    writer.Copy(source, Everyones(OutputOf(0, 0)), writer.bytes());
    return;
  }
  const std::int32_t received = writer.Receive(tree.Parent(), 0, OutputOf(0, 0), writer.bytes());
  Lower(writer, tree, {OutputOf(0, 0), received});
  writer.Deliver(0, writer.bytes(), received);
}

void TreeReduce(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const Binomial tree(writer.nodes(), writer.RootNode(), writer.self());
  const bool has_scratch =
      !tree.IsRoot() && (writer.several_local() || tree.LastChildDistance() > 0);
  const Place work = tree.IsRoot() ? OutputOf(writer.RootLocal(), 0)
                                   : ScratchAt(has_scratch ? plan.AddScratch(writer.bytes()) : 0);
  Raise(writer, tree, work);
}

void TreeAllReduce(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const Binomial tree(writer.nodes(), /*root=*/0, writer.self());
  const Place result = OutputOf(0, 0);
  const Raised raised = Raise(writer, tree, result);
  const std::int32_t complete =
      tree.IsRoot() ? raised.complete
                    : writer.Receive(tree.Parent(), 0, result, writer.bytes(), {raised.sent});
  Lower(writer, tree, {result, complete});
  writer.Deliver(0, writer.bytes(), complete);
}

}  // namespace mlxcomm::collective
