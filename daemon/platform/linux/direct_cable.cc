#include "daemon/platform/direct_cable.h"

#include <filesystem>
#include <system_error>

namespace mlxcomm::platform {

bool IsThunderboltNetwork(const std::string& interface_name) {
  if (interface_name.empty() || interface_name.find('/') != std::string::npos) return false;
  const std::filesystem::path folder = "/sys/class/net/" + interface_name;
  std::error_code error;
  const std::filesystem::path driver =
      std::filesystem::read_symlink(folder / "device" / "driver", error);
  if (error || driver.filename() != "thunderbolt-net") return false;
  return !std::filesystem::exists(folder / "master", error) && !error;
}

}  // namespace mlxcomm::platform
