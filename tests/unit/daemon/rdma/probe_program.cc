// The program that probes and calls the driver in tests; the daemon does the same with these
// arguments.
#include <cstring>

#include "daemon/rdma/driver_process.h"
#include "daemon/rdma/probe.h"

int main(int argc, char** argv) {
  using namespace mlxcomm::rdma;
  if (argc == 3 && std::strcmp(argv[1], kDriverArgument) == 0) return RunDriver(kDriverSocket);
  if (argc != 3 || std::strcmp(argv[1], kProbeArgument) != 0) return 2;
  return RunProbe(argv[2]);
}
