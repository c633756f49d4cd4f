#include "daemon/rdma/trials.h"

#include <poll.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/shared_memory.h"
#include "daemon/rdma/message_memory.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::rdma {
namespace {

using Reported = absl::StatusOr<std::string>;

constexpr std::size_t kLargeBytes = std::size_t{256} << 20;
constexpr std::size_t kSmallBytes = 64 * 1024;
constexpr std::uint32_t kRegionsTried = 256;

struct Made {
  std::shared_ptr<Device> device;
  Gid gid{};
};

absl::StatusOr<Made> Open(const TrialSubject& subject) {
  Made made;
  const auto devices = ListDevices(subject.library);
  if (!devices.ok()) return devices.status();
  for (const DeviceFacts& facts : *devices) {
    if (facts.name != subject.device) continue;
    if (facts.gids.empty()) return absl::UnavailableError("its port has no GID");
    made.gid = facts.gids.front();
  }
  auto device = OpenDevice(subject.library, subject.device, subject.limits);
  if (!device.ok()) return device.status();
  made.device = *std::move(device);
  return made;
}

QueuePairShape ShapeOf(const Limits& limits) {
  return {limits.service, limits.message_bytes, limits.messages_max};
}

absl::StatusOr<std::unique_ptr<QueuePair>> MakePair(const TrialSubject& subject) {
  const absl::StatusOr<Made> made = Open(subject);
  if (!made.ok()) return made.status();
  return made->device->MakeQueuePair(ShapeOf(subject.limits), made->gid);
}

Reported TryPair(const TrialSubject& subject) {
  const auto pair = MakePair(subject);
  if (!pair.ok()) return pair.status();
  return absl::StrCat("queue pair ", (*pair)->address().number, ", ", (*pair)->messages(), " of ",
                      subject.limits.messages_max, " messages of ", subject.limits.message_bytes,
                      " bytes each way, path MTU ", (*pair)->address().mtu_bytes, ", GID ",
                      GidText((*pair)->address().gid),
                      (*pair)->descriptor() < 0 ? ", no completion events" : "");
}

// Runs a trial with one limit changed.
template <Reported (*kTry)(const TrialSubject&), auto kLimit, auto kValue>
Reported With(const TrialSubject& given) {
  TrialSubject subject = given;
  subject.limits.*kLimit = kValue;
  return kTry(subject);
}

Reported TryChannel(const TrialSubject& subject) {
  const auto pair = MakePair(subject);
  if (!pair.ok()) return pair.status();
  if ((*pair)->descriptor() < 0) return absl::UnavailableError("no completion channel");
  const absl::Status armed = (*pair)->Arm();
  if (!armed.ok()) return armed;
  return std::string("a completion channel, and it can be armed");
}

Reported CountPairs(const TrialSubject& subject) {
  const absl::StatusOr<Made> made = Open(subject);
  if (!made.ok()) return made.status();
  std::vector<std::unique_ptr<QueuePair>> pairs;
  const QueuePairShape small{subject.limits.service, subject.limits.message_bytes, kMessagesMin};
  for (;;) {
    auto pair = made->device->MakeQueuePair(small, made->gid);
    if (!pair.ok()) {
      return absl::StrCat(pairs.size(),
                          " queue pairs at once; then: ", std::string(pair.status().message()));
    }
    pairs.push_back(*std::move(pair));
  }
}

struct Joined {
  Made made;
  std::unique_ptr<QueuePair> sender;
  std::unique_ptr<QueuePair> receiver;
};

// The sender's messages may be smaller than the receiver's, in both directions.
absl::StatusOr<Joined> Join(const TrialSubject& subject, std::uint32_t sender_bytes) {
  absl::StatusOr<Made> made = Open(subject);
  if (!made.ok()) return made.status();
  Joined joined;
  joined.made = *std::move(made);
  QueuePairShape shape = ShapeOf(subject.limits);
  auto receiver = joined.made.device->MakeQueuePair(shape, joined.made.gid);
  if (!receiver.ok()) return receiver.status();
  shape.message_bytes = sender_bytes;
  auto sender = joined.made.device->MakeQueuePair(shape, joined.made.gid);
  if (!sender.ok()) return sender.status();
  joined.receiver = *std::move(receiver);
  joined.sender = *std::move(sender);
  absl::Status status = joined.receiver->Connect(joined.sender->address());
  if (status.ok()) status = joined.sender->Connect(joined.receiver->address());
  if (!status.ok()) return status;
  return joined;
}

Reported TryConnect(const TrialSubject& subject) {
  const absl::StatusOr<Joined> joined = Join(subject, subject.limits.message_bytes);
  if (!joined.ok()) return joined.status();
  return absl::StrCat("connected; ", joined->receiver->messages(), " receives were accepted");
}

// Waits up to a second for a completion of this kind.
absl::Status Await(QueuePair& pair, bool receive, Completion& found) {
  const std::uint64_t end = platform::MonotonicNow() + 1'000'000'000;
  std::array<Completion, 8> completions;
  while (platform::MonotonicNow() < end) {
    const absl::StatusOr<std::size_t> count = pair.Poll(completions);
    if (!count.ok()) return count.status();
    for (std::size_t i = 0; i < *count; ++i) {
      if (completions[i].receive != receive) continue;
      found = completions[i];
      return absl::OkStatus();
    }
    ::poll(nullptr, 0, 1);
  }
  return absl::UnavailableError(receive ? "nothing was received within a second"
                                        : "the send has not completed within a second");
}

// Sends `bytes` into a receive of full size.
Reported TryMessage(const TrialSubject& subject, std::uint32_t bytes) {
  const absl::StatusOr<Joined> joined = Join(subject, bytes);
  if (!joined.ok()) return joined.status();
  QueuePair& from = *joined->sender;
  QueuePair& to = *joined->receiver;
  const std::uint32_t slot = from.messages();  // The first send.
  const std::span<std::byte> message = from.Slot(slot);
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(i * 7 + 1);
  const absl::Status posted = from.PostSend(slot, bytes);
  if (!posted.ok()) return posted;
  Completion sent;
  Completion received;
  const absl::Status is_sent = Await(from, false, sent);
  const absl::Status is_received = Await(to, true, received);
  std::string text(is_sent.ok() ? "the send has completed" : is_sent.message());
  if (!is_received.ok()) {
    return absl::UnavailableError(absl::StrCat(text, "; ", is_received.message()));
  }
  const bool same = received.bytes <= message.size() &&
                    std::memcmp(to.Slot(received.slot).data(), message.data(), received.bytes) == 0;
  absl::StrAppend(&text, "; ", received.bytes, " bytes were received, ",
                  same ? "unchanged" : "and some are WRONG");
  return same && is_sent.ok() ? Reported(text) : Reported(absl::DataLossError(text));
}

Reported TryWholeMessage(const TrialSubject& subject) {
  return TryMessage(subject, subject.limits.message_bytes);
}

Reported TryShortMessage(const TrialSubject& subject) {
  return TryMessage(subject, apple::kFrameBytes);
}

// Destroys with receives posted and none arrived. The trial is whether the call returns.
Reported TryDestroy(const TrialSubject& subject) {
  {
    const absl::StatusOr<Joined> joined = Join(subject, subject.limits.message_bytes);
    if (!joined.ok()) return joined.status();
  }
  const Reported again = TryPair(subject);
  if (!again.ok()) {
    return absl::UnavailableError(absl::StrCat("destroyed; the next: ", again.status().message()));
  }
  return std::string("destroyed, and another can be made");
}

Reported TryRegister(const TrialSubject& subject, std::byte* data, std::size_t bytes) {
  const auto device = OpenDevice(subject.library, subject.device, subject.limits);
  if (!device.ok()) return device.status();
  auto region = (*device)->Register({}, data, bytes);
  if (!region.ok()) return region.status();
  region->reset();
  if ((*device)->use().regions > 0) {
    return absl::UnavailableError("registered; deregistering failed");
  }
  return std::string("registered and deregistered");
}

Reported TryLargeRegion(const TrialSubject& subject) {
  const auto memory = MapMessages(kLargeBytes, subject.limits.region_boundary);
  if (!memory.ok()) return memory.status();
  return TryRegister(subject, memory->data(), kLargeBytes);
}

// Like a client's arena, whose descriptor the driver's process receives.
Reported TrySharedRegion(const TrialSubject& subject) {
  const auto segment = platform::SharedSegment::Create("mlxcomm-trial", kLargeBytes);
  if (!segment.ok()) return segment.status();
  const auto memory =
      MapSharedMessages(segment->descriptor(), 0, kLargeBytes, subject.limits.region_boundary);
  if (!memory.ok()) return memory.status();
  return TryRegister(subject, memory->data(), kLargeBytes);
}

// Whether its data arrives intact is not tested.
Reported TryRegionOverBoundary(const TrialSubject& subject) {
  // Reserves addresses across a boundary; only the pages around it are used.
  constexpr std::size_t kSpan = apple::kRegionBoundary + 2 * kSmallBytes;
  void* const span =
      ::mmap(nullptr, kSpan, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (span == MAP_FAILED) return absl::ResourceExhaustedError("no addresses for the region");
  const platform::Mapping reserved(span, kSpan);
  const std::uint64_t first = reinterpret_cast<std::uintptr_t>(span) + kSmallBytes;
  const std::uint64_t boundary =
      (first + apple::kRegionBoundary - 1) / apple::kRegionBoundary * apple::kRegionBoundary;
  std::byte* const memory = reserved.data() + (boundary - first);
  if (::mprotect(memory, 2 * kSmallBytes, PROT_READ | PROT_WRITE) != 0) {
    return absl::ResourceExhaustedError("no memory for the region");
  }
  return TryRegister(subject, memory, 2 * kSmallBytes);
}

Reported CountRegions(const TrialSubject& subject) {
  const auto device = OpenDevice(subject.library, subject.device, subject.limits);
  if (!device.ok()) return device.status();
  const auto memory = MapMessages(kRegionsTried * kSmallBytes, subject.limits.region_boundary);
  if (!memory.ok()) return memory.status();
  std::vector<std::shared_ptr<const Region>> regions;
  while (regions.size() < kRegionsTried) {
    std::byte* const part = memory->data() + regions.size() * kSmallBytes;
    auto region = (*device)->Register({}, part, kSmallBytes);
    if (!region.ok()) {
      return absl::StrCat(regions.size(), " at once; then: ", region.status().message());
    }
    regions.push_back(*std::move(region));
  }
  return absl::StrCat("at least ", regions.size());
}

constexpr Trial kTrials[] = {
    {"describe", "the device's description of itself, its ports and GIDs", false, DescribeDevice},
    {"pair-uc", "an unreliable queue pair with its region", true,
     With<TryPair, &Limits::service, Service::kUnreliable>},
    {"pair-rc", "a reliable queue pair; Apple's have none", true,
     With<TryPair, &Limits::service, Service::kReliable>},
    {"region-local", "a region with local write only", true,
     With<TryPair, &Limits::remote_access, false>},
    {"region-remote", "a region with remote read and write as well", true,
     With<TryPair, &Limits::remote_access, true>},
    {"channel", "events on completion", true, With<TryChannel, &Limits::completion_events, true>},
    {"depth", "the queue depth that is granted", true, TryDepth},
    {"receives-after", "receives posted when the queue pair is ready to send", true,
     With<TryConnect, &Limits::receives_after_ready, true>},
    {"receives-before", "receives posted before it is ready to receive", true,
     With<TryConnect, &Limits::receives_after_ready, false>},
    {"message", "a message between two queue pairs of this device", true, TryWholeMessage},
    // Runs if longer messages fail.
    {"message-frame", "a message of a single frame, in a receive of one", true,
     With<TryWholeMessage, &Limits::message_bytes, apple::kFrameBytes>},
    {"message-short", "a message with fewer frames than its receive; Apple requires equal numbers",
     true, TryShortMessage},
    {"destroy", "a queue pair is destroyed with receives posted", true, TryDestroy},
    {"region-large", "a region of 256 MiB", true, TryLargeRegion},
    {"region-shared", "a region of memory shared with another process, like clients' memory", true,
     TrySharedRegion},
    {"region-boundary", "a region that crosses a 4 GiB boundary", true, TryRegionOverBoundary},
    {"pairs", "how many more queue pairs can be made", true,
     With<CountPairs, &Limits::queue_pairs_max, 64>},
    {"regions", "how many more regions can be registered", true,
     With<CountRegions, &Limits::regions_max, kRegionsTried>},
};

Reported ListTrials(const std::string& library) {
  const auto devices = ListDevices(library);
  if (!devices.ok()) return devices.status();
  v1::RdmaTrials all;
  for (const DeviceFacts& facts : *devices) {
    v1::RdmaTrialDevice& device = *all.add_devices();
    device.set_name(MakePrintable(facts.name));
    device.set_active(facts.active);
    device.set_state(MakePrintable(facts.state));
    for (const Gid& gid : facts.gids) device.add_gids(GidText(gid));
    for (const Trial& trial : kTrials) {
      if (trial.needs_port && !facts.active) continue;
      v1::RdmaTrial& its = *device.add_trials();
      its.set_name(trial.name);
      its.set_tries(trial.tries);
    }
  }
  return TextOf(all);
}

}  // namespace

std::string TextOf(const v1::RdmaTrials& listed) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(listed, &text);
  return text;
}

std::span<const Trial> Trials() { return kTrials; }

absl::StatusOr<std::string> RunTrial(const std::string& name, const TrialSubject& subject) {
  if (name == "devices") return ListTrials(subject.library);
  for (const Trial& trial : kTrials) {
    if (name == trial.name) return trial.run(subject);
  }
  return absl::InvalidArgumentError(absl::StrCat("no such trial: ", name));
}

}  // namespace mlxcomm::rdma
