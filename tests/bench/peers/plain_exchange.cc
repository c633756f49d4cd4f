// The limit of two daemons over one TCP connection: two processes, one connection between them, no
// daemon, no framing, no hand-over. It does the least that an all_reduce over TCP must do:
//
//   each rank sums one half    it sends the other half of its input, adds its own to what comes, and
//                              sends each sum as soon as it is there
//   received where it stays    a rank's contribution at the place of its sum, where the input is added
//                              while it is still in the cache; the other half unchanged
//   spins, never sleeps        looks at both directions in turn, one thread for each process
//
// Each call carries as much as a buffer holds. Exchanging the whole inputs, and adding all of them
// on both sides, takes as many bytes: it was slower from 1 MiB on, below that up to a fifth faster.
#include <sched.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <thread>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/peers/plain_exchange.cc"
#include <hwy/foreach_target.h>  // Compiles what follows for each instruction set.

#include <hwy/highway.h>

#include "tests/bench/peers/timed_all_reduce.h"
#include "tests/bench/peers/two_rank_connection.h"

HWY_BEFORE_NAMESPACE();
namespace mlxcomm::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Data is received at any address, so not at multiples of a vector.
void AddTo(float* total, const float* added, std::size_t count) {
  const hn::ScalableTag<float> tag;
  const std::size_t lanes = hn::Lanes(tag);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(tag, total + i), hn::LoadU(tag, added + i)), tag, total + i);
  }
  for (; i < count; ++i) total[i] += added[i];
}

}  // namespace mlxcomm::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mlxcomm::bench {
namespace {

HWY_EXPORT(AddTo);

constexpr std::uint32_t kRanks = 2;

// At most this much in one call. With 256 KiB an operation of 1 MiB took a fifth less over
// loopback, and twice to three times as long over a veth pair.
constexpr std::size_t kPieceBytes = 128 << 10;

// A rank is never further ahead of the other: data under way stays in the caches. Without that 16
// MiB took 1.5 times as long. Neither waits for ever: both would have sent more than the other.
constexpr std::size_t kAheadBytes = 384 << 10;

class PlainExchange final : public AllReduceSystem {
 public:
  PlainExchange(std::uint32_t rank, std::uint32_t ranks, const std::string& address)
      : rank_(Checked(rank, ranks)), peer_(rank, address) {}
  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return kRanks; }
  void Prepare(std::uint64_t count) override {
    input_ = std::vector<float>(count);
    output_ = std::vector<float>(count);
    const Half first{0, count / kRanks * sizeof(float)};
    const Half second{first.bytes, count * sizeof(float) - first.bytes};
    own_ = rank_ == 0 ? first : second;
    other_ = rank_ == 0 ? second : first;
  }
  float* input() override { return input_.data(); }
  const float* output() override { return output_.data(); }
  void Run() override {
    sent_ = received_ = summed_ = 0;
    const std::size_t bytes = own_.bytes + other_.bytes;
    while (sent_ < bytes || received_ < bytes) {
      const std::size_t sent = peer_.Send(Sendable());
      sent_ += sent;
      const std::size_t received = peer_.Receive(Receivable());
      received_ += received;
      AddReceived();
      if (sent == 0 && received == 0) GiveWay();
    }
  }
  void Meet() override {
    std::byte here{};
    std::byte there{};
    while (peer_.Send({&here, 1}) == 0) GiveWay();
    while (peer_.Receive({&there, 1}) == 0) GiveWay();
  }

 private:
  struct Half {
    std::size_t begin = 0;  // All fields here are in bytes.
    std::size_t bytes = 0;
  };

  static std::uint32_t Checked(std::uint32_t rank, std::uint32_t ranks) {
    if (ranks != kRanks || rank >= kRanks) {
      throw std::runtime_error("only ranks 0 and 1 of two can exchange, not rank " +
                               std::to_string(rank) + " of " + std::to_string(ranks));
    }
    return rank;
  }

  // The other's half of the input, then the sums that are ready.
  std::span<const std::byte> Sendable() const {
    const std::size_t allowed = std::min(kPieceBytes, received_ + kAheadBytes - sent_);
    if (sent_ < other_.bytes) {
      return std::as_bytes(std::span(input_))
          .subspan(other_.begin + sent_, std::min(allowed, other_.bytes - sent_));
    }
    const std::size_t sums_sent = sent_ - other_.bytes;
    return std::as_bytes(std::span(output_))
        .subspan(own_.begin + sums_sent, std::min(allowed, summed_ - sums_sent));
  }

  // The addends for the own half, then the other's sums.
  std::span<std::byte> Receivable() {
    const auto output = std::as_writable_bytes(std::span(output_));
    if (received_ < own_.bytes) {
      return output.subspan(own_.begin + received_, std::min(kPieceBytes, own_.bytes - received_));
    }
    const std::size_t sums = received_ - own_.bytes;
    return output.subspan(other_.begin + sums, std::min(kPieceBytes, other_.bytes - sums));
  }

  // Whole floats only; the rest of one comes with the next bytes.
  void AddReceived() {
    const std::size_t end = std::min(received_, own_.bytes) / sizeof(float) * sizeof(float);
    if (end == summed_) return;
    const std::size_t first = (own_.begin + summed_) / sizeof(float);
    HWY_DYNAMIC_DISPATCH(AddTo)(&output_[first], &input_[first], (end - summed_) / sizeof(float));
    summed_ = end;
  }

  void GiveWay() const {
    if (cores_are_scarce_) sched_yield();
  }

  const std::uint32_t rank_;
  const bool cores_are_scarce_ = std::thread::hardware_concurrency() < kRanks;
  RankConnection peer_;
  std::vector<float> input_;
  std::vector<float> output_;
  Half own_;    // Summed here.
  Half other_;  // Summed by the other rank.
  // Bytes of this operation. In each direction the addends go first, then sums.
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
  std::size_t summed_ = 0;
};

}  // namespace
}  // namespace mlxcomm::bench

// EXCHANGE_ADDRESS: where rank 0 listens.
int main(int argc, char** argv) {
  using namespace mlxcomm::bench;
  return TimedMain(argc, argv, [] {
    return std::make_unique<PlainExchange>(EnvironmentNumber("MLX_RANK"),
                                           EnvironmentNumber("MLX_WORLD_SIZE"),
                                           Environment("EXCHANGE_ADDRESS"));
  });
}
#endif  // HWY_ONCE
