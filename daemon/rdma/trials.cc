#include "daemon/rdma/trials.h"

#include <poll.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::rdma {
namespace {

using Reported = absl::StatusOr<std::string>;

struct Made {
  std::shared_ptr<Device> device;
  Gid gid{};
};

absl::StatusOr<Made> Open(const TrialSubject& subject) {
  Made made;
  const auto library = LoadLibrary(subject.library);
  if (!library.ok()) return library.status();
  const auto devices = (*library)->ListDevices();
  if (!devices.ok()) return devices.status();
  for (const DeviceFacts& facts : *devices) {
    if (facts.name != subject.device) continue;
    if (facts.gids.empty()) return absl::UnavailableError("its port has no GID");
    made.gid = facts.gids.front();
  }
  auto device = (*library)->Open(subject.device, subject.limits);
  if (!device.ok()) return device.status();
  made.device = *std::move(device);
  return made;
}

QueuePairShape ShapeOf(const Limits& limits) {
  return {limits.service, limits.message_bytes, limits.messages_max};
}

Reported TryPair(const TrialSubject& subject) {
  const absl::StatusOr<Made> made = Open(subject);
  if (!made.ok()) return made.status();
  const auto pair = made->device->MakeQueuePair(ShapeOf(subject.limits), made->gid);
  if (!pair.ok()) return pair.status();
  return absl::StrCat("queue pair ", (*pair)->address().number, ", ", (*pair)->receives(), " of ",
                      subject.limits.messages_max, " messages of ", subject.limits.message_bytes,
                      " bytes each way, path MTU ", (*pair)->address().mtu_bytes, ", GID ",
                      GidText(made->gid),
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
  const absl::StatusOr<Made> made = Open(subject);
  if (!made.ok()) return made.status();
  const auto pair = made->device->MakeQueuePair(ShapeOf(subject.limits), made->gid);
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
  return absl::StrCat("connected; ", joined->receiver->receives(), " receives were accepted");
}

// Waits up to a second for a completion of this kind.
bool Await(QueuePair& pair, bool receive, Completion& found) {
  const std::uint64_t end = platform::MonotonicNow() + 1'000'000'000;
  std::array<Completion, 8> completions;
  while (platform::MonotonicNow() < end) {
    const absl::StatusOr<std::size_t> count = pair.Poll(completions);
    if (!count.ok()) return false;
    for (std::size_t i = 0; i < *count; ++i) {
      if (completions[i].receive != receive) continue;
      found = completions[i];
      return true;
    }
    ::poll(nullptr, 0, 1);
  }
  return false;
}

// Sends `bytes` into a receive of full size.
Reported TryMessage(const TrialSubject& subject, std::uint32_t bytes) {
  const absl::StatusOr<Joined> joined = Join(subject, bytes);
  if (!joined.ok()) return joined.status();
  QueuePair& from = *joined->sender;
  QueuePair& to = *joined->receiver;
  const std::uint32_t slot = from.receives();  // The first send.
  const std::span<std::byte> message = from.Slot(slot);
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(i * 7 + 1);
  const absl::Status posted = from.PostSend(slot, bytes);
  if (!posted.ok()) return posted;
  Completion sent;
  Completion received;
  const bool is_sent = Await(from, false, sent);
  const bool is_received = Await(to, true, received);
  std::string text = !is_sent  ? "the send has not completed within a second"
                     : sent.ok ? "the send has completed"
                               : absl::StrCat("the send failed: ", sent.what);
  if (!is_received) return absl::UnavailableError(absl::StrCat(text, "; nothing was received"));
  if (!received.ok) {
    return absl::UnavailableError(absl::StrCat(text, "; the receive failed: ", received.what));
  }
  const bool same = received.bytes <= message.size() &&
                    std::memcmp(to.Slot(received.slot).data(), message.data(), received.bytes) == 0;
  absl::StrAppend(&text, "; ", received.bytes, " bytes were received, ",
                  same ? "unchanged" : "and some are WRONG");
  return same && is_sent && sent.ok ? Reported(text) : Reported(absl::DataLossError(text));
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
    {"destroy", "a queue pair is destroyed with receives posted", true,
     With<TryDestroy, &Limits::error_before_destroy, false>},
    {"region-large", "a region of 256 MiB", true, TryLargeRegion},
    {"region-shared", "a region of memory shared with another process, like clients' memory", true,
     TrySharedRegion},
    {"region-boundary", "a region that crosses a 4 GiB boundary", true, TryRegionOverBoundary},
    {"pairs", "how many more queue pairs can be made", true,
     With<CountPairs, &Limits::queue_pairs_max, 64>},
    {"regions", "how many more regions can be registered", true, CountRegions},
    // Last, because this call is reported to leave regions mapped forever.
    {"destroy-error", "a queue pair is destroyed after the error state", true,
     With<TryDestroy, &Limits::error_before_destroy, true>},
};

Reported ListDevices(const TrialSubject& subject) {
  const auto library = LoadLibrary(subject.library);
  if (!library.ok()) return library.status();
  const auto devices = (*library)->ListDevices();
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
  if (name == "devices") return ListDevices(subject);
  for (const Trial& trial : kTrials) {
    if (name == trial.name) return trial.run(subject);
  }
  return absl::InvalidArgumentError(absl::StrCat("no such trial: ", name));
}

}  // namespace mlxcomm::rdma
