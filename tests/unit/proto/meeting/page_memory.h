// A page of zeros in this process's memory, or mapped so that forked children share it.
//
// Owner: the test. Thread: any. Memory: the page's.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "proto/meeting/page.h"
#include "proto/meeting/rank_side.h"

namespace mlxcomm::meeting {

class PageMemory {
 public:
  // Reads beyond its end fault.
  explicit PageMemory(std::uint32_t ranks) : ranks_(ranks), bytes_(PageBytes(ranks)) {
    void* const mapped =
        ::mmap(nullptr, bytes_ + kGuard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return;
    base_ = static_cast<std::byte*>(mapped);
    EXPECT_EQ(::mprotect(base_ + bytes_, kGuard, PROT_NONE), 0);
  }
  ~PageMemory() {
    if (base_ != nullptr) ::munmap(base_, bytes_ + kGuard);
  }
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  PageView view() const { return {base_, ranks_}; }

 private:
  static constexpr std::size_t kGuard = std::size_t{64} * 1024;  // At least a system page.
  std::uint32_t ranks_;
  std::size_t bytes_;
  std::byte* base_ = nullptr;
};

inline queue::SubmissionEntry EntryOf(std::uint32_t rank, std::uint64_t ticket) {
  queue::SubmissionEntry entry{};
  entry.ticket = ticket;
  entry.peer_rank = rank;
  return entry;
}

}  // namespace mlxcomm::meeting
