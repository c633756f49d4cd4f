// Configurations for mlxcommd from a list of hosts with addresses: one for each host.
//
// Each listens on its own addresses. In a ring it connects to those of the next host, which are the
// ends of the cables between the two in MLX's hostfiles; else to those of every host after it,
// because one side of a link is enough.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/hosts/hostfile.h"

namespace mlxcomm::ctl {

struct ImportedConfig {
  std::string node_name;
  std::string text;  // A DaemonConfig in protobuf's text format.
};

struct ImportOptions {
  std::string path;     // The hosts' file, for comments and errors.
  std::string cluster;  // Empty: none; the daemon uses the name that came with its key.
  std::string key_file;
  std::uint16_t port = 0;
  std::string links;  // "ring", "all"; empty: LinksOf.
};

// A ring where the file says so (backend) or gives a host several addresses, else all.
std::string LinksOf(const Hostfile& file);
Failure MakeConfigs(const Hostfile& file, const ImportOptions& options,
                    std::vector<ImportedConfig>& configs);
// For programs: the hosts as HostfileJson has them, and the files of their configurations.
std::string ImportedJson(const Hostfile& file, const std::string& links,
                         const std::vector<std::string>& paths);

}  // namespace mlxcomm::ctl
