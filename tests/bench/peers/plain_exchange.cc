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
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/peers/plain_exchange.cc"
#include <hwy/foreach_target.h>  // Compiles what follows for each instruction set.

#include <hwy/highway.h>

#include "proto/queue/socket_options.h"
#include "proto/system/file_descriptor.h"
#include "tests/bench/peers/timed_all_reduce.h"

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

[[noreturn]] void Fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The one connection: rank 0 listens, rank 1 connects, in whichever order they start.
class RankConnection {
 public:
  RankConnection(std::uint32_t rank, const std::string& address)
      : socket_(rank == 0 ? Accepted(address) : Connected(address)) {
    const int yes = 1;
    const int flags = fcntl(socket_.get(), F_GETFL);
    if (!queue::SilenceSignals(socket_.get()) ||
        setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0 || flags < 0 ||
        fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
      Fail("cannot prepare the connection of " + address);
    }
  }

  // Return how many bytes were sent, or received; 0 if none can be at the moment. They throw once
  // the connection is lost.
  std::size_t Send(std::span<const std::byte> data) {
    if (data.empty()) return 0;
    const ssize_t sent = send(socket_.get(), data.data(), data.size(), queue::kNoSignal);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (!IsForNow(errno)) Fail("cannot send to the other rank");
    return 0;
  }
  std::size_t Receive(std::span<std::byte> room) {
    if (room.empty()) return 0;
    const ssize_t received = recv(socket_.get(), room.data(), room.size(), 0);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received == 0) throw std::runtime_error("the other rank has closed the connection");
    if (!IsForNow(errno)) Fail("cannot receive from the other rank");
    return 0;
  }

 private:
  static bool IsForNow(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
  }
  static sockaddr_in Parsed(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    sockaddr_in address{};
    address.sin_family = AF_INET;
    if (colon == std::string::npos ||
        inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) != 1) {
      throw std::runtime_error("EXCHANGE_ADDRESS is " + text + "; expected ADDRESS:PORT of IPv4");
    }
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1))));
    return address;
  }
  static FileDescriptor NewSocket() {
    const int made = socket(AF_INET, SOCK_STREAM, 0);
    if (made < 0) Fail("cannot make a socket");
    return FileDescriptor(made);
  }
  static FileDescriptor Accepted(const std::string& text) {
    const sockaddr_in address = Parsed(text);
    const FileDescriptor listening = NewSocket();
    const int yes = 1;
    if (setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listening.get(), 1) != 0) {
      Fail("cannot listen at " + text);
    }
    const int accepted = accept(listening.get(), nullptr, nullptr);
    if (accepted < 0) Fail("cannot accept a connection at " + text);
    return FileDescriptor(accepted);
  }
  static FileDescriptor Connected(const std::string& text) {
    const sockaddr_in address = Parsed(text);
    for (;;) {
      FileDescriptor connecting = NewSocket();  // A refused one cannot be used again.
      if (connect(connecting.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
          0) {
        return connecting;
      }
      if (errno != ECONNREFUSED) Fail("cannot connect to rank 0 at " + text);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  FileDescriptor socket_;
};

class PlainExchange final : public AllReduceSystem {
 public:
  PlainExchange(std::uint32_t rank, const std::string& address)
      : rank_(rank), peer_(rank, address) {}
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
                                           Environment("EXCHANGE_ADDRESS"));
  });
}
#endif  // HWY_ONCE
