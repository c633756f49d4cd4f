// Short numbers for operations and work under way, so that answers find them by index. Slots never
// move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/collective/action.h"
#include "daemon/collective/operation.h"

namespace mlxcomm::collective {

class Group;

class InFlight {
 public:
  struct WorkSlot {
    LocalWork work;
    std::uint32_t operation = 0;
    std::uint32_t step = 0;
    std::uint32_t chunk = 0;
  };
  struct Entry {
    Group* group = nullptr;
    Operation* operation = nullptr;
  };

  InFlight() {
    while (work_.size() < kWorkUsual) AddWork();
  }

  std::uint32_t Register(Group* group, Operation* operation) {
    if (free_ids_.empty()) {
      free_ids_.push_back(static_cast<std::uint32_t>(entries_.size()));
      entries_.emplace_back();
    }
    const std::uint32_t id = free_ids_.back();
    free_ids_.pop_back();
    entries_[id] = {group, operation};
    return id;
  }
  void Unregister(std::uint32_t id) {
    entries_[id] = {};
    free_ids_.push_back(id);
  }
  Entry Find(std::uint64_t id) const { return id < entries_.size() ? entries_[id] : Entry{}; }

  WorkSlot& NewWork(std::uint64_t& cookie) {
    if (free_work_.empty()) AddWork();
    cookie = free_work_.back();
    free_work_.pop_back();
    return *work_[cookie];
  }
  WorkSlot& Work(std::uint64_t cookie) { return *work_[cookie]; }
  void FreeWork(std::uint64_t cookie) { free_work_.push_back(static_cast<std::uint32_t>(cookie)); }

 private:
  static constexpr std::size_t kWorkUsual = 64;  // One step's maximum.

  void AddWork() {
    free_work_.push_back(static_cast<std::uint32_t>(work_.size()));
    work_.push_back(std::make_unique<WorkSlot>());
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_ids_;
  std::vector<std::unique_ptr<WorkSlot>> work_;
  std::vector<std::uint32_t> free_work_;
};

}  // namespace mlxcomm::collective
