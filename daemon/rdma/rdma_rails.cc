#include "daemon/rdma/rdma_rails.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/rail/status_reason.h"
#include "daemon/rail/text_field.h"
#include "daemon/rdma/probe.h"
#include "daemon/rdma/rail_thread.h"
#include "proto/status_words.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::rdma {
namespace {

// Neighbours' messages that are queued for the next turn.
constexpr std::size_t kReceivedMax = 256;
// Extra queue pairs of a device, besides one for each path: the driver may not have given back old
// ones yet.
constexpr std::uint32_t kSpareQueuePairs = 2;

}  // namespace

struct RdmaRails::Probing {
  std::mutex mutex;
  platform::Wakeup* bell = nullptr;  // Null once the owner is gone.
  std::optional<absl::StatusOr<v1::TransportStatus>> found;
  std::atomic<bool> is_done{false};
};

struct RdmaRails::SideRail final : public SetupPort {
  SideRail(RdmaRails& rails, const NodeId& to, const rail::RailPath& on)
      : owner(rails), peer(to), path(on), rdma_path(on.local, on.remote, Transport::kRdma) {}

  void Send(const RailSetup& message) override { owner.SendTo(peer, message); }
  void Make(const QueuePairShape& shape) override {
    const auto paths = std::ranges::count_if(
        owner.side_rails_, [this](const auto& side) { return side->driver == driver; });
    ticket = ++owner.last_ticket_;
    driver->Make(ticket, shape, gid, static_cast<std::uint32_t>(paths) + kSpareQueuePairs);
  }
  void Connect(const QueuePairAddress& to) override {
    driver->Connect(ticket, std::move(pair), to);
  }
  absl::Status AddRail(std::uint64_t attempt, Service service, const QueuePairAddress& to) override;
  void Drop() override {
    if (ticket != 0) driver->Cancel(std::exchange(ticket, 0));
    if (pair != nullptr) driver->Destroy(std::move(pair));
    if (owner.links_.HasRailOver(peer, rdma_path)) {
      owner.links_.RemoveRail(peer, rdma_path, "replaced by a new attempt", LinkReason::kReplaced,
                              now_ns);
    }
  }

  RdmaRails& owner;
  const NodeId peer;
  const rail::RailPath path;
  const rail::RailPath rdma_path;
  Gid gid{};
  bool encrypted = false;
  ClusterKeyId key{};
  Fault why = {LinkReason::kLooking, "searching for devices"};
  std::string device;
  DriverThread* driver = nullptr;
  std::optional<Setup> setup;       // Set once a device is found.
  std::uint64_t ticket = 0;         // Identifies the driver's current job.
  std::unique_ptr<QueuePair> pair;  // Held until it becomes a rail.
  std::uint64_t now_ns = 0;
};

absl::Status RdmaRails::SideRail::AddRail(std::uint64_t attempt, Service service,
                                          const QueuePairAddress& to) {
  const auto text = [](const std::string& name, const QueuePairAddress& address) {
    return absl::StrCat(name, name.empty() ? "" : " ", GidText(address.gid), " queue pair ",
                        address.number);
  };
  const std::string local = text(device, pair->address());
  ReadyPair ready{.pair = std::move(pair),
                  .service = service,
                  .peer_receives = to.receives,
                  .connection = attempt,
                  .local_address = local,
                  .remote_address = text("", to),
                  .regions = driver->regions(),
                  .scheduling = owner.fabric_.scheduling};
  const std::string name = absl::StrCat("rdma ", ready.local_address, " - ", ready.remote_address);
  absl::StatusOr<std::unique_ptr<RdmaRail>> rail = RdmaRail::Create(ready, owner.bell_);
  if (!rail.ok()) {
    pair = std::move(ready.pair);  // The driver's thread must destroy it.
    return rail.status();
  }
  (*rail)->SetProvedWith(key);
  if (owner.fabric_.rail_observers) (*rail)->Observe(owner.fabric_.rail_observers(name));
  return owner.links_.AddSideRail(peer, *std::move(rail), rdma_path, now_ns);
}

RdmaRails::RdmaRails(RdmaOptions options, const link::FabricOptions& fabric, fabric::Links& links,
                     platform::Wakeup& bell)
    : options_(std::move(options)), fabric_(fabric), links_(links), bell_(bell) {}

RdmaRails::~RdmaRails() {
  for (const auto& side : side_rails_) {
    if (side->pair != nullptr) side->driver->Destroy(std::move(side->pair));
  }
  if (probing_ == nullptr) return;
  const std::lock_guard lock(probing_->mutex);
  probing_->bell = nullptr;
}

RdmaRails::SideRail* RdmaRails::Find(const NodeId& peer, const rail::RailPath& path) const {
  for (const auto& side : side_rails_) {
    if (side->peer == peer && side->path == path) return side.get();
  }
  return nullptr;
}

void RdmaRails::OnConnection(const Connection& connection) {
  if (!options_.enabled) return;
  SideRail* side = Find(connection.peer, connection.path);
  if (side == nullptr) {
    side = side_rails_
               .emplace_back(std::make_unique<SideRail>(*this, connection.peer, connection.path))
               .get();
  }
  side->encrypted = connection.encrypted;
  // The connection's proof also covers the rail beside it.
  side->key = connection.key;
  links_.ForEachConnection([&](const NodeId& peer, const rail::RailPath& path, rail::Rail& rail) {
    if (peer == side->peer && path == side->rdma_path) rail.SetProvedWith(connection.key);
  });
  if (side->gid != connection.local) {
    side->gid = connection.local;
    if (side->setup.has_value()) side->setup->Abandon();
    side->setup.reset();
  }
  check_ = true;
}

void RdmaRails::OnRailSetup(const NodeId& peer, std::span<const std::byte> payload) {
  if (payload.size() != sizeof(RailSetup) || received_.size() >= kReceivedMax) return;
  RailSetup message;
  std::memcpy(&message, payload.data(), sizeof message);
  const bool is_own = message.kind >= SetupKind::kOffer && message.kind <= SetupKind::kRefuse;
  if (is_own) received_.push_back({peer, message});  // Turn handles it.
}

void RdmaRails::OnInterfaceUp(std::uint64_t now_ns) {
  probe_pause_ns_ = kProbeAgainNsMin;
  if (!side_rails_.empty()) probe_again_ns_ = now_ns;
  for (const auto& side : side_rails_) {
    if (side->setup.has_value()) side->setup->TryNow(now_ns);
  }
}

void RdmaRails::StartProbe() {
  probe_again_ns_ = kNever;
  auto probing = std::make_shared<Probing>();
  probing->bell = &bell_;
  try {
    std::thread([probing, program = options_.probe_program, library = options_.library,
                 timeout_ns = options_.probe_timeout_ns] {
      auto found = Probe(program, library, timeout_ns);
      const std::lock_guard lock(probing->mutex);
      probing->found = std::move(found);
      probing->is_done.store(true, std::memory_order_release);
      if (probing->bell != nullptr) probing->bell->Ring();
    }).detach();
    probing_ = std::move(probing);
  } catch (const std::system_error& error) {
    found_ = absl::ResourceExhaustedError(std::string("no thread to probe RDMA: ") + error.what());
  }
}

bool RdmaRails::TakeProbe(std::uint64_t now_ns) {
  if (probing_ == nullptr || !probing_->is_done.load(std::memory_order_acquire)) return false;
  {
    const std::lock_guard lock(probing_->mutex);
    found_ = std::move(probing_->found);
  }
  probing_.reset();
  probe_again_ns_ = now_ns + probe_pause_ns_;
  probe_pause_ns_ = std::min(2 * probe_pause_ns_, kProbeAgainNsMax);
  return true;
}

LinkReason RdmaRails::ReasonNotFound() const {
  if (!found_.has_value()) return LinkReason::kLooking;
  if (found_->ok()) return LinkReason::kNone;
  if (absl::IsNotFound(found_->status())) return LinkReason::kNoLibrary;
  return absl::IsDeadlineExceeded(found_->status()) ? LinkReason::kDriverSilent
                                                    : LinkReason::kDriverFailed;
}

std::string RdmaRails::DeviceFor(const SideRail& side, Fault& why) const {
  if (side.encrypted) {
    why = {LinkReason::kEncrypted, absl::StrCat("connections over ", side.path.local,
                                                " require TLS, which RDMA rails do not support")};
    return {};
  }
  if (!found_->ok()) {
    why = {ReasonNotFound(), std::string(found_->status().message())};
    return {};
  }
  why = {LinkReason::kNoDevice, absl::StrCat("no RDMA device for ", side.path.local)};
  // By name, which states the cable's interface; otherwise by the link's address.
  const std::string named = absl::StrCat(apple::kDevicePrefix, side.path.local);
  for (const v1::TransportDevice& device : (*found_)->devices()) {
    if (device.name() != named) continue;
    if (device.active() && device.gids_size() > 0) return named;
    why = device.active() ? Fault{LinkReason::kNoGid, absl::StrCat(named, " has no GID")}
                          : Fault{LinkReason::kPortDown, absl::StrCat(named, ": ", device.state())};
  }
  for (const v1::TransportDevice& device : (*found_)->devices()) {
    const auto& gids = device.gids();
    if (device.active() && std::ranges::find(gids, GidText(side.gid)) != gids.end())
      return device.name();
  }
  if ((*found_)->devices().empty()) {
    why.text =
        "no RDMA device was found (on a Mac: Thunderbolt 5, macOS 26.2, and `rdma_ctl enable` in "
        "Recovery)";
  }
  return {};
}

bool RdmaRails::AnyWithoutDevice() const {
  return std::ranges::any_of(side_rails_,
                             [](const auto& side) { return !side->setup.has_value(); });
}

DriverThread* RdmaRails::DriverOf(const std::string& device, Fault& why) {
  std::unique_ptr<DriverThread>& driver = drivers_[device];
  if (driver == nullptr) {
    auto started = DriverThread::Start(
        {options_.library, device, options_.limits, options_.driver_program, fabric_.scheduling},
        bell_);
    if (!started.ok()) {
      why = {rail::ReasonOf(started.status(), LinkReason::kNotMade),
             std::string(started.status().message())};
      return nullptr;
    }
    driver = *std::move(started);
    for (const rail::ClientMemory& memory : memories_) driver->regions()->Add(memory);
  }
  return driver.get();
}

void RdmaRails::AddMemory(const rail::ClientMemory& memory) {
  memories_.push_back(memory);
  for (const auto& [device, driver] : drivers_) {
    if (driver != nullptr) driver->regions()->Add(memory);
  }
}

void RdmaRails::RemoveMemory(const std::byte* data) {
  for (const auto& [device, driver] : drivers_) {
    if (driver != nullptr) driver->regions()->Remove(data);
  }
  std::erase_if(memories_,
                [data](const rail::ClientMemory& memory) { return memory.data == data; });
}

void RdmaRails::GiveDevices(std::uint64_t now_ns) {
  for (const auto& side : side_rails_) {
    if (side->setup.has_value()) continue;
    side->device = DeviceFor(*side, side->why);
    if (side->device.empty()) continue;
    side->driver = DriverOf(side->device, side->why);
    if (side->driver == nullptr) continue;
    side->setup.emplace(*side, side->path, fabric_.self.id < side->peer, options_.limits);
    side->setup->TryNow(now_ns);
  }
}

std::size_t RdmaRails::TakeResults(std::uint64_t now_ns) {
  std::size_t count = 0;
  for (const auto& [device, driver] : drivers_) {
    if (driver == nullptr || !driver->has_results()) continue;
    DriverThread::Result result;
    for (; driver->Pop(result); ++count) {
      const auto of = std::ranges::find_if(side_rails_, [&](const auto& side) {
        return side->setup.has_value() && side->ticket == result.ticket;
      });
      if (of == side_rails_.end()) {
        if (result.pair != nullptr) driver->Destroy(std::move(result.pair));
        continue;
      }
      SideRail& side = **of;
      side.now_ns = now_ns;
      side.pair = std::move(result.pair);
      if (result.kind == DriverThread::Result::Kind::kConnected) {
        side.ticket = 0;
        side.setup->OnConnected(result.status, now_ns);
      } else if (result.status.ok()) {
        side.setup->OnMade(side.pair->address(), now_ns);
      } else {
        side.setup->OnMade(result.status, now_ns);
      }
    }
  }
  return count;
}

void RdmaRails::SendTo(const NodeId& peer, const RailSetup& message) {
  const wire::FrameHeader header{.type = wire::FrameType::kRailSetup,
                                 .payload_bytes = sizeof message};
  const absl::Status sent =
      links_.Send(peer, header, reinterpret_cast<const std::byte*>(&message), 0);
  // The channel has ended, which is noticed elsewhere.
  if (!sent.ok()) spdlog::debug("RDMA set-up: {}", std::string(sent.message()));
}

void RdmaRails::Refuse(const Received& received, const Fault& why) {
  if (received.message.kind == SetupKind::kRefuse) return;
  RailSetup answer{};
  answer.kind = SetupKind::kRefuse;
  answer.attempt = received.message.attempt;
  std::memcpy(answer.sender_interface, received.message.receiver_interface,
              sizeof answer.sender_interface);
  std::memcpy(answer.receiver_interface, received.message.sender_interface,
              sizeof answer.receiver_interface);
  answer.messages = static_cast<std::uint32_t>(why.reason);
  rail::PutText(why.text, answer.why);
  SendTo(received.peer, answer);
}

std::size_t RdmaRails::TakeMessages(std::uint64_t now_ns) {
  std::size_t count = 0;
  for (; !received_.empty(); received_.pop_front(), ++count) {
    const Received& received = received_.front();
    const rail::RailPath path(MakePrintable(rail::TextOf(received.message.receiver_interface)),
                              MakePrintable(rail::TextOf(received.message.sender_interface)));
    SideRail* const side = Find(received.peer, path);
    if (side == nullptr || !side->setup.has_value()) {
      const Fault none =
          options_.enabled
              ? Fault{LinkReason::kNotMade, "no such connection"}
              : Fault{LinkReason::kTransportOff,
                      "RDMA is off there (rdma { enabled: true } in its configuration)"};
      Refuse(received, side == nullptr ? none : side->why);
      continue;
    }
    side->now_ns = now_ns;
    side->setup->OnMessage(received.message, now_ns);
  }
  return count;
}

void RdmaRails::Check(std::uint64_t now_ns) {
  check_ = false;
  for (const auto& side : side_rails_) {
    if (!side->setup.has_value()) continue;
    side->now_ns = now_ns;
    const bool is_up = side->setup->state() == Setup::State::kUp;
    const bool has_rail = links_.HasRailOver(side->peer, side->rdma_path);
    if (is_up && !has_rail) side->setup->OnRailGone(now_ns);
    if (!has_rail && !links_.HasRailOver(side->peer, side->path)) side->setup->Abandon();
  }
  std::erase_if(side_rails_, [this](const auto& side) {
    return !links_.HasRailOver(side->peer, side->path) &&
           !links_.HasRailOver(side->peer, side->rdma_path);
  });
  if (!AnyWithoutDevice()) return;
  if (found_.has_value()) {
    GiveDevices(now_ns);
  } else if (probing_ == nullptr) {
    StartProbe();
  }
}

std::size_t RdmaRails::Turn(std::uint64_t now_ns) {
  if (side_rails_.empty() && received_.empty() && drivers_.empty()) return 0;
  if (TakeProbe(now_ns)) GiveDevices(now_ns);
  if (check_) Check(now_ns);
  const std::size_t count = TakeResults(now_ns) + TakeMessages(now_ns);
  for (const auto& side : side_rails_) {
    if (!side->setup.has_value() || now_ns < side->setup->deadline_ns()) continue;
    side->now_ns = now_ns;
    side->setup->OnTime(now_ns, fabric_.random() | 1);
  }
  const bool due = now_ns >= probe_again_ns_ && probing_ == nullptr;
  if (due && AnyWithoutDevice()) StartProbe();
  return count;
}

std::uint64_t RdmaRails::deadline_ns() const {
  std::uint64_t next = kNever;
  for (const auto& side : side_rails_) {
    if (side->setup.has_value()) next = std::min(next, side->setup->deadline_ns());
  }
  return AnyWithoutDevice() && probing_ == nullptr ? std::min(next, probe_again_ns_) : next;
}

// If RDMA was not requested, only doctor reports a cable without a device. A faulty device always
// is.
bool RdmaRails::IsReported(const SideRail& side) const {
  if (options_.reports || !side.device.empty()) return true;
  const LinkReason reason = side.why.reason;
  return reason == LinkReason::kPortDown || reason == LinkReason::kNoGid ||
         reason == LinkReason::kDriverSilent || reason == LinkReason::kDriverFailed;
}

void RdmaRails::Describe(v1::NodeStatus& status) const {
  if (options_.enabled) DescribeDevices(*status.add_transports());
  for (const auto& side : side_rails_) {
    v1::LinkStatus* const link = FindLink(status, side->peer.ToString());
    if (link == nullptr) continue;
    if (side->setup.has_value() && side->setup->state() == Setup::State::kUp) {
      for (v1::RailStatus& up : *link->mutable_rails()) {
        const bool its = up.transport() == v1::Transport::rdma &&
                         up.local_interface() == side->path.local &&
                         up.remote_interface() == side->path.remote;
        if (its) up.set_device(side->device);
      }
    } else if (IsReported(*side)) {
      DescribeMissing(*side, *link->add_rails());
    }
  }
}

void RdmaRails::DescribeMissing(const SideRail& side, v1::RailStatus& rail) {
  rail.set_transport(v1::Transport::rdma);
  rail.set_state(v1::RailState::down);
  rail.set_device(side.device);
  rail.set_local_address(side.device);
  rail.set_local_interface(side.path.local);
  rail.set_remote_interface(side.path.remote);
  rail.set_reason(Reported(side.why.reason));
  rail.set_detail(side.why.text);
  if (!side.setup.has_value()) return;
  const Setup& setup = *side.setup;
  rail.set_reason(Reported(setup.reason()));
  rail.set_peers_reason(setup.peers_reason());
  rail.set_detail(setup.detail());
  if (setup.reason() != LinkReason::kNone) return;
  rail.set_reason(setup.waits_for_offer() ? v1::LinkReason::no_offer : v1::LinkReason::being_made);
  rail.set_detail(setup.waits_for_offer() ? "the other side has not offered one yet"
                                          : "is being set up");
}

void RdmaRails::DescribeDevices(v1::TransportStatus& status) const {
  status.set_transport(v1::Transport::rdma);
  status.set_reason(Reported(ReasonNotFound()));
  if (!found_.has_value()) return;
  if (!found_->ok()) return status.set_detail(std::string(found_->status().message()));
  // More than any Mac has; the answer must fit into a message.
  constexpr int kDevicesMax = 16;
  constexpr int kGidsMax = 8;
  for (const v1::TransportDevice& found : (*found_)->devices()) {
    if (status.devices_size() == kDevicesMax) break;
    v1::TransportDevice& device = *status.add_devices();
    device = found;
    while (device.gids_size() > kGidsMax) device.mutable_gids()->RemoveLast();
    const auto driver = drivers_.find(device.name());
    if (driver != drivers_.end() && driver->second != nullptr) driver->second->Describe(device);
  }
}

}  // namespace mlxcomm::rdma
