#include "tests/fake_verbs/pair.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "tests/fake_verbs/control.h"

namespace fake_verbs {
namespace {

constexpr int kLookMs = 20;  // How often a waiting thread checks whether it must end.

std::atomic<std::uint32_t> next_number{1};

// Reads memory as hardware does: not on a thread, and regardless of concurrent writes.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MLXCOMM_AS_HARDWARE __attribute__((no_sanitize("thread")))
#endif
#elif defined(__SANITIZE_THREAD__)
#define MLXCOMM_AS_HARDWARE __attribute__((no_sanitize_thread))
#endif
#ifndef MLXCOMM_AS_HARDWARE
#define MLXCOMM_AS_HARDWARE
#endif

MLXCOMM_AS_HARDWARE void ReadAsHardware(const std::byte* from, std::byte* to, std::size_t bytes) {
#if defined(__SANITIZE_THREAD__)
  for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
#else
  if (bytes > 0) std::memcpy(to, from, bytes);
#endif
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

#ifdef MSG_NOSIGNAL
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;
#endif

}  // namespace

void FakeQueue::Add(const ibv_wc& completion) {
  const std::lock_guard lock(mutex);
  if (done.size() >= static_cast<std::size_t>(cqe)) {
    if (!overrun) Control::Get().Fault("a completion queue overruns");
    overrun = true;
    return;
  }
  done.push_back(completion);
  if (!armed || channel == nullptr) return;
  armed = false;
  FakeQueue* const self = this;
  if (::write(static_cast<FakeChannel*>(channel)->writer, &self, sizeof self) < 0) std::abort();
}

FakePair::FakePair(FakeDomain& domain, const ibv_qp_init_attr& attributes)
    : ibv_qp{}, domain_(domain) {
  context = domain.context;
  pd = &domain;
  send_cq = attributes.send_cq;
  recv_cq = attributes.recv_cq;
  qp_type = attributes.qp_type;
  state = IBV_QPS_RESET;
  granted_ = attributes.cap;
  const auto most = static_cast<std::uint32_t>(Control::Get().Now().Number("grant", kFramesMax));
  granted_.max_send_wr = std::min(granted_.max_send_wr, most);
  granted_.max_recv_wr = std::min(granted_.max_recv_wr, most);
  sends_to().users += 1;
  receives_to().users += 1;
  device().pairs += 1;
}

FakePair::~FakePair() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (sender_.joinable()) sender_.join();
  if (receiver_.joinable()) receiver_.join();
  if (listener_ >= 0) ::close(listener_);
  ::unlink(PathOf(qp_num).c_str());
  for (const Work& work : sends_) work.region->posted -= 1;
  for (const Work& work : receives_) work.region->posted -= 1;
  if (was_failed_ && IsApples()) {
    Say("was moved to the error state before it was destroyed: its regions stay mapped");
  }
  sends_to().users -= 1;
  receives_to().users -= 1;
  device().pairs -= 1;
}

std::string FakePair::PathOf(std::uint32_t number) const {
  return Control::Get().folder() + "/qp." + std::to_string(number);
}

void FakePair::Say(const std::string& what) {
  Control::Get().Fault("queue pair " + std::to_string(qp_num) + " of " + device().name + " " +
                       what);
}

bool FakePair::IsApples() { return Control::Get().Now().Number("unreliable_only", 1) != 0; }

bool FakePair::IsBroken() {
  const Settings settings = Control::Get().Now();
  return settings.Has("break", device().name) || settings.Has("break", std::to_string(qp_num));
}

// The unit of the depth: Apple's is counted in frames, others' in requests.
std::uint32_t FakePair::CostOf(const Work& work) { return IsApples() ? work.frames() : 1; }

// The number is the first one for which no other process has a socket.
bool FakePair::Listen() {
  listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
  for (int attempt = 0; attempt < 4096; ++attempt) {
    qp_num = (static_cast<std::uint32_t>(::getpid()) * 64 + next_number++) & 0xffffff;
    const sockaddr_un address = AddressOf(PathOf(qp_num));
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return ::listen(listener_, 1) == 0;
    }
    if (errno != EADDRINUSE) return false;
  }
  return false;
}

int FakePair::Modify(const ibv_qp_attr& attributes, int mask) {
  const std::lock_guard lock(mutex_);
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  const ibv_qp_state to = attributes.qp_state;
  if (to == IBV_QPS_ERR) {
    was_failed_ = true;
    state = to;
    return 0;
  }
  const bool next = (state == IBV_QPS_RESET && to == IBV_QPS_INIT) ||
                    (state == IBV_QPS_INIT && to == IBV_QPS_RTR) ||
                    (state == IBV_QPS_RTR && to == IBV_QPS_RTS);
  if (!next) {
    Say("is moved from state " + std::to_string(state) + " to " + std::to_string(to));
    return EINVAL;
  }
  if (to == IBV_QPS_RTR) {
    const int wanted = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const auto& gids = device().gids;
    if ((mask & wanted) != wanted || attributes.ah_attr.grh.sgid_index >= gids.size() ||
        attributes.ah_attr.is_global == 0) {
      Say("is made ready to receive without all that it takes, or from a GID that there is not");
      return EINVAL;
    }
    const Settings settings = Control::Get().Now();
    const bool ipv4s = IsIpv4s(gids[attributes.ah_attr.grh.sgid_index]) &&
                       IsIpv4s(attributes.ah_attr.grh.dgid) &&
                       !settings.Has("no_ipv4", device().name);
    if (settings.Number("ipv4_gids_only", 0) != 0 && !ipv4s) return EINVAL;
    peer_ = attributes.dest_qp_num;
    first_packet_ = attributes.rq_psn;
  }
  if (to == IBV_QPS_RTS) own_first_packet_ = attributes.sq_psn;
  state = to;
  if (to == IBV_QPS_RTS) StartThreads();
  return 0;
}

void FakePair::StartThreads() {
  receiver_ = std::thread([this] { Receive(); });
  sender_ = std::thread([this] { Send(); });
}

bool FakePair::FindMemory(const ibv_sge* entries, int count, Work& work) {
  if (count != 1) return Say("is given " + std::to_string(count) + " entries, not one"), false;
  const std::lock_guard lock(domain_.mutex);
  const auto found = domain_.regions.find(entries->lkey);
  if (found == domain_.regions.end()) return Say("is given a key of no region"), false;
  FakeRegion* const region = found->second;
  const auto first = reinterpret_cast<std::uintptr_t>(region->addr);
  if (entries->addr < first || entries->addr + entries->length > first + region->length) {
    return Say("is given memory outside of its region"), false;
  }
  work.address = reinterpret_cast<std::byte*>(entries->addr);
  work.bytes = entries->length;
  work.region = region;
  return true;
}

int FakePair::Post(const ibv_send_wr& request) {
  const std::lock_guard lock(mutex_);
  Work work;
  work.id = request.wr_id;
  if (state != IBV_QPS_RTS && state != IBV_QPS_ERR) {
    return Say("is to send before it is ready to"), EINVAL;
  }
  if (request.opcode != IBV_WR_SEND) return Say("is to do what is no SEND"), EINVAL;
  if ((request.send_flags & IBV_SEND_SIGNALED) == 0) {
    return Say("is to send without a completion"), EINVAL;
  }
  if (!FindMemory(request.sg_list, request.num_sge, work)) return EINVAL;
  if (work.bytes > kFrameBytes * kFramesMax) return Say("is to send too large a message"), EINVAL;
  if (send_frames_ + CostOf(work) > granted_.max_send_wr) {
    return Say("has more to send than it is deep"), ENOMEM;
  }
  send_frames_ += CostOf(work);
  work.region->posted += 1;
  sends_.push_back(work);
  changed_.notify_all();
  return 0;
}

int FakePair::Post(const ibv_recv_wr& request) {
  const std::lock_guard lock(mutex_);
  const bool apple = IsApples();
  Work work;
  work.id = request.wr_id;
  if (state == IBV_QPS_RESET || (apple && state != IBV_QPS_RTS && state != IBV_QPS_ERR)) {
    return Say("is to receive before it is ready to send"), EINVAL;
  }
  if (!FindMemory(request.sg_list, request.num_sge, work)) return EINVAL;
  if (receive_frames_ + CostOf(work) > granted_.max_recv_wr) {
    return Say("has more to receive than it is deep"), ENOMEM;
  }
  receive_frames_ += CostOf(work);
  work.region->posted += 1;
  receives_.push_back(work);
  return 0;
}

void FakePair::Complete(FakeQueue& queue, const Work& work, ibv_wc_status status,
                        ibv_wc_opcode opcode, std::uint32_t bytes) {
  ibv_wc completion{};
  completion.wr_id = work.id;
  completion.status = status;
  completion.opcode = opcode;
  completion.byte_len = bytes;
  completion.qp_num = qp_num;
  work.region->posted -= 1;
  queue.Add(completion);
}

void FakePair::FailAll(ibv_wc_status status) {
  state = IBV_QPS_ERR;
  for (const Work& work : receives_) {
    Complete(receives_to(), work, status, IBV_WC_RECV, 0);
    status = IBV_WC_WR_FLUSH_ERR;
  }
  for (const Work& work : sends_) Complete(sends_to(), work, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND, 0);
  receives_.clear();
  sends_.clear();
  send_frames_ = 0;
  receive_frames_ = 0;
}

bool FakePair::WriteAll(int socket, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    pollfd waited{socket, POLLOUT, 0};
    const int ready = ::poll(&waited, 1, kLookMs);
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return false;
    }
    if (ready <= 0) continue;
    const ssize_t sent = ::send(socket, at, bytes, kNoSignal | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent <= 0) continue;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool FakePair::ReadAll(int socket, void* to, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    pollfd waited{socket, POLLIN, 0};
    const int ready = ::poll(&waited, 1, kLookMs);
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return false;
      if (state != IBV_QPS_ERR && IsBroken()) FailAll(IBV_WC_LOC_LEN_ERR);
    }
    if (ready <= 0) continue;
    const ssize_t got = ::recv(socket, at, bytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got <= 0) continue;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

// A message that is lost, or has no receiver, is completed anyway.
void FakePair::Send() {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = AddressOf(PathOf(peer_));
  bool reached =
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const std::uint32_t hello[2] = {qp_num, own_first_packet_};
  reached = reached && WriteAll(socket, hello, sizeof hello);
  std::vector<std::byte> message;
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (sends_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Work work = sends_.front();
    const Settings settings = Control::Get().Now();
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    const bool lost = static_cast<double>(random_ % 1'000'000) < settings.Number("loss", 0) * 1e6;
    const bool flips =
        static_cast<double>(random_ / 1'000'000 % 1'000'000) < settings.Number("flips", 0) * 1e6;
    const bool goes = reached && !lost && state == IBV_QPS_RTS &&
                      !settings.Has("mute", device().name) && !settings.Has("down", device().name);
    message.resize(work.bytes);
    ReadAsHardware(work.address, message.data(), work.bytes);
    if (flips && !message.empty()) {
      const std::size_t bit = random_ % (8 * message.size());
      message[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
    const double delay_us = settings.Number("delay_us", 0);
    lock.unlock();
    if (delay_us > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(static_cast<long>(delay_us)));
    }
    const auto bytes = static_cast<std::uint32_t>(message.size());
    reached = reached && (!goes || (WriteAll(socket, &bytes, sizeof bytes) &&
                                    WriteAll(socket, message.data(), bytes)));
    lock.lock();
    if (sends_.empty()) continue;  // All have failed in the meantime.
    sends_.pop_front();
    send_frames_ -= CostOf(work);
    Complete(sends_to(), work, IBV_WC_SUCCESS, IBV_WC_SEND, work.bytes);
  }
  lock.unlock();
  ::close(socket);
}

// Only from the queue pair to which it was connected, and only from this life of it.
void FakePair::Receive() {
  int socket = -1;
  while (socket < 0) {
    pollfd waited{listener_, POLLIN, 0};
    const int ready = ::poll(&waited, 1, kLookMs);
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return;
    }
    if (ready <= 0) continue;
    socket = ::accept(listener_, nullptr, nullptr);
    std::uint32_t hello[2] = {};
    if (socket >= 0 && ReadAll(socket, hello, sizeof hello) && hello[0] == peer_ &&
        hello[1] == first_packet_) {
      break;
    }
    ::close(socket);
    socket = -1;
  }
  std::vector<std::byte> message;
  std::uint32_t bytes = 0;
  while (ReadAll(socket, &bytes, sizeof bytes)) {
    message.resize(bytes);
    if (!ReadAll(socket, message.data(), bytes)) break;
    Deliver(message);
  }
  ::close(socket);
}

void FakePair::Deliver(std::vector<std::byte>& message) {
  const std::lock_guard lock(mutex_);
  const Settings settings = Control::Get().Now();
  if (state != IBV_QPS_RTS || settings.Has("down", device().name)) return;
  if (receives_.empty()) {
    Say("got a message and had no receive posted");
    return;
  }
  const Work work = receives_.front();
  receives_.pop_front();
  const bool apple = IsApples();
  receive_frames_ -= CostOf(work);
  Work sent;
  sent.bytes = static_cast<std::uint32_t>(message.size());
  if ((apple && sent.frames() != work.frames()) || sent.bytes > work.bytes) {
    Say("got a message of " + std::to_string(sent.frames()) + " frames in a receive of " +
        std::to_string(work.frames()));
    Complete(receives_to(), work, IBV_WC_LOC_LEN_ERR, IBV_WC_RECV, 0);
    return;
  }
  const bool one_frame_only = settings.Number("one_frame_only", 0) != 0;
  for (std::size_t at = kFrameBytes; one_frame_only && at < message.size(); ++at) {
    message[at] = std::byte{0x5a};
  }
  if (!message.empty()) std::memcpy(work.address, message.data(), message.size());
  Complete(receives_to(), work, IBV_WC_SUCCESS, IBV_WC_RECV, sent.bytes);
}

}  // namespace fake_verbs
