// A hash map that keeps the nodes of erased entries for later ones, so that it allocates nothing
// once it has held as many as it ever does.
//
// Owner: Connection. Thread: one at a time. Memory: a node for each entry of the largest number
// that it held at one time, at most `entries_max`.
#pragma once

#include <cstddef>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mlxcomm::client {

template <typename Key, typename Value>
class ReusingMap {
 public:
  using Map = std::unordered_map<Key, Value>;
  using iterator = typename Map::iterator;

  // It may hold more entries than that; then erasing frees them.
  explicit ReusingMap(std::size_t entries_max) {
    map_.reserve(entries_max);
    spare_.reserve(entries_max);
  }

  // Replaces the key's value, if it had one.
  void Put(const Key& key, Value value) {
    if (const auto found = map_.find(key); found != map_.end()) {
      found->second = std::move(value);
    } else if (spare_.empty()) {
      map_.emplace(key, std::move(value));
    } else {
      auto node = std::move(spare_.back());
      spare_.pop_back();
      node.key() = key;
      node.mapped() = std::move(value);
      map_.insert(std::move(node));
    }
  }
  // Returns the entry behind it.
  iterator Erase(iterator at) {
    const iterator next = std::next(at);
    auto node = map_.extract(at);
    if (spare_.size() < spare_.capacity()) {
      node.mapped() = Value();  // Its resources are released now.
      spare_.push_back(std::move(node));
    }
    return next;
  }
  iterator Find(const Key& key) { return map_.find(key); }
  iterator begin() { return map_.begin(); }
  iterator end() { return map_.end(); }
  std::size_t size() const { return map_.size(); }

 private:
  Map map_;
  std::vector<typename Map::node_type> spare_;
};

}  // namespace mlxcomm::client
