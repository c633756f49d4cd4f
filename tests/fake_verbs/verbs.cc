// The calls of verbs that the daemon makes, over the fake's own objects: the rules that Apple's
// devices have are enforced here and in pair.cc.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/fake_verbs/control.h"
#include "tests/fake_verbs/pair.h"

#undef ibv_query_port
#undef ibv_reg_mr

#define MLXCOMM_EXPORT extern "C" __attribute__((visibility("default")))
// Functions that a library may lack; fake_verbs_least lacks them.
#ifdef FAKE_VERBS_LEAST
#define MLXCOMM_EXPORT_OPTIONAL extern "C"
#else
#define MLXCOMM_EXPORT_OPTIONAL MLXCOMM_EXPORT
#endif

namespace fake_verbs {
namespace {

constexpr std::uint64_t kRegionBoundary = std::uint64_t{1} << 32;

// In Apple's header and in Linux's, ibv_query_port has a different type of attributes.
template <typename Function>
struct ThirdOf;
template <typename Result, typename First, typename Second, typename Third>
struct ThirdOf<Result (*)(First, Second, Third)> {
  using Type = Third;
};
using PortAttributes = std::remove_pointer_t<ThirdOf<decltype(&::ibv_query_port)>::Type>;

bool Lies(const char* function) { return Control::Get().Lies(function); }

bool MayCall(const char* function) {
  if (Control::Get().MayCall(function)) return true;
  errno = EIO;
  return false;
}

// An object that a test keeps from being freed still belongs to the driver, and is not a leak.
int Keep(void* object) {
  static auto* const mutex = new std::mutex;
  static auto* const kept = new std::vector<void*>;
  const std::lock_guard lock(*mutex);
  kept->push_back(object);
  return EIO;
}

bool IsApples() { return Control::Get().Now().Number("unreliable_only", 1) != 0; }

ibv_gid GidOf(const std::string& text) {
  ibv_gid gid{};
  if (::inet_pton(AF_INET6, text.c_str(), gid.raw) == 1) return gid;
  gid.raw[10] = gid.raw[11] = 0xff;
  ::inet_pton(AF_INET, text.c_str(), gid.raw + 12);
  return gid;
}

// Never freed, like real devices' entries in lists.
std::vector<FakeDevice*>& Devices() {
  static auto* const devices = [] {
    auto* const made = new std::vector<FakeDevice*>;
    for (const auto& [name, gids] : Control::Get().Now().devices) {
      auto* const device = new FakeDevice{};
      std::strncpy(device->name, name.c_str(), sizeof device->name - 1);
#ifdef __linux__
      const std::string entry = Control::Get().folder() + "/entry_" + name;
      std::strncpy(device->dev_path, entry.c_str(), sizeof device->dev_path - 1);
#endif
      for (const std::string& gid : gids) device->gids.push_back(GidOf(gid));
      made->push_back(device);
    }
    return made;
  }();
  return *devices;
}

int PollQueue(ibv_cq* queue, int most, ibv_wc* completions) {
  if (!MayCall("ibv_poll_cq")) return -1;
  auto& from = *static_cast<FakeQueue*>(queue);
  const std::lock_guard lock(from.mutex);
  if (from.overrun) return -1;
  int count = 0;
  for (; count < most && !from.done.empty(); ++count) {
    completions[count] = from.done.front();
    from.last = from.done.front();
    from.done.pop_front();
  }
  if (Lies("ibv_poll_cq") && count < most) {
    completions[count] = from.last;
    completions[count].byte_len = 1u << 30;
    ++count;
  }
  return count;
}

int Notify(ibv_cq* queue, int) {
  if (!MayCall("ibv_req_notify_cq")) return EIO;
  if (Lies("ibv_req_notify_cq")) return 0;
  auto& of = *static_cast<FakeQueue*>(queue);
  const std::lock_guard lock(of.mutex);
  of.armed = true;
  return 0;
}

int PostSend(ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr** refused) {
  if (!MayCall("ibv_post_send")) return EIO;
  if (Lies("ibv_post_send")) return 0;
  for (; requests != nullptr; requests = requests->next) {
    *refused = requests;
    const int error = static_cast<FakePair*>(pair)->Post(*requests);
    if (error != 0) return error;
  }
  return 0;
}

int PostReceive(ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr** refused) {
  if (!MayCall("ibv_post_recv")) return EIO;
  if (Lies("ibv_post_recv")) return 0;
  for (; requests != nullptr; requests = requests->next) {
    *refused = requests;
    const int error = static_cast<FakePair*>(pair)->Post(*requests);
    if (error != 0) return error;
  }
  return 0;
}

// In the format of /proc/self/maps: "FIRST-END rwxs ...".
bool IsShared(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%zx-%zx %4s", &first, &end, access) != 3) continue;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at >= first && at < end) return access[3] == 's';
  }
  return false;
}

template <typename Object>
Object* Fails(int error) {
  errno = error;
  return nullptr;
}

}  // namespace
}  // namespace fake_verbs

using namespace fake_verbs;

MLXCOMM_EXPORT ibv_device** ibv_get_device_list(int* count) {
  if (!MayCall("ibv_get_device_list")) return nullptr;
  const auto& devices = Devices();
  auto** const list = new ibv_device* [devices.size() + 1] {};
  const Settings settings = Control::Get().Now();
  const auto end = std::copy_if(devices.begin(), devices.end(), list, [&](ibv_device* device) {
    return !settings.Has("taken", device->name);
  });
  if (count != nullptr) *count = static_cast<int>(end - list);
  return list;
}

MLXCOMM_EXPORT void ibv_free_device_list(ibv_device** list) {
  if (MayCall("ibv_free_device_list")) delete[] list;
}

MLXCOMM_EXPORT const char* ibv_get_device_name(ibv_device* device) {
  return MayCall("ibv_get_device_name") ? device->name : nullptr;
}

MLXCOMM_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  if (!MayCall("ibv_open_device")) return nullptr;
  auto* const context = new FakeContext{};
  context->device = device;
  context->of = static_cast<FakeDevice*>(device);
  context->ops.poll_cq = PollQueue;
  context->ops.req_notify_cq = Notify;
  context->ops.post_send = PostSend;
  context->ops.post_recv = PostReceive;
  return context;
}

MLXCOMM_EXPORT int ibv_close_device(ibv_context* context) {
  if (!MayCall("ibv_close_device")) return EIO;
  delete static_cast<FakeContext*>(context);
  return 0;
}

MLXCOMM_EXPORT_OPTIONAL int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  if (!MayCall("ibv_query_device")) return EIO;
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_qp = static_cast<int>(kPairsMax) + 1;  // One too many, as Apple's report.
  attributes->max_mr = static_cast<int>(kRegionsMax);
  attributes->max_qp_wr = static_cast<int>(kFramesMax);
  attributes->max_sge = 1;
  if (Lies("ibv_query_device"))
    attributes->max_qp = attributes->max_mr = attributes->max_qp_wr = -5;
  return 0;
}

MLXCOMM_EXPORT int ibv_query_port(ibv_context* context, std::uint8_t port, PortAttributes* result) {
  if (!MayCall("ibv_query_port") || port != 1) return EINVAL;
  const auto& device = *static_cast<FakeContext*>(context)->of;
  auto& attributes = *reinterpret_cast<ibv_port_attr*>(result);
  const bool down = Control::Get().Now().Has("down", device.name);
  attributes.state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
  attributes.max_mtu = attributes.active_mtu = IBV_MTU_4096;
  attributes.gid_tbl_len = static_cast<int>(device.gids.size());
  if (Lies("ibv_query_port"))
    std::memset(&attributes.active_mtu, 0x11, sizeof attributes.active_mtu);
  return 0;
}

MLXCOMM_EXPORT int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  if (!MayCall("ibv_query_gid") || port != 1) return -1;
  const auto& gids = static_cast<FakeContext*>(context)->of->gids;
  if (index < 0 || static_cast<std::size_t>(index) >= gids.size()) return -1;
  *gid = gids[static_cast<std::size_t>(index)];
  const bool waits = IsIpv4s(*gid) && Control::Get().Now().Has(
                                          "no_ipv4", static_cast<FakeContext*>(context)->of->name);
  if (waits) *gid = {};
  if (Lies("ibv_query_gid")) std::memset(gid->raw, 0xff, sizeof gid->raw);
  return 0;
}

MLXCOMM_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (!MayCall("ibv_alloc_pd")) return nullptr;
  auto* const domain = new FakeDomain;
  domain->context = context;
  return domain;
}

MLXCOMM_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  if (!MayCall("ibv_dealloc_pd")) return EIO;
  auto* const domain = static_cast<FakeDomain*>(pd);
  if (!domain->regions.empty()) {
    Control::Get().Fault("a protection domain goes while it has regions");
    return EBUSY;
  }
  delete domain;
  return 0;
}

MLXCOMM_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) {
  if (!MayCall("ibv_reg_mr")) return nullptr;
  auto& device = *static_cast<FakeContext*>(pd->context)->of;
  if (device.regions >= kRegionsMax) {
    Control::Get().Fault("a device is asked for one region too many");
    return Fails<ibv_mr>(ENOMEM);
  }
  if (device.regions >= Control::Get().Now().Number("regions", kRegionsMax)) {
    return Fails<ibv_mr>(ENOMEM);
  }
  if (Control::Get().Now().Has("refuse_shared", "1") && IsShared(address)) {
    return Fails<ibv_mr>(EOPNOTSUPP);
  }
  const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  if (IsApples() && access != all) return Fails<ibv_mr>(EINVAL);
  if (IsApples() && first / kRegionBoundary != (first + bytes - 1) / kRegionBoundary) {
    Control::Get().Fault("a region reaches over 4 GiB");
  }
  static std::atomic<std::uint32_t> next_key{1};
  auto* const region = new FakeRegion;
  region->context = pd->context;
  region->pd = pd;
  region->addr = address;
  region->length = bytes;
  region->lkey = region->rkey = next_key++;
  auto& domain = *static_cast<FakeDomain*>(pd);
  const std::lock_guard lock(domain.mutex);
  domain.regions[region->lkey] = region;
  device.regions += 1;
  if (Lies("ibv_reg_mr")) region->lkey += 1000;
  return region;
}

MLXCOMM_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  auto* const region = static_cast<FakeRegion*>(mr);
  if (!MayCall("ibv_dereg_mr")) return Keep(region);
  if (Lies("ibv_dereg_mr")) {
    Keep(region);
    return 0;
  }
  if (region->posted > 0) {
    Control::Get().Fault("a region goes while work requests may touch it");
    return EBUSY;
  }
  auto& domain = *static_cast<FakeDomain*>(region->pd);
  {
    const std::lock_guard lock(domain.mutex);
    domain.regions.erase(region->lkey);
  }
  static_cast<FakeContext*>(region->context)->of->regions -= 1;
  delete region;
  return 0;
}

MLXCOMM_EXPORT_OPTIONAL ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  if (!MayCall("ibv_create_comp_channel")) return nullptr;
  int ends[2];
  if (::pipe(ends) != 0) return nullptr;
  auto* const channel = new FakeChannel{};
  channel->context = context;
  channel->fd = ends[0];
  channel->writer = ends[1];
  return channel;
}

MLXCOMM_EXPORT_OPTIONAL int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (!MayCall("ibv_destroy_comp_channel")) return EIO;
  auto* const its = static_cast<FakeChannel*>(channel);
  ::close(its->fd);
  ::close(its->writer);
  delete its;
  return 0;
}

MLXCOMM_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cookie,
                                     ibv_comp_channel* channel, int) {
  if (!MayCall("ibv_create_cq")) return nullptr;
  auto* const queue = new FakeQueue{};
  queue->context = context;
  queue->channel = channel;
  queue->cq_context = cookie;
  queue->cqe = entries;
  return queue;
}

MLXCOMM_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  if (!MayCall("ibv_destroy_cq")) return EIO;
  auto* const queue = static_cast<FakeQueue*>(cq);
  if (queue->users > 0) {
    Control::Get().Fault("a completion queue goes before its queue pair");
    return EBUSY;
  }
  delete queue;
  return 0;
}

MLXCOMM_EXPORT_OPTIONAL int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue,
                                             void** cookie) {
  if (!MayCall("ibv_get_cq_event")) return -1;
  if (Lies("ibv_get_cq_event")) {
    *queue = nullptr;
    return 0;
  }
  FakeQueue* reported = nullptr;
  if (::read(channel->fd, &reported, sizeof reported) != sizeof reported) return -1;
  *queue = reported;
  *cookie = reported->cq_context;
  return 0;
}

MLXCOMM_EXPORT_OPTIONAL void ibv_ack_cq_events(ibv_cq*, unsigned int) {
  static_cast<void>(MayCall("ibv_ack_cq_events"));
}

MLXCOMM_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  if (!MayCall("ibv_create_qp")) return nullptr;
  auto& device = *static_cast<FakeContext*>(pd->context)->of;
  if (attributes->qp_type != IBV_QPT_UC && (IsApples() || attributes->qp_type != IBV_QPT_RC)) {
    return Fails<ibv_qp>(EOPNOTSUPP);
  }
  const ibv_qp_cap& wanted = attributes->cap;
  if (wanted.max_send_wr > kFramesMax || wanted.max_recv_wr > kFramesMax ||
      wanted.max_send_sge > 1 || wanted.max_recv_sge > 1 || attributes->srq != nullptr) {
    Control::Get().Fault("a queue pair is asked for with more than there may be");
    return Fails<ibv_qp>(EINVAL);
  }
  if (device.pairs >= kPairsMax) return Fails<ibv_qp>(EBUSY);
  auto pair = std::make_unique<FakePair>(*static_cast<FakeDomain*>(pd), *attributes);
  if (!pair->Listen()) return Fails<ibv_qp>(EIO);
  attributes->cap = pair->granted();
  return pair.release();
}

MLXCOMM_EXPORT int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  if (!MayCall("ibv_modify_qp")) return EIO;
  if (Lies("ibv_modify_qp")) return 0;
  return static_cast<FakePair*>(pair)->Modify(*attributes, mask);
}

MLXCOMM_EXPORT_OPTIONAL int ibv_query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int,
                                         ibv_qp_init_attr* initial) {
  if (!MayCall("ibv_query_qp")) return EIO;
  attributes->qp_state = pair->state;
  attributes->cap = initial->cap = static_cast<FakePair*>(pair)->granted();
  if (Lies("ibv_query_qp")) initial->cap.max_send_wr = initial->cap.max_recv_wr = 1u << 30;
  return 0;
}

MLXCOMM_EXPORT int ibv_destroy_qp(ibv_qp* pair) {
  if (!MayCall("ibv_destroy_qp")) return Keep(static_cast<FakePair*>(pair));
  if (Lies("ibv_destroy_qp")) {
    Keep(static_cast<FakePair*>(pair));
    return 0;
  }
  delete static_cast<FakePair*>(pair);
  return 0;
}

MLXCOMM_EXPORT_OPTIONAL const char* ibv_wc_status_str(ibv_wc_status status) {
  static_cast<void>(MayCall("ibv_wc_status_str"));
  switch (status) {
    case IBV_WC_SUCCESS: return "success";
    case IBV_WC_LOC_LEN_ERR: return "local length error";
    case IBV_WC_WR_FLUSH_ERR: return "work request flushed";
    default: return "error";
  }
}
