// Gather and scatter through a tree: the blocks of a subtree travel together, packed in the order
// of places.
#include "daemon/collective/plans/binomial.h"
#include "daemon/collective/plans/plan_writer.h"
#include "daemon/collective/plans/plans.h"

namespace mlxcomm::collective {
namespace {

class Subtree {
 public:
  Subtree(PlanWriter& writer, const Binomial& tree) : writer_(writer), tree_(tree) {
    // A node with only its single rank's block needs no packing.
    if (!Packs()) return;
    scratch_ = writer.plan().AddScratch(BlocksOf(0, tree.ChildDistanceEnd()) * writer.bytes());
  }

  bool Packs() const { return writer_.several_local() || tree_.LastChildDistance() > 0; }
  // The number of blocks of the nodes at distances [from, from + places).
  std::uint64_t BlocksOf(int from, int places) const {
    std::uint64_t blocks = 0;
    for (int i = 0; i < places; ++i) blocks += RanksAt(from + i).size();
    return blocks;
  }
  const std::vector<std::uint32_t>& RanksAt(int distance) const {
    return writer_.RanksOn(tree_.NodeAt(tree_.place() + distance));
  }
  int Child(int distance) const { return tree_.NodeAt(tree_.place() + distance); }
  // Returns where the blocks of the node at that distance begin.
  Place At(int distance) const {
    return ScratchAt(scratch_ + BlocksOf(0, distance) * writer_.bytes());
  }
  std::uint64_t BytesOf(int from, int places) const {
    return BlocksOf(from, places) * writer_.bytes();
  }

 private:
  PlanWriter& writer_;
  const Binomial& tree_;
  std::uint64_t scratch_ = 0;
};

// Visits (rank, its packed position) for the nodes at distances [from, from + places).
template <typename Visitor>
void ForEachBlock(const PlanWriter& writer, const Subtree& subtree, int from, int places,
                  Visitor visitor) {
  for (int i = from; i < from + places; ++i) {
    Place place = subtree.At(i);
    for (const std::uint32_t rank : subtree.RanksAt(i)) {
      visitor(rank, place);
      place = Shifted(place, writer.bytes());
    }
  }
}

}  // namespace

void TreeGather(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const Binomial tree(writer.nodes(), writer.RootNode(), writer.self());
  const Subtree subtree(writer, tree);
  if (!subtree.Packs()) {
    writer.Send(tree.Parent(), 0, InputOf(0, 0), writer.bytes());
    return;
  }
  SmallTable<std::int32_t> packed;
  const int local_root = writer.RootLocal();
  ForEachBlock(writer, subtree, 0, 1, [&](std::uint32_t rank, const Place& place) {
    const Place to = tree.IsRoot() ? OutputOf(local_root, rank * writer.bytes()) : place;
    packed.push_back(
        writer.Copy(InputOf(writer.layout().LocalIndexOf(rank), 0), to, writer.bytes()));
  });
  for (int distance = 1; distance < tree.ChildDistanceEnd(); distance *= 2) {
    const int places = tree.SubtreeOfChild(distance);
    const std::int32_t received = writer.Receive(subtree.Child(distance), 0, subtree.At(distance),
                                                 subtree.BytesOf(distance, places));
    packed.push_back(received);
    if (!tree.IsRoot()) continue;
    ForEachBlock(writer, subtree, distance, places, [&](std::uint32_t rank, const Place& place) {
      writer.Copy(place, OutputOf(local_root, rank * writer.bytes()), writer.bytes(), {received});
    });
  }
  if (tree.IsRoot()) return;
  writer.SendAfterAll(tree.Parent(), 0, subtree.At(0), subtree.BytesOf(0, tree.ChildDistanceEnd()),
                      packed);
}

void TreeScatter(const PlanRequest& request, Plan& plan) {
  PlanWriter writer(request, plan);
  const Binomial tree(writer.nodes(), writer.RootNode(), writer.self());
  const Subtree subtree(writer, tree);
  if (!subtree.Packs()) {
    writer.Receive(tree.Parent(), 0, OutputOf(0, 0), writer.bytes());
    return;
  }
  const int local_root = writer.RootLocal();
  std::int32_t received = Step::kNone;
  if (!tree.IsRoot()) {
    received = writer.Receive(tree.Parent(), 0, subtree.At(0),
                              subtree.BytesOf(0, tree.ChildDistanceEnd()));
  }
  for (int distance = tree.LastChildDistance(); distance > 0; distance /= 2) {
    const int places = tree.SubtreeOfChild(distance);
    SmallTable<std::int32_t> packed{received};
    if (tree.IsRoot()) {
      ForEachBlock(writer, subtree, distance, places, [&](std::uint32_t rank, const Place& place) {
        packed.push_back(
            writer.Copy(InputOf(local_root, rank * writer.bytes()), place, writer.bytes()));
      });
    }
    writer.SendAfterAll(subtree.Child(distance), 0, subtree.At(distance),
                        subtree.BytesOf(distance, places), packed);
  }
  ForEachBlock(writer, subtree, 0, 1, [&](std::uint32_t rank, const Place& place) {
    const Place from = tree.IsRoot() ? InputOf(local_root, rank * writer.bytes()) : place;
    writer.Copy(from, OutputOf(writer.layout().LocalIndexOf(rank), 0), writer.bytes(), {received});
  });
}

}  // namespace mlxcomm::collective
