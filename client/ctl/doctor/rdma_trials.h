// The reports of mlxcommd's processes that try a machine's RDMA devices
// (daemon/transport/rdma/trials.h): each trial is a process of its own with a deadline, so that one
// that hangs or crashes does not hide the others. For reports and for first light.
//
// Thread: main; takes some seconds, more where a driver hangs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

struct RdmaTrialsOptions {
  std::string program = "mlxcommd";  // The program whose processes try them.
  std::string config_file;           // The daemon's; empty: defaults.
  std::uint64_t trial_timeout_ns = 15'000'000'000;
  // For all together; further trials are left out.
  std::uint64_t all_timeout_ns = ~std::uint64_t{0};
};

struct RdmaLimit {
  std::string name;
  std::string value;
  std::string source;
};

struct RdmaTrial {
  std::string name;
  std::string tries;    // For people.
  std::string verdict;  // "worked", "refused", "hung", "crashed"
  std::string text;
};

struct TriedDevice {
  std::string name;
  bool active = false;  // Its port is active; else it was only described.
  std::string state;
  std::vector<std::string> gids;
  std::vector<RdmaTrial> trials;
  bool held = false;  // Its driver holds a process, so no more trials were run on it.
};

struct RdmaTrials {
  std::vector<RdmaLimit> limits;
  std::string limits_trouble;  // Empty, as below: none.
  std::vector<TriedDevice> devices;
  std::string devices_trouble;
  std::string trials_trouble;
  bool out_of_time = false;
};

RdmaTrials TryRdma(const RdmaTrialsOptions& options);

}  // namespace mlxcomm::ctl
