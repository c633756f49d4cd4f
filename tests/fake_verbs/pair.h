// The fake's objects: the part that verbs.h knows comes first, so that a pointer to one is a
// pointer to the other.
//
// A queue pair listens on a Unix socket, named after its number; when it becomes ready to
// receive, a thread of its own connects to the other's. Messages go through it in order:
//
//   post_send ─▶ sends ─▶ [sender thread] ═══ socket ═══▶ [receiver thread] ─▶ a receive ─▶ CQ
//                            completes when the socket has taken it: nobody has acknowledged
//
// Owner: the library's user, by the calls of verbs. Thread: any; one lock for each queue pair and
// for each completion queue, the latter taken last. Memory: a copy of each message in transit.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fake_verbs {

inline constexpr std::uint32_t kFrameBytes = 4096;
inline constexpr std::uint32_t kFramesMax = 4095;
inline constexpr std::uint32_t kPairsMax = 10;
inline constexpr std::uint32_t kRegionsMax = 100;

// Mirrors an IPv4 address.
inline bool IsIpv4s(const ibv_gid& gid) {
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

struct FakeDevice : ibv_device {
  std::vector<ibv_gid> gids;
  std::atomic<std::uint32_t> pairs{0};
  std::atomic<std::uint32_t> regions{0};
};

struct FakeContext : ibv_context {
  FakeDevice* of = nullptr;
};

struct FakeRegion : ibv_mr {
  std::atomic<int> posted{0};  // Work requests that may still touch it.
};

struct FakeDomain : ibv_pd {
  std::mutex mutex;
  std::map<std::uint32_t, FakeRegion*> regions;  // By key.
};

struct FakeChannel : ibv_comp_channel {
  int writer = -1;
};

struct FakeQueue : ibv_cq {
  std::mutex mutex;
  std::deque<ibv_wc> done;
  ibv_wc last{};  // The last one that was reported.
  bool armed = false;
  bool overrun = false;
  std::atomic<int> users{0};

  void Add(const ibv_wc& completion);
};

struct Work {
  std::uint64_t id = 0;
  std::byte* address = nullptr;
  std::uint32_t bytes = 0;
  FakeRegion* region = nullptr;

  // Zero bytes take one, too.
  std::uint32_t frames() const { return bytes == 0 ? 1 : (bytes + kFrameBytes - 1) / kFrameBytes; }
};

class FakePair : public ibv_qp {
 public:
  FakePair(FakeDomain& domain, const ibv_qp_init_attr& attributes);
  ~FakePair();
  bool Listen();

  int Modify(const ibv_qp_attr& attributes, int mask);
  int Post(const ibv_send_wr& request);
  int Post(const ibv_recv_wr& request);
  const ibv_qp_cap& granted() const { return granted_; }

 private:
  void Send();
  void Receive();
  void Deliver(std::vector<std::byte>& message);
  bool FindMemory(const ibv_sge* entries, int count, Work& work);
  bool IsBroken();
  static bool IsApples();
  static std::uint32_t CostOf(const Work& work);
  void Complete(FakeQueue& queue, const Work& work, ibv_wc_status status, ibv_wc_opcode opcode,
                std::uint32_t bytes);
  void FailAll(ibv_wc_status status);
  void StartThreads();
  bool ReadAll(int socket, void* to, std::size_t bytes);
  bool WriteAll(int socket, const void* from, std::size_t bytes);
  FakeQueue& sends_to() { return *static_cast<FakeQueue*>(send_cq); }
  FakeQueue& receives_to() { return *static_cast<FakeQueue*>(recv_cq); }
  FakeDevice& device() { return *static_cast<FakeContext*>(context)->of; }
  std::string PathOf(std::uint32_t number) const;
  void Say(const std::string& what);

  FakeDomain& domain_;
  ibv_qp_cap granted_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> sends_;
  std::deque<Work> receives_;
  std::uint32_t send_frames_ = 0;  // Posted and not completed.
  std::uint32_t receive_frames_ = 0;
  bool ends_ = false;
  bool was_failed_ = false;  // In the error state, by the user's own call.
  std::uint32_t peer_ = 0;
  std::uint32_t first_packet_ = 0;  // Of the peer's messages.
  std::uint32_t own_first_packet_ = 0;
  int listener_ = -1;
  std::uint64_t random_ = 88172645463325252ull;
  std::thread sender_;
  std::thread receiver_;
};

}  // namespace fake_verbs
