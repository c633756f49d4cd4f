#include "daemon/fabric/rdma/verbs_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace mlxcomm::fabric::rdma {
namespace {

#ifdef __APPLE__
constexpr char kLibrary[] = "/usr/lib/librdma.dylib";  // In the shared cache: no file is seen.
constexpr char kRemedy[] = "macOS 26.2 or later has it";
#else
constexpr char kLibrary[] = "libibverbs.so.1";
constexpr char kRemedy[] = "Debian's package is libibverbs1";
#endif

// False: there is none.
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
  MLXCOMM_FIND(query_device);
  MLXCOMM_FIND(query_port);
  MLXCOMM_FIND(query_gid);
  MLXCOMM_FIND(alloc_pd);
  MLXCOMM_FIND(dealloc_pd);
  MLXCOMM_FIND(reg_mr);
  MLXCOMM_FIND(dereg_mr);
  MLXCOMM_FIND(create_comp_channel);
  MLXCOMM_FIND(destroy_comp_channel);
  MLXCOMM_FIND(create_cq);
  MLXCOMM_FIND(destroy_cq);
  MLXCOMM_FIND(get_cq_event);
  MLXCOMM_FIND(ack_cq_events);
  MLXCOMM_FIND(create_qp);
  MLXCOMM_FIND(modify_qp);
  MLXCOMM_FIND(query_qp);
  MLXCOMM_FIND(destroy_qp);
  MLXCOMM_FIND(wc_status_str);
#undef MLXCOMM_FIND
  return nullptr;
}

}  // namespace

// Never closed: its threads and tables would go with it, under whoever still uses them.
absl::StatusOr<Verbs> LoadVerbs(const std::string& path) {
  void* const library = ::dlopen(path.empty() ? kLibrary : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return absl::UnavailableError(
        absl::StrCat("no library of verbs: ", why == nullptr ? "unknown" : why,
                     path.empty() ? absl::StrCat(" (", kRemedy, ")") : ""));
  }
  Verbs verbs{};
  if (const char* const missing = FirstMissing(library, verbs); missing != nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "the library of verbs ", path.empty() ? kLibrary : path, " lacks the function ", missing));
  }
  return verbs;
}

}  // namespace mlxcomm::fabric::rdma
