#include "daemon/process/transports.h"

#include <vector>

#include "daemon/process/rdma_transport.h"

namespace mlxcomm {
namespace {

constexpr SideTransport kSideTransports[] = {
    {Transport::kRdma, MakeRdmaRails, DescribeRdma},
};

}  // namespace

fabric::SideRailsMaker MakeSideRails(const v1::DaemonConfig& config) {
  return
      [config](const fabric::FabricOptions& options, fabric::Links& links, platform::Wakeup& bell) {
        std::vector<std::unique_ptr<fabric::SideRails>> made;
        for (const SideTransport& one : kSideTransports) {
          made.push_back(one.make(config, options, links, bell));
        }
        return made;
      };
}

void DescribeSideRails(const fabric::TcpFabric& fabric, v1::NodeStatus& node) {
  for (const auto& rails : fabric.side_rails()) {
    for (const SideTransport& one : kSideTransports) {
      if (one.transport == rails->transport() && one.describe != nullptr) {
        one.describe(*rails, node);
      }
    }
  }
}

}  // namespace mlxcomm
