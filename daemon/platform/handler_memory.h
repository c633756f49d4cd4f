// Memory for Asio's handlers, recycled by each thread. Asio itself recycles only inside handlers,
// so a wait that is started elsewhere would allocate each time.
//
// A handler uses it by deriving from UsesHandlerMemory.
//
// Owner: each thread, so handlers may outlive any object. Thread: any. Memory: at most kBlocksKept
// blocks for each thread; further blocks and long ones are ordinary memory.
#pragma once

#include <cstddef>
#include <new>

namespace mlxcomm::platform {

class HandlerMemory {
 public:
  static constexpr std::size_t kBlockBytes = 256;
  static constexpr std::size_t kBlocksKept = 64;
  static constexpr std::size_t kBlocksAtFirst = 4;

  static void* Allocate(std::size_t bytes) {
    if (bytes > kBlockBytes) return ::operator new(bytes);
    Kept& kept = OfThisThread();
    return kept.count > 0 ? kept.blocks[--kept.count] : ::operator new(kBlockBytes);
  }
  static void Free(void* block, std::size_t bytes) {
    Kept& kept = OfThisThread();
    if (bytes > kBlockBytes || kept.count == kBlocksKept) return ::operator delete(block);
    kept.blocks[kept.count++] = block;
  }

 private:
  struct Kept {
    void* blocks[kBlocksKept];
    std::size_t count = 0;
    // A wait that is started again before the old handler is freed needs two blocks.
    Kept() {
      while (count < kBlocksAtFirst) blocks[count++] = ::operator new(kBlockBytes);
    }
    ~Kept() {
      while (count > 0) ::operator delete(blocks[--count]);
    }
  };
  static Kept& OfThisThread() {
    thread_local Kept kept;
    return kept;
  }
};

template <typename Value>
struct HandlerAllocator {
  using value_type = Value;
  HandlerAllocator() = default;
  template <typename Other>
  HandlerAllocator(const HandlerAllocator<Other>&) {}  // NOLINT: allocators convert.

  Value* allocate(std::size_t count) const {
    static_assert(alignof(Value) <= alignof(std::max_align_t));
    return static_cast<Value*>(HandlerMemory::Allocate(count * sizeof(Value)));
  }
  void deallocate(Value* block, std::size_t count) const {
    HandlerMemory::Free(block, count * sizeof(Value));
  }
  template <typename Other>
  bool operator==(const HandlerAllocator<Other>&) const {
    return true;
  }
};

struct UsesHandlerMemory {
  using allocator_type = HandlerAllocator<std::byte>;
  allocator_type get_allocator() const noexcept { return {}; }
};

}  // namespace mlxcomm::platform
