#include "daemon/rdma/verbs_device.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/rail/status_reason.h"
#include "daemon/rdma/verbs_queue_pair.h"

namespace mlxcomm::rdma {
namespace {

// GIDs in use come first; soft-RoCE has room for a thousand.
constexpr int kGidsMax = 64;

const char* StateText(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN: return "down";
    case IBV_PORT_INIT: return "initializing";
    case IBV_PORT_ARMED: return "armed";
    case IBV_PORT_ACTIVE: return "active";
    default: return "in an unknown state";
  }
}

// Linux deletes this file when it wants the device back, and usually waits until all have closed
// it.
std::string EntryOf([[maybe_unused]] ibv_context* context) {
#ifdef __linux__
  const char* const path = context->device->dev_path;
  if (path[0] != '\0' && ::access(path, F_OK) == 0) return path;
#endif
  return {};
}

Limits WithinDevice(Limits limits, const Verbs& verbs, ibv_context* context) {
  ibv_device_attr its{};
  if (verbs.query_device(context, &its) != 0) return limits;
  const auto at_most = [](std::uint32_t& limit, int has) {
    if (has > 0) limit = std::min(limit, static_cast<std::uint32_t>(has));
  };
  at_most(limits.queue_pairs_max, its.max_qp);
  at_most(limits.regions_max, its.max_mr);
  at_most(limits.frames_max, its.max_qp_wr);
  return limits;
}

DeviceFacts FactsOf(const Verbs& verbs, ibv_device* device) {
  DeviceFacts facts;
  const char* const name = verbs.get_device_name(device);
  facts.name = name == nullptr ? "" : name;
  ibv_context* const context = verbs.open_device(device);
  if (context == nullptr) {
    facts.opened = false;
    facts.state = absl::StrCat("cannot be opened: ", std::strerror(errno));
    return facts;
  }
  const ActivePort port = FindActivePort(verbs, context);
  facts.active = port.number != 0;
  facts.state = facts.active ? "active" : port.states;
  if (facts.active) {
    for (const auto& [index, gid] : ListGids(verbs, context, port)) facts.gids.push_back(gid);
  }
  verbs.close_device(context);
  return facts;
}

}  // namespace

absl::StatusOr<std::vector<DeviceFacts>> ListDevices(const std::string& library) {
  const absl::StatusOr<Verbs> verbs = LoadVerbs(library);
  if (!verbs.ok()) return verbs.status();
  int count = 0;
  ibv_device** const list = verbs->get_device_list(&count);
  if (list == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot list RDMA devices: ", std::strerror(errno)));
  }
  std::vector<DeviceFacts> devices;
  for (int i = 0; i < count; ++i) devices.push_back(FactsOf(*verbs, list[i]));
  verbs->free_device_list(list);
  return devices;
}

absl::StatusOr<std::shared_ptr<Device>> OpenDevice(const std::string& library,
                                                   const std::string& name, const Limits& limits) {
  const absl::StatusOr<Verbs> verbs = LoadVerbs(library);
  if (!verbs.ok()) return verbs.status();
  int count = 0;
  ibv_device** const list = verbs->get_device_list(&count);
  ibv_context* context = nullptr;
  bool found = false;
  for (int i = 0; list != nullptr && i < count && !found; ++i) {
    const char* const its_name = verbs->get_device_name(list[i]);
    found = its_name != nullptr && name == its_name;
    if (found) context = verbs->open_device(list[i]);
  }
  const int error = errno;
  if (list != nullptr) verbs->free_device_list(list);
  if (!found) return absl::NotFoundError(absl::StrCat("no RDMA device ", name));
  if (context == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("RDMA device ", name, " cannot be opened: ", std::strerror(error)));
  }
  ibv_pd* const domain = verbs->alloc_pd(context);
  if (domain == nullptr) {
    const int why = errno;
    verbs->close_device(context);
    return absl::UnavailableError(absl::StrCat(
        "RDMA device ", name, " did not create a protection domain: ", std::strerror(why)));
  }
  return std::make_shared<VerbsDevice>(*verbs, name, WithinDevice(limits, *verbs, context), context,
                                       domain);
}

ActivePort FindActivePort(const Verbs& verbs, ibv_context* context) {
  ActivePort port;
  ibv_device_attr device{};
  const int ports = verbs.query_device(context, &device) == 0 ? device.phys_port_cnt : 1;
  for (int number = 1; number <= ports; ++number) {
    ibv_port_attr attributes{};
    if (verbs.query_port(context, static_cast<std::uint8_t>(number), &attributes) != 0) {
      absl::StrAppend(&port.states, port.states.empty() ? "" : ", ", "port ", number,
                      " cannot be queried");
      continue;
    }
    if (attributes.state == IBV_PORT_ACTIVE) {
      return {static_cast<std::uint8_t>(number), attributes, ""};
    }
    absl::StrAppend(&port.states, port.states.empty() ? "" : ", ", "port ", number, " is ",
                    StateText(attributes.state));
  }
  if (port.states.empty()) port.states = "it has no port";
  return port;
}

std::vector<std::pair<int, Gid>> ListGids(const Verbs& verbs, ibv_context* context,
                                          const ActivePort& port) {
  std::vector<std::pair<int, Gid>> gids;
  const int count = std::min(port.attributes.gid_tbl_len, kGidsMax);
  for (int i = 0; i < count; ++i) {
    ibv_gid raw{};
    if (verbs.query_gid(context, port.number, i, &raw) != 0) continue;
    Gid gid;
    std::memcpy(gid.data(), raw.raw, gid.size());
    if (gid != Gid{}) gids.emplace_back(i, gid);
  }
  return gids;
}

void Leave(std::shared_ptr<const void> owner) {
  // Reachable for leak checkers.
  static auto* const mutex = new std::mutex;
  static auto* const left = new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(*mutex);
  left->push_back(std::move(owner));
}

// The driver pins the pages; `owner` is kept until it has released them.
class VerbsRegion final : public Region {
 public:
  VerbsRegion(std::shared_ptr<VerbsDevice> device, std::shared_ptr<const void> owner,
              ibv_mr* region)
      : Region(static_cast<const std::byte*>(region->addr), region->length, region->lkey),
        device_(std::move(device)),
        owner_(std::move(owner)),
        region_(region) {}
  // A region that the driver does not give back stays counted and mapped.
  ~VerbsRegion() override {
    if (device_->verbs_.dereg_mr(region_) == 0) {
      device_->regions_.fetch_sub(1);
    } else {
      Leave(owner_);
    }
  }

 private:
  const std::shared_ptr<VerbsDevice> device_;
  const std::shared_ptr<const void> owner_;
  ibv_mr* const region_;
};

absl::StatusOr<std::shared_ptr<const Region>> VerbsDevice::Register(const rail::ClientMemory& arena,
                                                                    std::byte* data,
                                                                    std::uint64_t bytes) {
  if (regions_.fetch_add(1) >= limits_.regions_max) {
    regions_.fetch_sub(1);
    return rail::WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "RDMA device ", name_, " has ", limits_.regions_max, " regions, which is the limit")),
        LinkReason::kDeviceExhausted);
  }
  const int access = limits_.remote_access
                         ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
                         : IBV_ACCESS_LOCAL_WRITE;
  ibv_mr* const region = verbs_.reg_mr(domain_, data, bytes, access);
  if (region == nullptr) {
    const int error = errno;
    regions_.fetch_sub(1);
    return rail::WithReason(
        absl::UnavailableError(absl::StrCat("RDMA device ", name_, " did not register memory (",
                                            bytes, " bytes): ", std::strerror(error))),
        LinkReason::kDeviceMemory);
  }
  return std::make_shared<const VerbsRegion>(shared_from_this(), arena.owner, region);
}

VerbsDevice::VerbsDevice(const Verbs& verbs, std::string name, const Limits& limits,
                         ibv_context* context, ibv_pd* domain)
    : verbs_(verbs),
      name_(std::move(name)),
      limits_(limits),
      entry_(EntryOf(context)),
      context_(context),
      domain_(domain) {}

bool VerbsDevice::IsThere() {
  if (!entry_.empty() && ::access(entry_.c_str(), F_OK) != 0) has_gone_.store(true);
  return !has_gone();
}

VerbsDevice::~VerbsDevice() {
  if (queue_pairs_ > 0 || regions_ > 0) return;  // The driver has not given them back.
  verbs_.dealloc_pd(domain_);
  verbs_.close_device(context_);
}

absl::StatusOr<std::unique_ptr<QueuePair>> VerbsDevice::MakeQueuePairIn(std::span<std::byte> memory,
                                                                        const QueuePairShape& shape,
                                                                        const Gid& gid) {
  return VerbsQueuePair::Make(shared_from_this(), shape, gid, memory);
}

}  // namespace mlxcomm::rdma
