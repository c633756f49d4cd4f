// A node's place in the binomial tree: its parent and its children.
//
// Places count from the root around the nodes. A place's parent is the place without its lowest
// bit; a subtree is a run of places that begins with its root.
//
//          0
//       / / \           places of seven nodes, depth = log2
//      1 2   4
//        |  / \         (5 = 101b, below 4 = 100b)
//        3 5   6
#pragma once

#include <algorithm>
#include <bit>

namespace mlxcomm::collective {

class Binomial {
 public:
  Binomial(int nodes, int root, int self)
      : nodes_(nodes), root_(root), place_((self - root + nodes) % nodes) {}

  bool IsRoot() const { return place_ == 0; }
  int place() const { return place_; }
  int NodeAt(int place) const { return (place + root_) % nodes_; }
  int Parent() const { return NodeAt(place_ & (place_ - 1)); }
  // Children are at place() + 1, 2, 4 ... below this distance.
  int ChildDistanceEnd() const { return std::min(Limit(), nodes_ - place_); }
  // The largest power of two below that; 0: no child.
  int LastChildDistance() const {
    const int end = ChildDistanceEnd();
    return end <= 1 ? 0 : static_cast<int>(std::bit_floor(static_cast<unsigned>(end - 1)));
  }
  // Places in the subtree of the child at this distance.
  int SubtreeOfChild(int distance) const { return std::min(distance, nodes_ - place_ - distance); }

 private:
  int Limit() const {
    return IsRoot() ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(nodes_)))
                    : (place_ & -place_);
  }

  int nodes_;
  int root_;
  int place_;
};

}  // namespace mlxcomm::collective
