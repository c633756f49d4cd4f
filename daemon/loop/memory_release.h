// Gives memory that was freed back to the system, which takes milliseconds, on a thread that exists only
// meanwhile: the loop has payload to move. Where two are asked for at once, one more follows the first.
//
// Owner: Loop. Thread: its owner's. Memory: a thread at times.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace mlxcomm {

class MemoryRelease {
 public:
  MemoryRelease() = default;
  ~MemoryRelease();
  MemoryRelease(const MemoryRelease&) = delete;
  MemoryRelease& operator=(const MemoryRelease&) = delete;

  // Waits for nothing. Where no thread can be started, the memory stays until the next time.
  void Start();

 private:
  void Run();

  std::atomic<std::uint32_t> asked_{0};  // 0: no thread runs.
  std::thread thread_;
};

}  // namespace mlxcomm
