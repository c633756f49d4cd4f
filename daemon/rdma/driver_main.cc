#include "daemon/rdma/driver_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/power.h"
#include "daemon/rail/status_reason.h"
#include "daemon/rail/text_field.h"
#include "daemon/rdma/driver_messages.h"
#include "daemon/rdma/message_memory.h"
#include "daemon/rdma/shared_queue.h"
#include "proto/queue/descriptor_passing.h"
#include "proto/queue/doorbell.h"
#include "proto/queue/ring.h"
#include "proto/system/file_descriptor.h"
#include "proto/types/version.h"

namespace mlxcomm::rdma {
namespace {

constexpr std::size_t kCompletionsAtOnce = 32;
constexpr int kSleepMs = 1000;
// Timeout for the rest of a request that has begun, and for an answer.
constexpr std::uint64_t kRequestNs = 10'000'000'000;
// ProcessDevice numbers regions from the lowest free number.
constexpr std::size_t kRegionsMax = 256;

struct MappedRegion {
  std::shared_ptr<const void> mapping;
  std::shared_ptr<const Region> region;
};

// Regions by number. Queue pairs' threads read it, the answering thread writes it.
using Regions = std::array<std::atomic<const Region*>, kRegionsMax>;

class Pump {
 public:
  Pump(std::unique_ptr<QueuePair> pair, std::shared_ptr<const platform::Mapping> segment,
       const QueueLayout& layout, FileDescriptor doorbell, std::uint32_t slot_bytes,
       const Regions& regions, const queue::SchedulingPolicy& scheduling)
      : scheduling_(scheduling),
        segment_(std::move(segment)),
        pair_(std::move(pair)),
        doorbell_(std::move(doorbell)),
        slot_bytes_(slot_bytes),
        regions_(regions),
        header_(reinterpret_cast<QueueHeader*>(segment_->data())),
        requests_(&header_->requests,
                  reinterpret_cast<PostRequest*>(segment_->data() + layout.requests),
                  layout.entries),
        completions_(&header_->completions,
                     reinterpret_cast<PostCompletion*>(segment_->data() + layout.completions),
                     layout.entries) {}
  ~Pump() {
    stop_.store(true);
    // Wakes the thread if it sleeps.
    ::shutdown(doorbell_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }

  const std::shared_ptr<const platform::Mapping>& segment() const { return segment_; }
  absl::Status Start(const QueuePairAddress& peer) {
    if (thread_.joinable()) return absl::FailedPreconditionError("it is already connected");
    if (absl::Status status = pair_->Connect(peer); !status.ok()) return status;
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(std::string("no thread for a queue pair: ") +
                                          error.what());
    }
    return absl::OkStatus();
  }

 private:
  void Run() {
    platform::RaiseThreadPriority();
    std::uint64_t idle_since = platform::MonotonicNow();
    while (!stop_.load(std::memory_order_relaxed)) {
      bool moved = !has_failed_ && TakeRequests();
      moved = (!has_failed_ && TakeCompletions()) || moved;
      const std::uint64_t now = platform::MonotonicNow();
      if (moved) {
        idle_since = now;
      } else if (now - idle_since >=
                 (IsPolled() ? scheduling_.rail_in_flight_spin_ns : scheduling_.rail_spin_ns)) {
        Sleep();
      }
    }
  }
  bool TakeRequests() {
    bool any = false;
    PostRequest request;
    for (std::uint32_t i = 0; i < kCompletionsAtOnce && !has_failed_; ++i) {
      const queue::RingResult result = requests_.Pop(request);
      if (result == queue::RingResult::kNothing) break;
      any = true;
      const absl::Status status = result == queue::RingResult::kDone
                                      ? Post(request)
                                      : absl::InternalError("the request ring is corrupt");
      if (!status.ok()) Fail(std::string(status.message()));
    }
    return any;
  }
  absl::Status Post(const PostRequest& request) {
    const absl::Status nonsense = absl::InternalError("an invalid request");
    const bool receive = request.kind == PostRequest::Kind::kReceive;
    if (!pair_->HasSlot(request.slot, receive) || request.bytes > slot_bytes_) return nonsense;
    if (receive) return pair_->PostReceive(request.slot);
    if (request.kind == PostRequest::Kind::kSend) {
      return pair_->PostSend(request.slot, request.bytes);
    }
    if (request.kind != PostRequest::Kind::kSendFrom || request.region >= kRegionsMax) {
      return nonsense;
    }
    const Region* const region = regions_[request.region].load(std::memory_order_acquire);
    const bool fits = region != nullptr && request.offset <= region->bytes() &&
                      request.bytes <= region->bytes() - request.offset;
    if (!fits) return nonsense;
    return pair_->PostSendFrom(request.slot, *region, region->data() + request.offset,
                               request.bytes);
  }
  bool TakeCompletions() {
    std::array<Completion, kCompletionsAtOnce> done;
    const absl::StatusOr<std::size_t> count = pair_->Poll(done);
    if (!count.ok()) {
      Fail(std::string(count.status().message()));
      return true;
    }
    for (std::size_t i = 0; i < *count; ++i) {
      const PostCompletion reported{done[i].slot, done[i].receive ? 1u : 0u, done[i].bytes};
      if (completions_.Push(reported) != queue::RingResult::kDone) {
        Fail("the driver completed more than was posted");
        return true;
      }
    }
    if (*count > 0) Wake();
    return *count > 0;
  }
  void Sleep() {
    pollfd waited[2] = {{doorbell_.get(), POLLIN, 0}, {-1, POLLIN, 0}};
    int wait_ms = kSleepMs;
    if (!has_failed_) {
      if (!requests_.PrepareToSleep()) return;
      if (const absl::Status status = pair_->Arm(); !status.ok())
        Fail(std::string(status.message()));
      // Completions from before Arm raise no event.
      if (has_failed_ || TakeCompletions()) return requests_.WakeUp();
      waited[1].fd = pair_->descriptor();
      if (waited[1].fd < 0) wait_ms = kPollMs;
    }
    ::poll(waited, 2, wait_ms);
    requests_.WakeUp();
    if (waited[0].revents == 0) return;
    const bool has_gone =
        queue::DrainDoorbell(doorbell_.get()) == queue::DoorbellState::kOtherSideGone;
    if (has_gone) stop_.store(true);
  }
  // Posts and reports nothing more; the rail must end.
  void Fail(const std::string& why) {
    if (std::exchange(has_failed_, true)) return;
    rail::PutText(why, header_->why);
    header_->has_failed.store(1, std::memory_order_release);
    // The daemon's thread may not have announced its sleep yet; it finds the flag when it wakes.
    queue::RingDoorbell(doorbell_.get());
  }
  void Wake() {
    if (completions_.ConsumerSleeps()) queue::RingDoorbell(doorbell_.get());
  }
  bool IsPolled() const {
    return header_->completions.consumer_sleeps.load(std::memory_order_relaxed) == 0;
  }

  const queue::SchedulingPolicy scheduling_;
  // Before the queue pair, which uses it until it has been destroyed.
  const std::shared_ptr<const platform::Mapping> segment_;
  const std::unique_ptr<QueuePair> pair_;
  const FileDescriptor doorbell_;
  const std::uint32_t slot_bytes_;
  const Regions& regions_;
  QueueHeader* const header_;
  queue::RingConsumer<PostRequest> requests_;
  queue::RingProducer<PostCompletion> completions_;
  std::atomic<bool> stop_{false};
  bool has_failed_ = false;
  std::thread thread_;
};

bool HasBytes(int descriptor, std::uint64_t bytes) {
  struct stat its{};
  return ::fstat(descriptor, &its) == 0 && its.st_size >= 0 &&
         static_cast<std::uint64_t>(its.st_size) >= bytes;
}

class Driver {
 public:
  DriverAnswer Do(const DriverRequest& request, std::vector<FileDescriptor> descriptors) {
    using Kind = DriverRequest::Kind;
    DriverAnswer answer;
    absl::Status status;
    if ((request.kind == Kind::kOpen) != (device_ == nullptr)) {
      status = absl::FailedPreconditionError("the device must be opened first, and only once");
    } else if (request.kind == Kind::kOpen) {
      status = Open(request, answer);
    } else if (request.kind == Kind::kCheck) {
      if (!device_->IsThere()) status = absl::NotFoundError("the device was removed");
    } else if (request.kind == Kind::kMake) {
      status = Make(request, std::move(descriptors), answer);
    } else if (request.kind == Kind::kConnect) {
      const auto found = pumps_.find(request.id);
      status = found == pumps_.end() ? absl::InternalError("no such queue pair")
                                     : found->second->Start(request.peer);
    } else if (request.kind == Kind::kDestroy) {
      status = Destroy(request.id);
    } else if (request.kind == Kind::kRegister) {
      status = Register(request, descriptors);
    } else if (request.kind == Kind::kDeregister && request.id < kRegionsMax) {
      regions_[request.id].store(nullptr, std::memory_order_release);
      mapped_.erase(request.id);
    } else {
      status = absl::UnimplementedError("an unknown request");
    }
    answer.code = static_cast<std::int32_t>(status.code());
    answer.reason = static_cast<std::uint32_t>(rail::ReasonOf(status));
    rail::PutText(std::string(status.message()), answer.message);
    return answer;
  }

 private:
  absl::Status Open(const DriverRequest& request, DriverAnswer& answer) {
    const std::string_view version = rail::TextOf(request.version);
    if (version != kSoftwareVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat("mlxcommd was replaced: version ", std::string(version), " is running, but ",
                       kSoftwareVersion, " is installed. Restart it"));
    }
    absl::StatusOr<std::shared_ptr<Device>> device =
        OpenDevice(std::string(rail::TextOf(request.library)),
                   std::string(rail::TextOf(request.device)), request.limits);
    if (!device.ok()) return device.status();
    device_ = *std::move(device);
    limits_ = request.limits;
    scheduling_ = request.scheduling;
    answer.limits = device_->limits();
    return absl::OkStatus();
  }
  absl::Status Make(const DriverRequest& request, std::vector<FileDescriptor> descriptors,
                    DriverAnswer& answer) {
    const QueuePairShape& shape = request.shape;
    const bool sound = descriptors.size() == 2 && shape.messages >= kMessagesMin &&
                       shape.messages <= limits_.frames_max && shape.message_bytes > 0 &&
                       shape.message_bytes <= limits_.message_bytes_max;
    if (!sound || pumps_.contains(request.id)) return absl::InternalError("an invalid queue pair");
    const QueueLayout layout(shape);
    if (!HasBytes(descriptors[0].get(), layout.bytes))
      return absl::InternalError("the segment is too short");
    absl::StatusOr<platform::Mapping> mapped =
        MapSharedMessages(descriptors[0].get(), 0, layout.bytes, limits_.region_boundary);
    if (!mapped.ok()) return mapped.status();
    const auto segment = std::make_shared<const platform::Mapping>(*std::move(mapped));
    absl::StatusOr<std::unique_ptr<QueuePair>> pair = device_->MakeQueuePairIn(
        {segment->data() + layout.slots, layout.bytes - layout.slots}, shape, request.gid);
    if (!pair.ok()) return pair.status();
    answer.address = (*pair)->address();
    pumps_[request.id] =
        std::make_unique<Pump>(*std::move(pair), segment, layout, std::move(descriptors[1]),
                               shape.message_bytes, regions_, scheduling_);
    return absl::OkStatus();
  }
  // The driver may still write to a queue pair that it does not give back, so its memory stays
  // mapped.
  absl::Status Destroy(std::uint32_t id) {
    const auto found = pumps_.find(id);
    if (found == pumps_.end()) return absl::OkStatus();
    const std::shared_ptr<const platform::Mapping> memory = found->second->segment();
    const std::uint32_t before = device_->use().queue_pairs;
    pumps_.erase(found);
    if (device_->use().queue_pairs < before) return absl::OkStatus();
    left_.push_back(memory);
    return absl::UnavailableError("the driver did not give back a queue pair");
  }
  absl::Status Register(const DriverRequest& request,
                        const std::vector<FileDescriptor>& descriptors) {
    const bool sound = descriptors.size() == 1 && request.id < kRegionsMax &&
                       !mapped_.contains(request.id) && request.bytes > 0 &&
                       request.bytes <= limits_.region_bytes_max &&
                       request.offset <= INT64_MAX - request.bytes &&
                       HasBytes(descriptors[0].get(), request.offset + request.bytes);
    if (!sound) return absl::InternalError("an invalid region");
    absl::StatusOr<platform::Mapping> mapped = MapSharedMessages(
        descriptors[0].get(), request.offset, request.bytes, limits_.region_boundary);
    if (!mapped.ok()) return mapped.status();
    const auto mapping = std::make_shared<const platform::Mapping>(*std::move(mapped));
    auto region = device_->Register({mapping, mapping->data(), request.bytes}, mapping->data(),
                                    request.bytes);
    if (!region.ok()) return region.status();
    regions_[request.id].store(region->get(), std::memory_order_release);
    mapped_[request.id] = {mapping, *std::move(region)};
    return absl::OkStatus();
  }

  std::shared_ptr<Device> device_;
  queue::SchedulingPolicy scheduling_;
  Limits limits_;
  Regions regions_{};
  std::map<std::uint32_t, MappedRegion> mapped_;
  std::map<std::uint32_t, std::unique_ptr<Pump>> pumps_;  // Destroyed first: they use regions.
  std::vector<std::shared_ptr<const platform::Mapping>> left_;
};

// A separate thread, because any other may hang in the driver.
void EndWithTheDaemon() {
  std::thread([] {
    char byte = 0;
    ssize_t got = 1;
    while (got > 0 || (got < 0 && errno == EINTR)) got = ::read(STDIN_FILENO, &byte, 1);
    ::_exit(0);
  }).detach();
}

}  // namespace

int RunDriver(int socket) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_IGN);
  // A core file would contain clients' memory, perhaps all of the machine's.
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  EndWithTheDaemon();
  platform::RaiseThreadPriority();
  // Never destroyed: a thread may never return from the driver.
  auto* const driver = new Driver;
  for (;;) {
    pollfd waited{socket, POLLIN, 0};
    while (::poll(&waited, 1, -1) <= 0) {
    }
    DriverRequest request;
    int numbers[queue::kDescriptorsMax];
    int count = 0;
    if (!queue::ReceiveWithDescriptors(socket, &request, sizeof request, numbers,
                                       queue::kDescriptorsMax, &count, kRequestNs)) {
      ::_exit(0);  // The daemon is gone.
    }
    std::vector<FileDescriptor> descriptors;
    for (int i = 0; i < count; ++i) descriptors.emplace_back(numbers[i]);
    const DriverAnswer answer = driver->Do(request, std::move(descriptors));
    if (!queue::SendWithDescriptors(socket, &answer, sizeof answer, nullptr, 0, kRequestNs)) {
      ::_exit(0);
    }
  }
}

}  // namespace mlxcomm::rdma
