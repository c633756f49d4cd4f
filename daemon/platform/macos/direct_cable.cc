// Uses IOKit's registry through dlopen, so that the daemon need not link any framework.
#include <dlfcn.h>

#include <cstdint>
#include <string_view>

#include "daemon/platform/interfaces.h"

namespace mlxcomm::platform {
namespace {

// Copied from <IOKit/IOKitLib.h>: objects are Mach ports, names have 128 bytes.
using IoObject = std::uint32_t;
using IoName = char[128];
constexpr char kServicePlane[] = "IOService";
constexpr int kParentsMax = 16;

struct Registry {
  void* (*matching)(std::uint32_t port, std::uint32_t options, const char* bsd_name);
  IoObject (*find)(std::uint32_t port, void* matching);  // Takes over `matching`.
  int (*parent)(IoObject entry, const char* plane, IoObject* parent);
  int (*class_of)(IoObject object, char* name);
  int (*release)(IoObject object);

  bool Load() {
    void* const kit = ::dlopen("/System/Library/Frameworks/IOKit.framework/IOKit", RTLD_LAZY);
    if (kit == nullptr) return false;
    return Find(kit, "IOBSDNameMatching", matching) &&
           Find(kit, "IOServiceGetMatchingService", find) &&
           Find(kit, "IORegistryEntryGetParentEntry", parent) &&
           Find(kit, "IOObjectGetClass", class_of) && Find(kit, "IOObjectRelease", release);
  }
  template <typename Function>
  static bool Find(void* kit, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(kit, name));
    return function != nullptr;
  }
};

}  // namespace

// Checks the class of the port and of its parent services. A port in bridge0 has no address of its
// own, so it never has connections; the bridge is elsewhere in the registry.
bool IsThunderboltNetwork(const std::string& interface_name) {
  static Registry registry{};
  static const bool loaded = registry.Load();
  if (!loaded || interface_name.empty()) return false;
  void* const matching = registry.matching(0, 0, interface_name.c_str());
  IoObject entry = matching == nullptr ? 0 : registry.find(0, matching);
  bool found = false;
  for (int i = 0; i < kParentsMax && entry != 0 && !found; ++i) {
    IoName name = {};
    found = registry.class_of(entry, name) == 0 &&
            std::string_view(name).rfind("AppleThunderboltIP", 0) == 0;
    IoObject above = 0;
    if (registry.parent(entry, kServicePlane, &above) != 0) above = 0;
    registry.release(entry);
    entry = above;
  }
  if (entry != 0) registry.release(entry);
  return found;
}

}  // namespace mlxcomm::platform
