#include "daemon/process/rdma_trial.h"

#include <cstdio>

#include "daemon/process/config_file.h"
#include "daemon/process/rdma_transport.h"
#include "daemon/transport/rdma/trials.h"
#include "proto/types/plain_text.h"

namespace mlxcomm {

int TryRdma(const std::string& config_file, const std::string& name, const std::string& device) {
  const auto read = ReadConfigFile(config_file);
  const v1::RdmaConfig config = read.ok() ? read->rdma() : v1::RdmaConfig();
  const fabric::rdma::RdmaOptions options = MakeRdmaOptions(config);
  absl::StatusOr<std::string> told;
  if (name == "limits") {
    told = DescribeLimits(config);
    if (!read.ok()) {
      *told +=
          "configuration\tdefaults\t" + MakePrintable(std::string(read.status().message())) + "\n";
    }
  } else {
    told = fabric::rdma::RunTrial(name, {options.library, options.limits, device});
  }
  const std::string text = told.ok() ? *told : MakePrintable(std::string(told.status().message()));
  std::printf("%s\n%s\n", told.ok() ? "worked" : "refused", text.c_str());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace mlxcomm
