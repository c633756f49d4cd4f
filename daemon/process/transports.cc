#include "daemon/process/transports.h"

#include <memory>
#include <vector>

#include "daemon/process/config_file.h"
#include "daemon/rdma/transport.h"

namespace mlxcomm {
namespace {

constexpr const fabric::SideTransport* kSideTransports[] = {&rdma::kTransport};

}  // namespace

fabric::SideRailsMaker MakeSideRails(const v1::DaemonConfig& config) {
  return
      [config](const link::FabricOptions& options, fabric::Links& links, platform::Wakeup& bell) {
        std::vector<std::unique_ptr<fabric::SideRails>> made;
        for (const fabric::SideTransport* const transport : kSideTransports) {
          made.push_back(transport->make(config, options, links, bell));
        }
        return made;
      };
}

std::optional<int> RunTransportsChild(int argc, char** argv) {
  for (const fabric::SideTransport* const transport : kSideTransports) {
    for (const fabric::ChildMode& mode : transport->child_modes) {
      if (argc != mode.count + 2 || argv[1] != mode.argument) continue;
      return mode.run(argv + 2, [](const std::string& path) { return ReadConfigFile(path); });
    }
  }
  return std::nullopt;
}

}  // namespace mlxcomm
