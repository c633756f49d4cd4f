// The limit on one node: a plain loop of two threads of one process that reads the inputs of
// all ranks and writes the outputs of all, bypassing the cache if they exceed it. No other process,
// and no hand-over except an atomic counter on which both threads spin.
//
// Only the first of RANKS inputs has values that are checked; the others are zero.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/peers/plain_loop.cc"
#include <hwy/foreach_target.h>  // Compiles what follows for each instruction set.

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "daemon/platform/machine.h"
#include "tests/bench/peers/timed_all_reduce.h"

HWY_BEFORE_NAMESPACE();
namespace mlxcomm::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// One vector at a time from all inputs to all outputs; the beginning and the end are multiples of
// it.
template <bool kPastCache>
void SumVectors(float* const* in, float* const* out, std::size_t ranks, std::size_t begin,
                std::size_t end) {
  const hn::ScalableTag<float> tag;
  for (std::size_t i = begin; i < end; i += hn::Lanes(tag)) {
    auto total = hn::Load(tag, in[0] + i);
    for (std::size_t r = 1; r < ranks; ++r) total = hn::Add(total, hn::Load(tag, in[r] + i));
    for (std::size_t r = 0; r < ranks; ++r) {
      if constexpr (kPastCache) {
        hn::Stream(total, tag, out[r] + i);
      } else {
        hn::Store(total, tag, out[r] + i);
      }
    }
  }
  if constexpr (kPastCache) hwy::FlushStream();
}

void Sum(float* const* in, float* const* out, std::size_t ranks, std::size_t begin, std::size_t end,
         bool past_cache) {
  if (past_cache) {
    SumVectors<true>(in, out, ranks, begin, end);
  } else {
    SumVectors<false>(in, out, ranks, begin, end);
  }
}

}  // namespace mlxcomm::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mlxcomm::bench {
namespace {

HWY_EXPORT(Sum);

constexpr std::size_t kAlignment = 4096;
constexpr std::size_t kFloatsOfAPage = kAlignment / sizeof(float);

struct Free {
  void operator()(float* data) const { std::free(data); }
};
using Floats = std::unique_ptr<float, Free>;

// Zeros, in whole pages.
Floats Allocate(std::size_t count) {
  void* const data = std::aligned_alloc(kAlignment, count * sizeof(float));
  if (data == nullptr) throw std::bad_alloc();
  std::fill_n(static_cast<float*>(data), count, 0.0F);
  return Floats(static_cast<float*>(data));
}

class PlainLoop final : public AllReduceSystem {
 public:
  explicit PlainLoop(std::size_t ranks) : ranks_(ranks), second_([this] { Serve(); }) {}
  ~PlainLoop() override {
    stop_ = true;
    second_.join();
  }
  std::uint32_t rank() const override { return 0; }
  std::uint32_t size() const override { return 1; }
  void Prepare(std::uint64_t count) override {
    owned_.clear();
    in_.clear();
    out_.clear();
    const std::size_t padded = (count + kFloatsOfAPage - 1) / kFloatsOfAPage * kFloatsOfAPage;
    for (std::size_t r = 0; r < 2 * ranks_; ++r) {
      owned_.push_back(Allocate(padded));
      (r < ranks_ ? in_ : out_).push_back(owned_.back().get());
    }
    // Whole vectors of up to 64 bytes; splits only if there is something to split.
    vectors_ = (count + 15) / 16 * 16;
    middle_ = vectors_ >= 2 * kFloatsOfAPage ? vectors_ / 2 / 16 * 16 : vectors_;
    // Not sysconf's value: on some virtual machines that is the size for all of the host's cores.
    past_cache_ = 2 * ranks_ * count * sizeof(float) > platform::LastLevelCacheBytes();
  }
  float* input() override { return in_[0]; }
  const float* output() override { return out_[0]; }
  void Meet() override {}
  void OnFilled() override {
    Share(Task::kFill, [] {});
  }
  void Run() override {
    if (middle_ == vectors_) {
      HWY_DYNAMIC_DISPATCH(Sum)(in_.data(), out_.data(), ranks_, 0, vectors_, past_cache_);
      return;
    }
    Share(Task::kSum, [this] {
      HWY_DYNAMIC_DISPATCH(Sum)(in_.data(), out_.data(), ranks_, 0, middle_, past_cache_);
    });
  }

 private:
  enum class Task { kSum, kFill };

  // The second thread does the task while this one does its own part.
  template <typename Own>
  void Share(Task task, Own own) {
    task_ = task;
    const std::uint64_t turn = begun_.fetch_add(1, std::memory_order_release) + 1;
    own();
    while (done_.load(std::memory_order_acquire) != turn) {
    }
  }
  void Serve() {
    for (std::uint64_t turn = 1; !stop_;) {
      if (begun_.load(std::memory_order_acquire) < turn) continue;
      if (task_ == Task::kFill) {  // Instead of the other ranks: reads, then writes.
        for (std::size_t r = 1; r < ranks_; ++r) {
          unequal_ += std::memcmp(out_[r], out_[0], vectors_ * sizeof(float)) != 0;
          std::fill_n(in_[r], vectors_, 0.0F);
        }
      } else {
        HWY_DYNAMIC_DISPATCH(Sum)(in_.data(), out_.data(), ranks_, middle_, vectors_, past_cache_);
      }
      done_.store(turn++, std::memory_order_release);
    }
  }

  std::size_t ranks_;
  std::vector<Floats> owned_;
  std::vector<float*> in_;
  std::vector<float*> out_;
  std::size_t vectors_ = 0;
  std::size_t middle_ = 0;
  bool past_cache_ = false;
  Task task_ = Task::kSum;        // Published by begun_.
  std::atomic<int> unequal_ = 0;  // Outputs that differed.
  alignas(64) std::atomic<std::uint64_t> begun_ = 0;
  alignas(64) std::atomic<std::uint64_t> done_ = 0;
  alignas(64) std::atomic<bool> stop_ = false;
  std::thread second_;  // Last, because it uses all of the above.
};

}  // namespace
}  // namespace mlxcomm::bench

int main(int argc, char** argv) {
  return mlxcomm::bench::TimedMain(argc, argv, [] {
    return std::make_unique<mlxcomm::bench::PlainLoop>(
        mlxcomm::bench::EnvironmentNumber("MLX_WORLD_SIZE"));
  });
}
#endif  // HWY_ONCE
