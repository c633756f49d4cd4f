#include "daemon/rdma/driver_process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/platform/shared_memory.h"
#include "daemon/rail/text_field.h"
#include "daemon/rdma/shared_queue.h"
#include "proto/queue/doorbell.h"
#include "proto/queue/ring.h"
#include "proto/types/plain_text.h"
#include "proto/types/version.h"

namespace mlxcomm::rdma {
namespace {

class ProcessDevice final : public Device, public std::enable_shared_from_this<ProcessDevice> {
 public:
  ProcessDevice(std::shared_ptr<DriverProcess> process, std::string name, const Limits& limits)
      : process_(std::move(process)), name_(std::move(name)), limits_(limits) {}

  const std::string& name() const { return name_; }
  const Limits& limits() const override { return limits_; }
  DeviceUse use() const override {
    const std::lock_guard lock(mutex_);
    const auto regions = std::ranges::count(regions_, true);
    return {queue_pairs_, queue_pairs_ + static_cast<std::uint32_t>(regions)};
  }
  // Asks the other process, which detects one that hangs even if nothing is sent.
  bool IsThere() override {
    const absl::StatusOr<DriverAnswer> answer =
        process_->Call({.kind = DriverRequest::Kind::kCheck});
    return answer.ok();
  }
  absl::Status DriverEnded() override { return process_->Ended(); }
  int driver_pid() const override { return process_->pid(); }
  absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePairIn(std::span<std::byte> memory,
                                                             const QueuePairShape& shape,
                                                             const Gid& gid) override;
  absl::StatusOr<std::shared_ptr<const Region>> Register(const rail::ClientMemory& arena,
                                                         std::byte* data,
                                                         std::uint64_t bytes) override;

  DriverProcess& process() { return *process_; }
  bool Owns(const Region& region) const;
  void OnQueuePairGone() {
    const std::lock_guard lock(mutex_);
    --queue_pairs_;
  }
  void OnRegionGone(std::uint32_t id) {
    const std::lock_guard lock(mutex_);
    regions_[id] = false;
  }

 private:
  const std::shared_ptr<DriverProcess> process_;
  const std::string name_;
  const Limits limits_;
  mutable std::mutex mutex_;
  std::uint32_t last_pair_ = 0;
  std::uint32_t queue_pairs_ = 0;
  std::vector<bool> regions_;  // The ids in use.
};

class ProcessRegion final : public Region {
 public:
  ProcessRegion(std::shared_ptr<ProcessDevice> device, std::shared_ptr<const void> owner,
                std::byte* data, std::uint64_t bytes, std::uint32_t id)
      : Region(data, bytes, id), device_(std::move(device)), owner_(std::move(owner)) {}
  ~ProcessRegion() override {
    // Fails if the process has ended; then nothing is registered any more.
    static_cast<void>(
        device_->process().Call({.kind = DriverRequest::Kind::kDeregister, .id = key()}));
    device_->OnRegionGone(key());
  }
  const ProcessDevice* device() const { return device_.get(); }

 private:
  const std::shared_ptr<ProcessDevice> device_;
  const std::shared_ptr<const void> owner_;
};

bool ProcessDevice::Owns(const Region& region) const {
  const auto* const its = dynamic_cast<const ProcessRegion*>(&region);
  return its != nullptr && its->device() == this;
}

class ProcessQueuePair final : public QueuePair {
 public:
  ProcessQueuePair(std::shared_ptr<ProcessDevice> device, std::uint32_t id,
                   const QueuePairShape& shape, const QueueLayout& layout,
                   platform::SharedSegment segment, FileDescriptor doorbell)
      : device_(std::move(device)),
        id_(id),
        slot_bytes_(shape.message_bytes),
        layout_(layout),
        segment_(std::move(segment)),
        doorbell_(std::move(doorbell)),
        header_(reinterpret_cast<QueueHeader*>(segment_.data())),
        requests_(&header_->requests,
                  reinterpret_cast<PostRequest*>(segment_.data() + layout.requests),
                  layout.entries),
        completions_(&header_->completions,
                     reinterpret_cast<PostCompletion*>(segment_.data() + layout.completions),
                     layout.entries) {
    // The consumer counts as asleep until the first Poll.
    header_->completions.consumer_sleeps.store(1, std::memory_order_relaxed);
  }
  ~ProcessQueuePair() override {
    const absl::StatusOr<DriverAnswer> answer =
        device_->process().Call({.kind = DriverRequest::Kind::kDestroy, .id = id_});
    // A queue pair that the driver keeps counts until its process ends.
    const bool is_kept = !answer.ok() && device_->DriverEnded().ok();
    if (!is_kept) device_->OnQueuePairGone();
  }
  void OnMade(const QueuePairAddress& address) {
    address_ = address;
    posted_.assign(std::size_t{2} * messages(), false);
  }

  const QueuePairAddress& address() const override { return address_; }
  std::span<std::byte> Slot(std::uint32_t slot) override {
    return {segment_.data() + layout_.slots + std::size_t{slot} * slot_bytes_, slot_bytes_};
  }
  absl::Status Connect(const QueuePairAddress& peer) override {
    const absl::StatusOr<DriverAnswer> answer =
        device_->process().Call({.kind = DriverRequest::Kind::kConnect, .id = id_, .peer = peer});
    if (!answer.ok()) return answer.status();
    std::fill_n(posted_.begin(), messages(), true);
    return absl::OkStatus();
  }
  absl::Status PostReceive(std::uint32_t slot) override {
    return Post({PostRequest::Kind::kReceive, slot, 0, 0, 0, 0});
  }
  absl::Status PostSend(std::uint32_t slot, std::uint32_t bytes) override {
    return Post({PostRequest::Kind::kSend, slot, bytes, 0, 0, 0});
  }
  absl::Status PostSendFrom(std::uint32_t slot, const Region& region, const std::byte* from,
                            std::uint32_t bytes) override {
    if (!device_->Owns(region)) return ProcessError("does not have this region");
    return Post({PostRequest::Kind::kSendFrom, slot, bytes, region.key(),
                 static_cast<std::uint64_t>(from - region.data()), 0});
  }
  absl::StatusOr<std::size_t> Poll(std::span<Completion> completions) override {
    const bool is_awake = std::exchange(waiting_, Waiting::kPolledOnce) != Waiting::kArmed;
    if (is_awake) BeAwake();
    if (std::exchange(rang_, false)) {
      Ring();  // It may have gone back to sleep.
      rang_ = false;
    }
    std::size_t count = 0;
    PostCompletion from;
    while (count < completions.size()) {
      const queue::RingResult result = completions_.Pop(from);
      if (result == queue::RingResult::kCorrupt) return ProcessError("corrupted its ring");
      if (result == queue::RingResult::kNothing) break;
      if (!TakeCompletion(from, completions[count])) {
        return ProcessError("completed what was not posted");
      }
      ++count;
    }
    if (count > 0) BeAwake();
    const bool has_failed = header_->has_failed.load(std::memory_order_acquire) != 0;
    if (count == 0 && has_failed) return absl::UnavailableError(Why());
    return count;
  }
  int descriptor() const override { return doorbell_.get(); }
  absl::Status Arm() override {
    if (queue::DrainDoorbell(doorbell_.get()) == queue::DoorbellState::kOtherSideGone) {
      const absl::Status ended = device_->process().Ended(DriverProcess::kClosedNs);
      return ended.ok() ? ProcessError("has given up a queue pair") : ended;
    }
    // If this fails, something has completed, and Poll finds it.
    if (completions_.PrepareToSleep()) waiting_ = Waiting::kArmed;
    return absl::OkStatus();
  }

 private:
  absl::Status Post(const PostRequest& request) {
    const queue::RingResult pushed = requests_.Push(request);
    if (pushed != queue::RingResult::kDone) return ProcessError("accepts no requests");
    posted_[request.slot] = true;
    if (!rang_) Ring();
    return absl::OkStatus();
  }
  void Ring() {
    if (!requests_.ConsumerSleeps()) return;
    queue::RingDoorbell(doorbell_.get());
    rang_ = true;
  }
  void BeAwake() {
    completions_.WakeUp();
    waiting_ = Waiting::kAwake;
  }
  bool TakeCompletion(const PostCompletion& from, Completion& completion) {
    const bool receive = from.receive != 0;
    const bool is_posted = HasSlot(from.slot, receive) && posted_[from.slot];
    if (!is_posted || from.bytes > slot_bytes_) return false;
    posted_[from.slot] = false;
    completion = {from.slot, receive, receive ? from.bytes : 0};
    return true;
  }
  // Written by another process: it may lack a terminator and contain any characters.
  std::string Why() const {
    const auto text = header_->why;
    return MakePrintable(rail::TextOf(text));
  }
  absl::Status ProcessError(const char* what) const {
    return absl::UnavailableError(
        absl::StrCat("the process that drives RDMA device ", device_->name(), " ", what));
  }

  const std::shared_ptr<ProcessDevice> device_;
  const std::uint32_t id_;
  const std::uint32_t slot_bytes_;
  const QueueLayout layout_;
  const platform::SharedSegment segment_;
  const FileDescriptor doorbell_;
  QueueHeader* const header_;
  queue::RingProducer<PostRequest> requests_;
  queue::RingConsumer<PostCompletion> completions_;
  QueuePairAddress address_;
  std::vector<bool> posted_;  // Keyed by slot: what the other process may complete.
  bool rang_ = false;         // Posted since the last Poll: one ring covers all of it.
  // kArmed: one Poll follows, and perhaps sleep; a caller that polls again is awake.
  enum class Waiting : std::uint8_t { kAwake, kArmed, kPolledOnce } waiting_ = Waiting::kAwake;
};

absl::StatusOr<std::unique_ptr<QueuePair>> ProcessDevice::MakeQueuePairIn(
    std::span<std::byte>, const QueuePairShape& shape, const Gid& gid) {
  const QueueLayout layout(shape);
  auto segment = platform::SharedSegment::Create("mlxcomm-rdma", layout.bytes);
  if (!segment.ok()) return segment.status();
  int ends[2];
  if (!queue::MakeDoorbellPair(ends)) {
    return absl::ResourceExhaustedError(absl::StrCat("no socket for a queue pair of RDMA device ",
                                                     name_, ": ", std::strerror(errno)));
  }
  FileDescriptor doorbell(ends[0]);
  const FileDescriptor theirs(ends[1]);
  DriverRequest request{.kind = DriverRequest::Kind::kMake, .shape = shape, .gid = gid};
  {
    const std::lock_guard lock(mutex_);
    request.id = ++last_pair_;
    ++queue_pairs_;
  }
  const int descriptors[] = {segment->descriptor(), theirs.get()};
  // From here on, the destructor also destroys it in the other process.
  auto pair = std::make_unique<ProcessQueuePair>(shared_from_this(), request.id, shape, layout,
                                                 *std::move(segment), std::move(doorbell));
  const absl::StatusOr<DriverAnswer> answer = process_->Call(request, descriptors);
  if (!answer.ok()) return answer.status();
  // The GID may differ from the requested one (choose_gid.h).
  const QueuePairAddress& address = answer->address;
  const bool is_sound = address.receives >= kMessagesMin && address.receives <= shape.messages &&
                        address.gid != Gid{} && address.mtu_bytes >= 256 &&
                        address.mtu_bytes <= 4096;
  if (!is_sound) {
    return absl::UnavailableError(
        absl::StrCat("the process that drives RDMA device ", name_, " made an invalid queue pair"));
  }
  pair->OnMade(address);
  return pair;
}

absl::StatusOr<std::shared_ptr<const Region>> ProcessDevice::Register(
    const rail::ClientMemory& arena, std::byte* data, std::uint64_t bytes) {
  if (arena.descriptor < 0) {
    return absl::UnavailableError("this memory cannot be shared with the driver's process");
  }
  DriverRequest request{.kind = DriverRequest::Kind::kRegister,
                        .offset = static_cast<std::uint64_t>(data - arena.data),
                        .bytes = bytes};
  {
    const std::lock_guard lock(mutex_);
    // Queue pairs need regions as well.
    const std::uint32_t most = std::min(limits_.arena_regions_max, limits_.regions_max / 2);
    const auto free = std::ranges::find(regions_, false);
    request.id = static_cast<std::uint32_t>(free - regions_.begin());
    if (request.id >= most) {
      return absl::ResourceExhaustedError(
          absl::StrCat("RDMA device ", name_, " has ", most, " arena regions, which is the limit"));
    }
    if (free == regions_.end()) regions_.push_back(false);
    regions_[request.id] = true;
  }
  const int descriptors[] = {arena.descriptor};
  const absl::StatusOr<DriverAnswer> answer = process_->Call(request, descriptors);
  if (!answer.ok()) {
    OnRegionGone(request.id);
    return answer.status();
  }
  return std::make_shared<const ProcessRegion>(shared_from_this(), arena.owner, data, bytes,
                                               request.id);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> OpenInProcess(const std::string& program,
                                                      const std::string& library,
                                                      const std::string& name, const Limits& limits,
                                                      const queue::SchedulingPolicy& scheduling,
                                                      std::uint64_t call_ns) {
  DriverRequest request{.kind = DriverRequest::Kind::kOpen};
  if (library.size() >= request.library.size() || name.size() >= request.device.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the name of RDMA device ", name, " or of its library ", library, " is too long: at most ",
        request.device.size() - 1, " and ", request.library.size() - 1, " bytes"));
  }
  absl::StatusOr<std::shared_ptr<DriverProcess>> process =
      DriverProcess::Start(program, name, call_ns);
  if (!process.ok()) return process.status();
  rail::PutText(kSoftwareVersion, request.version);
  rail::PutText(library, request.library);
  rail::PutText(name, request.device);
  request.limits = limits;
  request.scheduling = scheduling;
  const absl::StatusOr<DriverAnswer> answer = (*process)->Call(request);
  if (!answer.ok()) return answer.status();
  Limits granted = limits;
  granted.queue_pairs_max = std::min(limits.queue_pairs_max, answer->limits.queue_pairs_max);
  granted.regions_max = std::min(limits.regions_max, answer->limits.regions_max);
  granted.frames_max = std::min(limits.frames_max, answer->limits.frames_max);
  return std::shared_ptr<Device>(
      std::make_shared<ProcessDevice>(*std::move(process), name, granted));
}

}  // namespace mlxcomm::rdma
