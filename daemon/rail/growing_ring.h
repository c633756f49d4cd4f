// A queue that keeps its memory: unlike std::deque, it allocates only when it is longer than ever
// before.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace mlxcomm::rail {

template <typename Item>
class GrowingRing {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Item& operator[](std::size_t i) { return items_[(first_ + i) & (items_.size() - 1)]; }
  Item& front() { return (*this)[0]; }
  const Item& front() const { return items_[first_]; }
  Item& emplace_back() {
    if (size_ == items_.size()) Grow();
    Item& item = (*this)[size_++];
    item = Item{};
    return item;
  }
  void pop_front() {
    front() = Item{};
    first_ = (first_ + 1) & (items_.size() - 1);
    --size_;
  }
  void clear() {
    while (!empty()) pop_front();
  }

 private:
  void Grow() {
    std::vector<Item> larger(items_.empty() ? 64 : 2 * items_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    items_.swap(larger);
    first_ = 0;
  }
  std::vector<Item> items_;  // Its size is a power of two.
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mlxcomm::rail
