#include "daemon/rdma/verbs_library.h"

#include <dlfcn.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace mlxcomm::rdma {
namespace {

#ifdef __APPLE__
constexpr char kLibrary[] = "/usr/lib/librdma.dylib";  // It is in the shared cache, not in a file.
constexpr char kRemedy[] = "macOS 26.2 or later has it";
#else
constexpr char kLibrary[] = "libibverbs.so.1";
constexpr char kRemedy[] = "Debian's package is libibverbs1";
#endif

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

const char* FirstMissing(void* library, Verbs& verbs) {
#define MLXCOMM_FIND(name) \
  if (!Find(library, "ibv_" #name, verbs.name)) return "ibv_" #name
  MLXCOMM_FIND(get_device_list);
  MLXCOMM_FIND(free_device_list);
  MLXCOMM_FIND(get_device_name);
  MLXCOMM_FIND(open_device);
  MLXCOMM_FIND(close_device);
  MLXCOMM_FIND(query_port);
  MLXCOMM_FIND(query_gid);
  MLXCOMM_FIND(alloc_pd);
  MLXCOMM_FIND(dealloc_pd);
  MLXCOMM_FIND(reg_mr);
  MLXCOMM_FIND(dereg_mr);
  MLXCOMM_FIND(create_cq);
  MLXCOMM_FIND(destroy_cq);
  MLXCOMM_FIND(create_qp);
  MLXCOMM_FIND(modify_qp);
  MLXCOMM_FIND(destroy_qp);
#undef MLXCOMM_FIND
  return nullptr;
}

// Stand-ins for functions that JACCL does not load, so they may be missing on macOS. Limits then
// stay at their defaults, a pair has what it requested, and completions are polled.
int NoDeviceQuery(ibv_context*, ibv_device_attr*) { return ENOSYS; }
int NoPairQuery(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) { return ENOSYS; }
ibv_comp_channel* NoChannel(ibv_context*) {
  errno = ENOSYS;
  return nullptr;
}
int NoChannelToDestroy(ibv_comp_channel*) { return 0; }
int NoEvent(ibv_comp_channel*, ibv_cq**, void**) { return -1; }
void NoEventToAcknowledge(ibv_cq*, unsigned int) {}

void FindOrStandIn(void* library, Verbs& verbs) {
  if (!Find(library, "ibv_query_device", verbs.query_device)) verbs.query_device = NoDeviceQuery;
  if (!Find(library, "ibv_query_qp", verbs.query_qp)) verbs.query_qp = NoPairQuery;
  Find(library, "ibv_wc_status_str", verbs.wc_status_str);
  // All functions of channels or none: events that cannot be taken are useless.
  if (Find(library, "ibv_create_comp_channel", verbs.create_comp_channel) &&
      Find(library, "ibv_destroy_comp_channel", verbs.destroy_comp_channel) &&
      Find(library, "ibv_get_cq_event", verbs.get_cq_event) &&
      Find(library, "ibv_ack_cq_events", verbs.ack_cq_events)) {
    return;
  }
  verbs.create_comp_channel = NoChannel;
  verbs.destroy_comp_channel = NoChannelToDestroy;
  verbs.get_cq_event = NoEvent;
  verbs.ack_cq_events = NoEventToAcknowledge;
}

}  // namespace

// Never closed: the driver's threads and tables would go with it.
absl::StatusOr<Verbs> LoadVerbs(const std::string& path) {
  void* const library = ::dlopen(path.empty() ? kLibrary : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return absl::NotFoundError(
        absl::StrCat("cannot load the verbs library: ", why == nullptr ? "unknown" : why,
                     path.empty() ? absl::StrCat(" (", kRemedy, ")") : ""));
  }
  Verbs verbs{};
  if (const char* const missing = FirstMissing(library, verbs); missing != nullptr) {
    return absl::NotFoundError(absl::StrCat("the verbs library ", path.empty() ? kLibrary : path,
                                            " lacks the function ", missing));
  }
  FindOrStandIn(library, verbs);
  return verbs;
}

}  // namespace mlxcomm::rdma
